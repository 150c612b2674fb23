"""Sentences on what a source lacks, and on what it holds in place of features."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Array
from embedbench.errors import LONG, UserError, list_first

_TEXTS = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson")
_COMMA = re.compile(r"-?[0-9]+,[0-9]+")
WAYS = "--labels FILE (one label a row in order, or lines of id and label)"


def without_labels(where: str, key: str, table: Any, others: Sequence[str]) -> UserError:
    """Return the error for features that have no labels beside them: how to give them."""
    also = f"; it also holds {list_first(others, 10)}" if others else ""
    key_way = ", or --labels KEY of the source" if others else ""
    if f"column 1 to column {np.shape(table)[-1]}" in key:
        key_way = _numbered_way(table)
    return UserError(
        f"{where} holds features ({len(table):,} rows of {_row(table)}, from {key}) and no "
        f"labels{also}",
        f"give them: {WAYS}{key_way}",
    )


def _numbered_way(table: Array) -> str:
    """Which of the columns (N, D) without names may hold the labels: one of whole numbers."""
    whole = np.flatnonzero((table == np.trunc(table)).all(axis=0)) + 1
    if not len(whole):
        return ""
    if len(whole) == table.shape[1]:
        return ", or --labels 'column N' if the Nth one of these columns holds them"
    return f", or --labels 'column {whole[0]}' if this one, of whole numbers, holds them"


def without_features(where: str, arrays: Mapping[str, Any], missing: Sequence[str]) -> UserError:
    """Return the error for a source without features: what it holds, and how to name them."""
    names = list(arrays)
    weights = [name for name in names if is_weight(str(name))]
    if weights and len(weights) > len(names) / 2:
        return UserError(
            f"{where} holds the weights of a network ({list_first(weights, 3)}) and no features",
            "give the features that the network makes of samples: `embedbench extract` with "
            "--backbone and --weights makes them",
        )
    if names == ["labels"] and Path(where).suffix.lower() == ".npy":
        return UserError(
            f"{where} holds labels, one value a row, and no features",
            f"import the file of the features, with --labels {where}",
        )
    commas = [name for name in names if _has_commas(arrays, name)]
    if commas:
        return UserError(
            f"{where}: {commas[0]} holds numbers with a decimal comma", "write them with a point"
        )
    if Path(where).suffix.lower() in _TEXTS and "features" in missing:
        way = "name their columns by --features; texts and their labels go in by `extract`"
        return UserError(f"{where} holds no features, but {list_first(names, 10)}", way)
    listed = ", ".join(names[:LONG]) or "nothing"
    ways = [f"--{what} KEY" for what in missing]
    more = f"; or {WAYS}" if "labels" in missing else ""
    return UserError(
        f"{where} must hold 'features' (one array, or one column of lists) and 'labels'; it holds "
        f"{listed}, and no {' and no '.join(missing)}",
        f"name the key: {' '.join(ways)}{more}",
    )


def _has_commas(arrays: Mapping[str, Any], name: str) -> bool:
    """Whether texts (N,) are numbers such as 0,5."""
    try:
        values = arrays[name]
    except UserError:  # a value is missing
        return False
    if not isinstance(values, np.ndarray) or values.dtype.kind != "U":
        return False
    return values.ndim == 1 and all(map(_COMMA.fullmatch, values.tolist()))


def is_weight(name: str) -> bool:
    """Whether an array is called as the weights of a layer are.

    >>> is_weight("fc.weight"), is_weight("class_weight")
    (True, False)
    """
    return name.endswith((".weight", ".bias", "/kernel:0", "/bias:0"))


def _row(table: Any) -> str:
    shape = np.shape(table)[1:]
    return f"{shape[0]} values" if len(shape) == 1 else " × ".join(map(str, shape))


def reshape_way(key: str, values: Array, *, table: bool) -> str:
    """Return how an array of another shape or type is made what is expected."""
    if table and values.ndim == 3:
        return (
            f"one of its axes is no sample and no feature: take one of {len(values)} tables, the "
            f"mean over an axis ({key}.mean(axis=1)), or {key}.reshape(-1, {values.shape[2]})"
        )
    if table:
        return "give one row a sample, as numbers"
    if values.ndim == 2 and values.shape[1] > 1:
        return f"give one class a sample; of rows with a 1 at the class, {key}.argmax(axis=1)"
    return "flatten it" if values.ndim > 1 else "convert it to whole numbers or texts"
