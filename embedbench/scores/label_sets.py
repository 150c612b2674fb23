"""Predictions of multi-label runs: the labels given to every sample at every moment.

One byte holds eight labels, so that 1,083 classes × 50,000 samples × 35 sessions take less than 250
MB. docs/predictions.md describes the layout of the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from embedbench.arrays import Bools, Ints

from .predictions import Kept, Predictions, format_of

Bytes = NDArray[np.uint8]


def pack(labels: Bools) -> Bytes:
    """Label sets (…, C) bool, packed eight to a byte: (…, B), B = ⌈C/8⌉, highest bit first."""
    return np.packbits(labels, axis=-1)


def pw_js(true: Bools, answered: Bools) -> NDArray[np.float64]:
    """Precision-weighted Jaccard similarity of label sets (…, C): (…).

    |Y∩Ŷ|/|Y∪Ŷ| · |Y∩Ŷ|/|Ŷ|; 0 where Ŷ is empty. **Source**: Abdelsalam et al. (2021), Eq. 1.
    """
    both = (true & answered).sum(axis=-1)
    either, given = (true | answered).sum(axis=-1), answered.sum(axis=-1)
    value: NDArray[np.float64] = both * both / np.maximum(either * given, 1)
    return value


@dataclass(frozen=True)
class LabelSets(Kept):
    """Answers of one multi-label run. M moments, n samples, C classes, T sessions, B = ⌈C/8⌉ bytes.

    Parameters
    ----------
    ids : array of int
        (n,) opaque sample ids, unique within a split.
    split : array of int
        (n,) 0 test, 1 post-task validation.
    y : Bytes
        (n, B) packed complete labels: every class of the sample, on all levels.
    introduces : array of bool
        (T, C) the classes that each session introduced.
    parents : array of int
        (C,) the class above each one, -1 at the top.
    session : array of int
        (M,) the session learned last, from 0.
    samples_seen : array of int
        (M,) training samples so far.
    seen : array of bool
        (M, C) classes seen so far; only these are answered.
    answer : Bytes
        (M, n, B) packed answers.
    undecided : array of int
        (M,) samples that got no label because a score was NaN.
    """

    ids: Ints
    split: Ints
    y: Bytes
    introduces: Bools
    parents: Ints
    session: Ints
    samples_seen: Ints
    seen: Bools
    answer: Bytes
    undecided: Ints

    FORMAT: ClassVar[str] = "embedbench-label-sets"
    MASKS: ClassVar[tuple[str, ...]] = ("introduces", "seen")

    @property
    def n_classes(self) -> int:
        """The number of classes, C."""
        return int(self.introduces.shape[1])

    def true(self) -> Bools:
        """Complete labels, (n, C)."""
        return self._unpack(self.y)

    def answered(self, moment: int) -> Bools:
        """Labels given at a moment, (n, C)."""
        return self._unpack(self.answer[moment])

    def _unpack(self, packed: Bytes) -> Bools:
        return np.unpackbits(packed, axis=-1, count=self.n_classes).view(np.bool_)


AnyPredictions = Predictions | LabelSets


def load_any(path: Path) -> AnyPredictions:
    """Read a `predictions.h5` with one label per sample or with label sets."""
    kind = LabelSets if format_of(path)[0] == LabelSets.FORMAT else Predictions
    return kind.load(path)
