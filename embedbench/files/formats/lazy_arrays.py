"""Lazy tables of samples: they are read slice by slice, not whole."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Protocol

import numpy as np

from embedbench.array_types import Array, Ints, Strings
from embedbench.errors import UserError


class SampleTable(Protocol):
    """An array (N, …) of which slices are taken, quickly if they are in order."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, …)."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the slices."""

    @property
    def ndim(self) -> int:
        """Number of axes."""

    def __len__(self) -> int:
        """N."""

    def __getitem__(self, rows: slice, /) -> Array:
        """Some rows."""


@dataclass(frozen=True)
class SlicedTable:
    """A table in something else that gives slices."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    take: Callable[[int, int], Array]  # rows first to end

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Array:
        first, end, _ = rows.indices(len(self))
        return self.take(first, end).astype(self.dtype, copy=False)


def streamed_table(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    blocks: Callable[[], Iterator[Array]],
    where: str,
) -> SlicedTable:
    """A table that is read block by block: slices in order are quick, going back starts anew.

    Parameters
    ----------
    shape, dtype : tuple of int, dtype
        (N, …) of the table, and the type of its slices.
    blocks : callable
        Opens the source; yields its rows in order.
    """
    none = np.empty((0, *shape[1:]), dtype)
    source: Iterator[Array] = iter(())
    start, block = shape[0], none  # so that the first slice opens the source

    def take(begin: int, end: int) -> Array:
        nonlocal source, start, block
        if begin < start:
            source, start, block = blocks(), 0, none
        taken = [none]
        while begin < end:
            if begin >= start + len(block):
                start += len(block)
                block = next(source, none)
                if not len(block):
                    raise UserError(f"{where} has fewer rows than it declares.")
                continue
            taken.append(block[begin - start : end - start])
            begin += len(taken[-1])
        return np.concatenate(taken)

    return SlicedTable(shape, dtype, take)


@dataclass(frozen=True)
class NamedLabels:
    """Labels as numbers of names, in the order of the source: categories, a `ClassLabel`."""

    values: Ints
    names: Strings


def join_tables(tables: Sequence[SampleTable], where: str) -> SampleTable:
    """Return tables one after the other, as one.

    Raises
    ------
    UserError
        Their rows have different shapes.
    """
    if len(tables) == 1:
        return tables[0]
    shapes = {table.shape[1:] for table in tables}
    if len(shapes) > 1:
        raise UserError(
            f"{where} has parts whose rows have the shapes {sorted(shapes)}; they must be equal."
        )
    ends = [0, *accumulate(len(table) for table in tables)]
    dtype = np.result_type(*(table.dtype for table in tables))

    def take(first: int, end: int) -> Array:
        parts = [
            table[max(first, a) - a : min(end, b) - a]
            for table, (a, b) in zip(tables, pairwise(ends), strict=True)
            if a < end and b > first
        ]
        return np.concatenate(parts) if parts else np.empty((0, *shapes.copy().pop()), dtype)

    return SlicedTable((ends[-1], *shapes.copy().pop()), dtype, take)
