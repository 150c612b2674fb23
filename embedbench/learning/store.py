"""Samples that a learner stores, as views of resident tables: storing them copies nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from embedbench.arrays import Ints, Labels
from embedbench.streams.table import PixelTable, Table, View

from .learner import Footprint


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
        self.y: NDArray[Any] = np.zeros(0, np.int32)
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
            view, y = replace(view, rows=view.rows[new]), y[new]
        last = self.views[-1] if self.views else None
        if last and last.table is view.table and last.columns is view.columns:
            self.views[-1] = replace(view, rows=np.concatenate([last.rows, view.rows]))
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

    def _tables(self) -> list[tuple[Table, Ints]]:
        """The tables behind the views, each with the rows in use, ascending."""
        tables = {id(v.table): v.table for v in self.views}
        return [
            (t, np.unique(np.concatenate([v.rows for v in self.views if v.table is t])))
            for t in tables.values()
        ]

    def footprint(self) -> Footprint:
        """Values and labels as "samples"; positions and permutations as "index"."""
        values = sum(
            rows.size * t.part(rows[:1], self.width).values.nbytes for t, rows in self._tables()
        )
        index = sum(v.rows.nbytes for v in self.views) + self.ids.nbytes
        columns = sum(v.columns.nbytes for v in self.views if v.columns is not None)
        return Footprint(samples=values + self.y.nbytes, index=index + columns)

    def state_dict(self) -> dict[str, Any]:
        """The stored samples, without the unused rows of their tables."""
        tables = self._tables()
        number = {id(t): k for k, (t, _) in enumerate(tables)}
        return {
            "y": self.y,
            "ids": self.ids,
            "tables": [t.part(rows, self.width).values for t, rows in tables],
            "scaling": [t.scaling for t, _ in tables],
            "views": [
                {
                    "table": number[id(v.table)],
                    "rows": np.searchsorted(tables[number[id(v.table)]][1], v.rows),
                    "columns": v.columns,
                }
                for v in self.views
            ],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state`."""
        tables = [
            PixelTable(values, *scaling) if scaling else Table(values)
            for values, scaling in zip(state["tables"], state["scaling"], strict=True)
        ]
        self.y, self.ids = state["y"], state["ids"]
        self.views = [
            View(tables[v["table"]], v["rows"], self.width, v["columns"]) for v in state["views"]
        ]
