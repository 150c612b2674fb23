"""Containers of samples that a learner stores or joins from several places, read like a `View`."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch

from embedbench.array_types import Array, Ints, Labels
from embedbench.streams.stream import Session, StreamSpec
from embedbench.streams.view import View

from .footprint import Footprint

VALUES = 2**26  # about the most values of a block


class Packing:
    """The form of stored samples in memory: images as bytes, everything else as float32.

    Pixels are float32 = byte · factor + offset. The map is exactly invertible, so bytes can be
    stored and decoded without loss. Samples stay float32 if the stream has no scaling, or a scaling
    whose 256 levels float32 cannot distinguish.
    """

    def __init__(self, spec: StreamSpec, device: str | torch.device) -> None:
        self.dtype = torch.float32
        if spec.scaling is None:
            return
        self._factor, self._offset = (
            torch.tensor(v, device=device)[:, None, None] for v in spec.scaling
        )
        levels = torch.arange(256, dtype=torch.uint8, device=device).expand(
            len(self._factor), 1, 256
        )
        self.dtype = torch.uint8
        if not torch.equal(self.pack(self.unpack(levels)), levels):
            self.dtype = torch.float32

    def pack(self, x: torch.Tensor) -> torch.Tensor:
        """The stored values of x (b, *shape) float32; the number of values is the same."""
        if self.dtype == torch.float32:
            return x
        return ((x - self._offset) / self._factor).round_().to(torch.uint8)

    def unpack(self, held: torch.Tensor) -> torch.Tensor:
        """The samples behind stored values, (b, *shape) float32, as from `PixelTable.take`."""
        if self.dtype == torch.float32:
            return held
        return held.to(torch.float32).mul_(self._factor).add_(self._offset)


def blocks(x: Any, device: str | torch.device) -> Iterator[torch.Tensor]:
    """The samples of a `View`, or of what is read like one, in order; together they are all of x.

    There is one block unless x has more than VALUES values, whatever the machine. The others have a
    multiple of 1024 samples, as the parts of `in_parts`.
    """
    index = torch.arange(len(x), device=device)
    each = x.batch(index[:1], device).numel()
    if len(x) * each <= VALUES:
        yield x.tensor(device)
    else:
        size = 1024 * max(1, VALUES // (1024 * each))
        yield from (x.batch(part, device) for part in torch.split(index, size))


def with_data(session: Session, x: Any, y: Array, **more: Any) -> Session:
    """The session with other training samples x, read like a `View`, of labels y."""
    return replace(session, x=x, y=y, **more)


@dataclass(frozen=True)
class Rows:
    """Samples that a learner stores, (n, *shape): x, as float32 or as packed by `packing`."""

    x: torch.Tensor
    packing: Packing | None = None

    def __len__(self) -> int:
        return len(self.x)

    def select(self, index: Ints) -> Self:
        """The samples `index`, (m,), in that order, as of a `View`."""
        return replace(self, x=self.x[torch.from_numpy(index).to(self.x.device)])

    def batch(self, index: torch.Tensor, device: str | torch.device) -> torch.Tensor:
        """The samples `index`, (b, *shape) float32."""
        held = self.x[index]
        return (held if self.packing is None else self.packing.unpack(held)).to(device)


@dataclass(frozen=True)
class JoinedView:
    """A view followed by `extra` samples of the same shape; neither is copied. See `View`."""

    view: View
    extra: Rows

    def __len__(self) -> int:
        return len(self.view) + len(self.extra)

    def select(self, index: Ints) -> Self:
        """The samples `index`, (m,): those of the view, then the others."""
        n = len(self.view)
        extra = self.extra.select(index[index >= n] - n)
        return replace(self, view=self.view.select(index[index < n]), extra=extra)

    def batch(self, index: torch.Tensor, device: str | torch.device = "cpu") -> torch.Tensor:
        """The samples `index` (int64, on `device`), (b, *shape) float32."""
        n = len(self.view)
        first = index < n
        x = torch.empty(len(index), *self.view.shape, device=device)
        x[first] = self.view.batch(index[first], device)
        x[~first] = self.extra.batch(index[~first] - n, device)
        return x


class Store:
    """All samples of the sessions so far with their labels, numbered in the order they came.

    If a sample comes again with its columns permuted differently, it counts as one more sample; its
    values are kept once. Samples have `width` columns, or positions H·W of images. With label sets
    of `n_labels` classes, a sample that comes again is the same sample, with the labels of both
    times.
    """

    def __init__(self, width: int, n_labels: int = 0) -> None:
        self.width = width
        self.views: list[View] = []
        self.ids: Ints = np.zeros(0, np.int64)  # used only with label sets
        self.y: Array = np.zeros(0, np.int32)
        if n_labels:
            self.y = np.zeros((0, n_labels), np.bool_)

    def __len__(self) -> int:
        return len(self.y)

    def add(self, view: View, y: Labels, ids: Ints | None = None) -> None:
        """Store the samples of `view`, (n, D), with labels y, (n,) or (n, C).

        With label sets, `ids` (n,) identify samples that are already stored.
        """
        if self.y.ndim == 2:
            assert ids is not None
            new = ~np.isin(ids, self.ids)
            order = np.argsort(self.ids, kind="stable")
            self.y[order[np.searchsorted(self.ids, ids[~new], sorter=order)]] |= y[~new]
            self.ids = np.concatenate([self.ids, ids[new]])
            view = view.select(np.flatnonzero(new))
            y = y[new]
        if self.views and self.views[-1].joinable(view):
            self.views[-1] = self.views[-1].joined(view)
        else:
            self.views.append(view)
        self.y = np.concatenate([self.y, y.astype(self.y.dtype)])

    def take(self, index: Ints) -> torch.Tensor:
        """A copy of the samples `index`, (n,), in that order: (n, *shape) float32 on the CPU."""
        x = torch.empty(len(index), *(self.views[0].shape if self.views else (self.width,)))
        start = 0
        for view in self.views:
            here = np.flatnonzero((index >= start) & (index < start + len(view)))
            x[torch.from_numpy(here)] = view.batch(torch.from_numpy(index[here] - start))
            start += len(view)
        return x

    def batch(self, index: torch.Tensor, device: str | torch.device = "cpu") -> torch.Tensor:
        """The samples `index`, (n,) int64 on `device`, as `View.batch` returns them."""
        if len(self.views) == 1:
            return self.views[0].batch(index, device)
        return self.take(index.cpu().numpy()).to(device)

    def tensor(self, device: str | torch.device = "cpu") -> torch.Tensor:
        """A copy of all samples, (n, *shape) float32 on `device`."""
        return self.batch(torch.arange(len(self), device=device), device)

    def footprint(self) -> Footprint:
        """Values and labels as "samples"; positions and permutations as "index"."""
        values, index = View.nbytes(self.views)
        return Footprint(samples=values + self.y.nbytes, index=index + self.ids.nbytes)

    def state_dict(self) -> dict[str, Any]:
        """The stored samples, without the unused rows of their tables."""
        return {"y": self.y, "ids": self.ids, **View.state_dict(self.views)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.y = state["y"]
        self.ids = state["ids"]
        self.views = View.from_state_dict(state)
