"""Samples that a learner stores or joins from several places, readable like a `View`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from embedbench.streams.stream import StreamSpec
from embedbench.streams.view import View

VALUES = 2**26  # about the most values of a block


class Packing:
    """How stored samples lie in memory: images as bytes, everything else as float32.

    Pixels are float32 = byte · factor + offset. The map is exactly invertible, so bytes can be
    stored and decoded without loss. Samples stay float32 if the stream has no scaling, or a scaling
    whose 256 levels float32 cannot distinguish.
    """

    def __init__(self, spec: StreamSpec, device: str) -> None:
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

    def pack(self, x: Tensor) -> Tensor:
        """The stored values of x (b, *shape) float32; the number of values is the same."""
        if self.dtype == torch.float32:
            return x
        return ((x - self._offset) / self._factor).round_().to(torch.uint8)

    def unpack(self, held: Tensor) -> Tensor:
        """The samples behind stored values, (b, *shape) float32, as from `PixelTable.take`."""
        if self.dtype == torch.float32:
            return held
        return held.to(torch.float32).mul_(self._factor).add_(self._offset)


def blocks(x: Any, device: str) -> Iterator[Tensor]:
    """The samples of a `View`, or of what is read like one, in order; together they are all of x.

    There is one block unless x has more than VALUES values, whatever the machine. The others have a
    multiple of 1024 samples, as the parts of `in_parts`.
    """
    index = torch.arange(len(x), device=device)
    each = max(1, x.batch(index[:1], device)[0].numel()) if len(x) else 1
    if len(x) * each <= VALUES:
        yield x.tensor(device)
    else:
        size = 1024 * max(1, VALUES // (1024 * each))
        yield from (x.batch(part, device) for part in torch.split(index, size))


@dataclass(frozen=True)
class Rows:
    """Samples that a learner stores, (n, *shape): x, as float32 or as packed by `packing`."""

    x: Tensor
    packing: Packing | None = None

    def __len__(self) -> int:
        return len(self.x)

    def batch(self, index: Tensor, device: str) -> Tensor:
        """The samples `index`, (b, *shape) float32."""
        held = self.x[index]
        return (held if self.packing is None else self.packing.unpack(held)).to(device)


@dataclass(frozen=True)
class JoinedView:
    """A view followed by `extra` samples of the same shape; neither is copied."""

    view: View
    extra: Rows

    def __len__(self) -> int:
        return len(self.view) + len(self.extra)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a sample, as of the view."""
        return self.view.shape

    def numpy(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        """A copy of the view and the extra samples, (n + m, *shape) float32."""
        return self.batch(None).numpy()

    def tensor(self, device: str = "cpu") -> Tensor:
        """A copy of the view and the extra samples on `device`, (n + m, *shape) float32."""
        return self.batch(None, device)

    def batch(self, index: Tensor | None, device: str = "cpu") -> Tensor:
        """The samples `index` (int64, on `device`; None: all), (b, *shape) float32."""
        n = len(self.view)
        if index is None:
            index = torch.arange(len(self), device=device)
        first = index < n
        x = torch.empty(len(index), *self.shape, device=device)
        x[first] = self.view.batch(index[first], device)
        x[~first] = self.extra.batch(index[~first] - n, device)
        return x
