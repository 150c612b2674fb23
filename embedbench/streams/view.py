"""Views: rows of a table, as sessions and eval sets hold them. Nothing is copied until asked.

NumPy only; torch is imported when a tensor is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from embedbench.array_types import Float32s, Ints

from .feature_tables import Table, table_from

BLACK = -1  # in `View.columns`: a column that is black, whatever the sample

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class View:
    """Rows of a table, with permuted columns, and cut or zero-padded on the right.

    Embeddings are (n, width), images are (n, C, H, W); both are float32. A learner gets views, and
    reads the samples of a view, not the table: its other rows are test samples and later sessions.

    Parameters
    ----------
    _table : Table
        The table.
    _rows : array of int
        (n,) row numbers in the table.
    width : int
        Columns of the view; H·W for images. A narrower table is padded with zeros on the right; a
        wider one that is not permuted is cut to its first columns.
    columns : array of int or None
        (D,) column k of the view is column `columns[k]` of the table. For images, (H·W,): position
        k is position `columns[k]` of the image, in all channels. -1: black, as the corners of an
        image that was turned. None: no permutation.
    """

    _table: Table = field(repr=False)
    _rows: Ints = field(repr=False)
    width: int
    columns: Ints | None = None

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a sample, (width,) or (C, H, W)."""
        return self._table.shape_of(self._span)

    @property
    def _span(self) -> int:
        """Columns of the table that the view may read, and of the samples."""
        return self.width if self.columns is None else max(self.width, len(self.columns))

    def numpy(self) -> Float32s:
        """Copy the view out, (n, *shape) float32."""
        x = self._table.numpy(self._rows, self.width, self._read_columns)
        return self._table.blacken(x, self._black_columns) if len(self._black_columns) else x

    def tensor(self, device: str | torch.device = "cpu") -> torch.Tensor:
        """Copy the view out as a tensor on `device`, (n, *shape) float32."""
        return self.batch(None, device)

    def batch(self, index: torch.Tensor | None, device: str | torch.device = "cpu") -> torch.Tensor:
        """The samples `index` (int64, on `device`; None: all), (b, *shape) float32."""
        device = str(device)  # tables know their devices by name
        rows = self._index(device, "rows", self._rows)
        read = self._read_columns
        columns = None if read is None else self._index(device, "columns", read)
        chosen = rows if index is None else rows[index]
        x = self._table.take(chosen, self.width, columns, device)
        if not len(self._black_columns):
            return x
        return self._table.blacken(x, self._index(device, "black", self._black_columns))

    @cached_property
    def _read_columns(self) -> Ints | None:
        """`columns`, with any column of the table where they are black."""
        return None if self.columns is None else np.maximum(self.columns, 0)

    @cached_property
    def _black_columns(self) -> Ints:
        """(k,) the columns of the view that are black."""
        return np.flatnonzero([] if self.columns is None else self.columns == BLACK)

    def select(self, index: Ints) -> View:
        """A view of the samples `index`, (m,), in that order; no values are copied."""
        return replace(self, _rows=self._rows[index])

    def joinable(self, other: View) -> bool:
        """Whether both views read one table, through the same permutation and with one width."""
        alike = self._table is other._table and self.columns is other.columns
        return alike and self.width == other.width

    def joined(self, *others: View) -> View:
        """A view of these samples and then of those of `others`; no values are copied.

        Raises
        ------
        ValueError
            The views are not `joinable`.
        """
        if not all(map(self.joinable, others)):
            raise ValueError(
                "joined() takes views of one table, through the same permutation and with one "
                "width; keep others side by side, in a list or in a `Store`"
            )
        return replace(self, _rows=np.concatenate([v._rows for v in (self, *others)]))

    @staticmethod
    def state_dict(views: Sequence[View]) -> dict[str, Any]:
        """Views as data for a checkpoint, with the rows in use of their tables, each row once."""
        used = _used(views)
        number = {id(table): k for k, (table, _, _) in enumerate(used)}
        states: list[dict[str, Any]] = []
        for v in views:
            k = number[id(v._table)]
            permuted = {} if v.columns is None else {"columns": v.columns}
            rows = np.searchsorted(used[k][1], v._rows)
            states.append({"table": k, "rows": rows, "width": v.width, **permuted})
        tables = [table.part(rows, span).state_dict() for table, rows, span in used]
        return {"tables": tables, "views": states}

    @staticmethod
    def from_state_dict(state: dict[str, Any]) -> list[View]:
        """The views of a `state_dict`, over tables of the rows in use alone."""
        tables = [table_from(t) for t in state["tables"]]
        return [
            View(tables[v["table"]], v["rows"], v["width"], v.get("columns"))
            for v in state["views"]
        ]

    @staticmethod
    def nbytes(views: Sequence[View]) -> tuple[int, int]:
        """Bytes of the values of views, each row once, and of row numbers and permutations."""
        values = sum(
            rows.size * table.part(rows[:1], span).values.nbytes
            for table, rows, span in _used(views)
        )
        columns = sum(v.columns.nbytes for v in views if v.columns is not None)
        return values, sum(v._rows.nbytes for v in views) + columns

    @cached_property
    def _indices(self) -> dict[tuple[str, str], torch.Tensor]:
        return {}

    def _index(self, device: str, name: str, values: Ints) -> torch.Tensor:
        """The index array `name` on `device`, moved there once."""
        key = (device, name)
        if key not in self._indices:
            import torch

            self._indices[key] = torch.from_numpy(np.ascontiguousarray(values)).to(device)
        return self._indices[key]


@dataclass(frozen=True)
class WatchedView(View):
    """A view that says when its samples are read: the runner knows then that they were."""

    read: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)

    def numpy(self) -> Float32s:
        self.read()
        return super().numpy()

    def batch(self, index: torch.Tensor | None, device: str | torch.device = "cpu") -> torch.Tensor:
        self.read()
        return super().batch(index, device)


def table_of(view: View) -> Table:
    """The table behind a view: for streams, runner and checks, never for a learner."""
    return view._table


def rows_of(view: View) -> Ints:
    """(n,) the row numbers of a view in its table: for streams, runner and checks alone."""
    return view._rows


def _used(views: Sequence[View]) -> list[tuple[Table, Ints, int]]:
    """The tables behind views, each with its rows in use, ascending, and its columns in use."""
    behind: dict[int, list[View]] = {}
    for v in views:
        behind.setdefault(id(v._table), []).append(v)
    return [
        (
            same[0]._table,
            np.unique(np.concatenate([v._rows for v in same])),
            max(v._span for v in same),
        )
        for same in behind.values()
    ]
