"""Lazy tables of samples: they are read slice by slice, not whole."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from embedbench.array_types import Array, Ints, Strings
from embedbench.errors import UserError


@dataclass(frozen=True)
class SlicedTable:
    """A table (N, …) in something else that gives slices, quickly if they are in order."""

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


SampleTable = Array | SlicedTable


def streamed_table(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    blocks: Callable[[], Iterator[Array]],
    where: str,
) -> SlicedTable:
    """A table that is read block by block: slices in order are quick, going back starts anew.

    `blocks` opens the source and yields its rows in order.
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
    """Return tables one after the other, as one; the shapes of their rows must be equal."""
    if len(tables) == 1:
        return tables[0]
    shapes = {table.shape[1:] for table in tables}
    if len(shapes) > 1:
        raise UserError(
            f"{where} has parts whose rows have the shapes {sorted(shapes)}; they must be equal."
        )
    ends = [0, *accumulate(len(table) for table in tables)]
    shape, dtype = shapes.pop(), np.result_type(*(table.dtype for table in tables))

    def take(first: int, end: int) -> Array:
        parts = [
            table[max(first, a) - a : min(end, b) - a]
            for table, (a, b) in zip(tables, pairwise(ends), strict=True)
            if a < end and b > first
        ]
        return np.concatenate(parts) if parts else np.empty((0, *shape), dtype)

    return SlicedTable((ends[-1], *shape), dtype, take)
