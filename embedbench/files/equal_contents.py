"""Samples of one content that are called different things: in two splits, or in two classes."""

import hashlib
from collections.abc import Sequence

import numpy as np

from embedbench.array_types import Array, Bytes, Ints

from .hdf5_layout import block_ranges
from .sample_metadata import SPLITS, Samples

SIZE = 16  # bytes of a hash: the first of a SHA-256
LISTED = 3  # pairs that a sentence lists

Pairs = list[tuple[int, int]]  # rows


def row_hashes(table: Array) -> Bytes:
    """Return the hash (N, 16) of each row of a table (N, …): of its bytes."""
    hashes = np.empty((len(table), SIZE), np.uint8)
    for first, end in block_ranges(len(table)):
        block = np.ascontiguousarray(table[first:end])
        for at, row in enumerate(block, first):
            hashes[at] = np.frombuffer(hashlib.sha256(row.data).digest()[:SIZE], np.uint8)
    return hashes


def pairs_apart(hashes: Bytes, sides: Bytes | Ints) -> Pairs:
    """Return pairs of rows with the same content on different sides, that of the lower side first.

    Every row that is not on the lowest side of its content is in one pair.

    Parameters
    ----------
    hashes : array of int
        (N, 16) of the contents.
    sides : array of int
        (N,) the split or the class of each row.
    """
    order = np.lexsort((sides, *hashes.T))
    same = (hashes[order[1:]] == hashes[order[:-1]]).all(axis=1)
    starts = np.concatenate([[True], ~same])  # where runs of equal contents start, in `order`
    first = order[np.flatnonzero(starts)[np.cumsum(starts) - 1]]  # (N,) of each one's run
    apart = sides[first] != sides[order]
    return list(zip(first[apart].tolist(), order[apart].tolist(), strict=True))


def describe_two_splits(pairs: Pairs, samples: Samples, holds: str, again: str) -> str:
    """Return what reports contents in two splits, and what to do; empty without pairs.

    `holds` is what a sample is, in the plural; `again` the command that makes the file again.
    """
    if not pairs:
        return ""
    names = [SPLITS[part] for part in samples.split.tolist()]
    return (
        f"{len(pairs):,} {holds} are in two splits with the same content: "
        f"{_list_pairs(pairs, samples, names)}. Remove one of each pair, or keep both in one split "
        f"by --group, and {again} again"
    )


def describe_two_classes(pairs: Pairs, samples: Samples, holds: str, again: str) -> str:
    """Return what reports contents in two classes, and what to do; see `describe_two_splits`."""
    if not pairs:
        return ""
    names = [samples.classes[label] for label in samples.labels.tolist()]
    return (
        f"{len(pairs):,} {holds} are in two classes with the same content: "
        f"{_list_pairs(pairs, samples, names)}. No learner can tell them apart: remove those whose "
        f"class is wrong, and {again} again"
    )


def _list_pairs(pairs: Pairs, samples: Samples, names: Sequence[str]) -> str:
    first = sorted(pairs)[:LISTED]
    texts = [f"{samples.ids[a]} ({names[a]}) = {samples.ids[b]} ({names[b]})" for a, b in first]
    if len(pairs) > LISTED:
        texts.append("…")
    return "; ".join(texts)
