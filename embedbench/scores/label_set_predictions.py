"""Predictions of multi-label runs: the labels given to every sample at every moment.

One byte holds eight labels, so that 1,083 classes × 50,000 samples × 35 sessions take less than 250
MB. docs/predictions.md describes the layout of the file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import h5py
import numpy as np
from numpy.typing import NDArray

from embedbench.array_types import Bools, Floats, Ints
from embedbench.config.typed_calls import check_arguments
from embedbench.errors import UserError

from .array_file import BYTE, INT, MASK, ArrayFile, demand, inside, readable, text_attribute
from .predictions import Predictions

Bytes = NDArray[np.uint8]
MOST_LEVELS = 100  # of a hierarchy; each has a curve


def pack(labels: Bools) -> Bytes:
    """Label sets (…, C) bool, packed eight to a byte: (…, B), B = ⌈C/8⌉, highest bit first."""
    return np.packbits(labels, axis=-1)


def pw_js(true: Bools, answered: Bools) -> Floats:
    """Precision-weighted Jaccard similarity of label sets (…, C): (…).

    |Y∩Ŷ|/|Y∪Ŷ| · |Y∩Ŷ|/|Ŷ|; 0 where Ŷ is empty. **Source**: Abdelsalam et al. (2021), Eq. 1.

    >>> true = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0]], np.bool_)
    >>> pw_js(true, np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0]], np.bool_))  # 1/2 · 1, 1/2 · 1/2, 1
    array([0.5 , 0.25, 1.  ])
    """
    both = (true & answered).sum(axis=-1)
    either, given = (true | answered).sum(axis=-1), answered.sum(axis=-1)
    value: Floats = both * both / np.maximum(either * given, 1)
    return value


def _label_sets(labels: Any, name: str) -> Bools:
    """Labels as an array (n, C) of truth values."""
    try:
        array = np.array(labels)
    except ValueError:  # rows of unlike length
        array = np.array(None)
    if array.ndim != 2 or array.dtype.kind not in "biu" or (array.size and array.max() > 1):
        raise UserError(name, expected="truth values of shape (n, C)", got=labels)
    return array.astype(np.bool_)


def levels(parents: Ints) -> Ints:
    """(C,) number of classes above each one; -1 where that is a circle.

    >>> levels(np.array([-1, 0, 1, -1])), levels(np.array([1, 0, -1]))
    (array([0, 1, 2, 0]), array([-1, -1,  0]))
    """
    n = len(parents)
    # `above` is 2^k levels up after k rounds; the added entry, also at -1, is above the top
    above, level = np.append(parents, -1), np.append(parents >= 0, 0).astype(np.int64)
    for _ in range(n.bit_length()):
        level, above = level + level[above], above[above]
    result: Ints = np.where(above[:n] < 0, level[:n], -1)
    return result


@dataclass(frozen=True, repr=False)
class LabelSets(ArrayFile):
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

    ids: Annotated[Ints, INT, "n"]
    split: Annotated[Ints, INT, "n"]
    y: Annotated[Bytes, BYTE, "nB"]
    introduces: Annotated[Bools, MASK, "TC"]
    parents: Annotated[Ints, INT, "C"]
    session: Annotated[Ints, INT, "M"]
    samples_seen: Annotated[Ints, INT, "M"]
    seen: Annotated[Bools, MASK, "MC"]
    answer: Annotated[Bytes, BYTE, "MnB"]
    undecided: Annotated[Ints, INT, "M"]

    FORMAT: ClassVar[str] = "embedbench-label-sets"

    @classmethod
    @check_arguments
    def from_sets(cls, true: Any, answered: Any, parents: Sequence[int]) -> "LabelSets":
        """Answers after one session that brought all classes.

        Parameters
        ----------
        true, answered : array of bool
            (n, C) labels of each sample, and those given to it.
        parents : sequence of int
            (C,) the class above each one, -1 at the top.
        """
        y, given = _label_sets(true, "true"), _label_sets(answered, "answered")
        if y.shape != given.shape or len(parents) != y.shape[1]:
            raise UserError(
                "true, answered and parents",
                expected="(n, C), (n, C) and (C,)",
                got=(y.shape, given.shape, len(parents)),
            )
        n, once = len(y), np.ones((1, y.shape[1]), dtype=np.bool_)
        return cls(
            ids=np.arange(n),
            split=np.zeros(n, dtype=np.int64),
            y=pack(y),
            introduces=once,
            parents=np.array(parents),
            session=np.array([0]),
            samples_seen=np.array([n]),
            seen=once,
            answer=pack(given)[None],
            undecided=np.array([0]),
        )

    def check(self) -> None:
        """Refuse values that no run can have written."""
        super().check()
        n_sessions, n_classes = self.introduces.shape
        demand(n_classes > 0, "it has no class")
        width = pack(np.zeros(n_classes, dtype=np.bool_)).size
        demand(
            self.y.shape[-1] == width,
            f"labels of {n_classes} classes must take {width} bytes, got {self.y.shape[-1]}",
        )
        inside(self.split, 0, 1, "split")
        inside(self.session, 0, n_sessions - 1, "session")
        inside(self.undecided, 0, len(self.ids), "undecided")
        inside(self.parents, -1, n_classes - 1, "parents")
        inside(levels(self.parents), 0, MOST_LEVELS, "levels of parents, a hierarchy,")
        introduced = np.logical_or.accumulate(self.introduces)
        demand(
            np.array_equal(self.seen, introduced[self.session]),
            "seen must be the classes introduced so far",
        )
        beyond = ~pack(np.ones(n_classes, dtype=np.bool_))
        demand(not (self.y & beyond).any(), "y has labels beyond the last class")
        for seen, answer in zip(self.seen, self.answer, strict=True):
            demand(not (answer & ~pack(seen)).any(), "answer must be among the classes seen")


AnyPredictions = Predictions | LabelSets


def check_version(path: Path) -> None:
    """Refuse a `predictions.h5` of a version that cannot be read; its tables are not looked at."""
    with readable(path) as f:
        _kind(f).checked_version(f)


def load_any(path: Path) -> AnyPredictions:
    """Read a `predictions.h5` with one label per sample or with label sets."""
    with readable(path) as f:
        return _kind(f).read(f)


def _kind(f: h5py.File) -> type[Predictions] | type[LabelSets]:
    is_sets = text_attribute(f, "format") == LabelSets.FORMAT
    return LabelSets if is_sets else Predictions
