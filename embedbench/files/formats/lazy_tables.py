"""Tables of samples that are read slice by slice, and sources that keep their splits apart."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Protocol

import numpy as np

from embedbench.array_types import Array, Ints, Strings
from embedbench.errors import UserError
from embedbench.files.sample_metadata import TEST, TRAIN, VAL

PARTS = {"train": TRAIN, "val": VAL, "valid": VAL, "validation": VAL, "test": TEST}
_WORDS = "|".join(PARTS)
_KEY = re.compile(f"(?:(?P<a>{_WORDS})_(?P<key>.+)|(?P<key2>.+)_(?P<b>{_WORDS}))")


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
    """A table that is read block by block: slices are quick in order, going back begins anew.

    Parameters
    ----------
    shape, dtype : tuple of int, dtype
        (N, …) of the table, and the type of its slices.
    blocks : callable
        Opens the source; yields its rows in order.
    where : str
        The source, for messages.
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


def without_parts(arrays: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Join keys such as `X_train` and `X_test`, or `train_labels` and `test_labels`, into one.

    What is joined gets the name without the part, and `split` says which rows are which.
    """
    by_name: dict[str, dict[str, str]] = {}
    for key in arrays:
        if match := _KEY.fullmatch(key):
            part, name = match["a"] or match["b"], match["key"] or match["key2"]
            by_name.setdefault(name, {})[part] = key
    parts = sorted({part for keys in by_name.values() for part in keys}, key=PARTS.__getitem__)
    whole = {name: keys for name, keys in by_name.items() if len(keys) == len(parts)}
    if "split" in arrays or not whole or len(parts) < 2:
        return arrays
    lengths = [len(arrays[next(iter(whole.values()))[part]]) for part in parts]
    taken = {key for keys in whole.values() for key in keys.values()}
    out = {key: value for key, value in arrays.items() if key not in taken}
    for name, keys in whole.items():
        tables = [arrays[keys[part]] for part in parts]
        for table, n, part in zip(tables, lengths, parts, strict=True):
            if not np.ndim(table) or len(table) != n:
                raise UserError(f"{where}: {keys[part]} has not {n} rows, as others of its part.")
        one = tables[0].ndim == 1
        out[name] = np.concatenate(tables) if one else join_tables(tables, f"{where}: {name}")
    out["split"] = np.repeat([PARTS[part] for part in parts], lengths).astype(np.uint8)
    return out
