"""Samples that a learner stores, as views of resident tables: storing them copies nothing."""

from typing import Any

import numpy as np
import torch

from embedbench.arrays import Array, Ints, Labels
from embedbench.streams.view import View

from .footprint import Footprint


class Store:
    """All samples of the sessions so far with their labels, numbered in the order they came.

    If a sample comes again with its columns permuted differently, it counts as one more sample; its
    values are kept once. With label sets, a sample that comes again is the same sample, with the
    labels of both times.

    Parameters
    ----------
    width : int
        Number of columns of a sample; for images the number of positions, H·W.
    n_labels : int
        C if labels are sets (n, C) bool; 0 if they are classes (n,).
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
            self._unite(ids[~new], y[~new])
            self.ids = np.concatenate([self.ids, ids[new]])
            view, y = view.select(np.flatnonzero(new)), y[new]
        if self.views and self.views[-1].joinable(view):
            self.views[-1] = self.views[-1].joined(view)
        else:
            self.views.append(view)
        self.y = np.concatenate([self.y, y.astype(self.y.dtype)])

    def _unite(self, ids: Ints, y: Labels) -> None:
        """Add labels to samples that are already stored."""
        order = np.argsort(self.ids, kind="stable")
        self.y[order[np.searchsorted(self.ids, ids, sorter=order)]] |= y

    def take(self, index: Ints) -> torch.Tensor:
        """A copy of the samples `index`, (n,), in that order: (n, *shape) float32 on the CPU."""
        x = torch.empty(len(index), *(self.views[0].shape if self.views else (self.width,)))
        start = 0
        for view in self.views:
            here = np.flatnonzero((index >= start) & (index < start + len(view)))
            x[torch.from_numpy(here)] = view.batch(torch.from_numpy(index[here] - start))
            start += len(view)
        return x

    def batch(self, index: torch.Tensor, device: str = "cpu") -> torch.Tensor:
        """The samples `index`, (n,) int64 on `device`, as `View.batch` returns them."""
        if len(self.views) == 1:
            return self.views[0].batch(index, device)
        return self.take(index.cpu().numpy()).to(device)

    def tensor(self, device: str = "cpu") -> torch.Tensor:
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
        """Continue from `state`."""
        self.y, self.ids = state["y"], state["ids"]
        self.views = View.from_state_dict(state)
