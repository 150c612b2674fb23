"""The digests of a stream."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from embedbench.arrays import Array, Bools, Ints, Labels, digest


class CoveredSet(NamedTuple):
    """The parts of an eval set in the digest `eval`; `columns` is empty without a permutation."""

    split: str
    ids: Ints
    y: Labels
    classes: Bools
    columns: Ints
    candidates: Bools | None


def eval_digest(samples: Sequence[str], sets: Sequence[CoveredSet]) -> str:
    """The digest `eval` of a stream; `samples` are the digests of its files' sample lists."""
    parts: list[Any] = [*samples]
    for e in sets:
        parts += [e.split, e.ids, pack_labels(e.y), e.classes, e.columns, mask(e.candidates)]
    return digest("eval", *parts)


def pack_labels(y: Labels) -> Array | bytes:
    """Labels for a digest; those of a multi-label stream are packed, eight to a byte."""
    return y if y.ndim == 1 else np.packbits(y, axis=1).tobytes()


def mask(classes: Bools | None) -> Bools:
    """A mask for a digest; empty where there is none."""
    return np.zeros(0, dtype=np.bool_) if classes is None else classes
