"""Predictions of multi-label runs: the labels given to every sample at every moment; their scores.

One byte holds eight labels, so that 1,083 classes × 50,000 samples × 35 sessions take less than 250
MB. docs/specification/predictions.md describes the layout of the file. Sets stay packed, and scores
read them one moment at a time.

In scores Y is the set of a sample's true labels and Ŷ the set of labels given. Both are restricted
to the classes seen at the moment, so a label counts as soon as its class was introduced, also on
old samples. All scores are of the test samples.

The kinds of answers end here, label sets being the last: `load_any` reads a file of any of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import h5py
import numpy as np
from numpy.typing import NDArray

from embedbench.array_types import Bools, Floats, Ints
from embedbench.config.typed_calls import check_arguments
from embedbench.errors import UserError

from .array_file import BYTE, INT, MASK, demand, inside, readable, text_attribute
from .confusion_matrix import confusion_of_sets
from .predictions import Predictions
from .run_answers import RunAnswers
from .score_matrix import ScoreMatrix, mean_or_nan

Bytes = NDArray[np.uint8]
Counts = tuple[Ints, Ints, Ints]  # |Y ∩ Ŷ|, |Y|, |Ŷ| of each sample
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
    either = (true | answered).sum(axis=-1)
    given = answered.sum(axis=-1)
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
    above = np.append(parents, -1)
    level = np.append(parents >= 0, 0).astype(np.int64)
    for _ in range(n.bit_length()):
        level = level + level[above]
        above = above[above]
    result: Ints = np.where(above[:n] < 0, level[:n], -1)
    return result


@dataclass(frozen=True, repr=False)
class LabelSets(RunAnswers):
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
    SCORES: ClassVar[tuple[str, ...]] = ("pw_js", "js", "exact_match")
    NAMES: ClassVar[Mapping[str, str]] = {"pw_js": "pw-JS", "js": "JS"}
    MEANINGS: ClassVar[Mapping[str, str]] = {
        "pw_js": "pw-JS: mean over all test samples",
        "js": "JS: mean over all test samples",
        "exact_match": "exact match: share of all test samples",
    }
    DETAILS: ClassVar[tuple[str, ...]] = (
        *SCORES,
        *("superclass_pw_js", "subclass_precision", "labels_predicted", "labels_true"),
    )
    OWN_SETS: ClassVar[bool] = True

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
        y = _label_sets(true, "true")
        given = _label_sets(answered, "answered")
        if y.shape != given.shape or len(parents) != y.shape[1]:
            raise UserError(
                "true, answered and parents",
                expected="(n, C), (n, C) and (C,)",
                got=(y.shape, given.shape, len(parents)),
            )
        n = len(y)
        once = np.ones((1, y.shape[1]), dtype=np.bool_)
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

    @property
    def n_sets(self) -> int:
        """The number of eval sets, one for the classes of each session."""
        return len(self.introduces)

    def score_matrix(self, name: str = "", class_sizes: Sequence[int] | None = None) -> ScoreMatrix:
        """Compute one base score, a number for each sample, and its means; without a name `pw_js`.

        `js` is |Y ∩ Ŷ| / |Y ∪ Ŷ|. `pw_js` is `js` times the precision |Y ∩ Ŷ| / |Ŷ|. `exact_match`
        is 1 where Ŷ = Y. Eval set k of `values` has every sample with a label among session k's
        classes, so eval sets overlap; it is scored once these classes were seen. `pooled` has every
        sample with a seen label once. All means are over samples, not over classes, and know no
        `class_sizes`.

        **Source**: Abdelsalam et al. (2021, IIRC), §4.2, Eq. 1 (`values`, R_jk) and Eq. 2
        (`pooled`, R_j). **Departs**: where nothing is predicted Eq. 1 divides by 0; the score is
        then 0, as the authors' code does.
        """
        name = name or self.SCORES[0]
        rows = _rows(self)
        y = self.y[rows]
        members = [np.flatnonzero(_has(y, classes)) for classes in self.introduces]
        shape = (len(self.session), len(members))
        values = np.full(shape, np.nan)
        pooled = np.full(shape[0], np.nan)
        for m, seen in enumerate(self.seen):
            hit, true, given = _counts(y, self.answer[m, rows], seen)
            score = _score(name, hit, true, given)
            pooled[m] = mean_or_nan(score[true > 0])
            for k, samples in enumerate(members):
                if seen[self.introduces[k]].all():
                    values[m, k] = mean_or_nan(score[samples])
        sizes = np.array([len(samples) for samples in members])
        return ScoreMatrix.of(name, self, values, pooled, sizes, self.introduces.sum(axis=1))

    def curves(self, scores: ScoreMatrix, *, limited: bool) -> dict[str, Floats]:
        """Every curve of the test samples; they belong to the main score alone."""
        if scores.name != self.SCORES[0]:
            return {}
        result = {f.__name__: f(self) for f in CURVES}
        for depth in range(int(levels(self.parents).max()) + 1):
            result[f"depth_{depth}_pw_js"] = depth_pw_js(self, depth)
        return {name: values[self.ends] for name, values in result.items()}

    def confusion(self, score: str, moment: int, *, truth: bool = False) -> Floats:
        """(C, C) share of the test samples with each label that were given each, at a moment."""
        rows = _rows(self)
        n_classes = self.seen.shape[1]
        sides = self.y[rows], (self.y if truth else self.answer[moment])[rows]
        true, given = (np.unpackbits(side, axis=1, count=n_classes) > 0 for side in sides)
        return confusion_of_sets(true, given, self.seen[moment])

    def find_unanswered(self) -> Bools:
        """(M,) whether a sample got no label because a score was NaN."""
        return np.asarray(self.undecided > 0, dtype=np.bool_)


# --- curves over moments, (M,) each; NaN where undefined ---


def superclass_pw_js(p: LabelSets) -> Floats:
    """pw-JS if only superclasses were labels: how well coarse labels are kept.

    A superclass is a class with classes below it in the stream, at any depth. In the orders of
    IIRC-ImageNet-lite, 9 to 15 of the paper's superclasses have no class below them. They count as
    subclasses without a superclass here, since label sets cannot tell the two apart.

    **Source**: Abdelsalam et al. (2021, IIRC), D.2. **Departs**: no code of it is published. Y and
    Ŷ are restricted to superclasses seen; samples without one in Y are left out.

    Examples
    --------
    >>> true, answered = [[1, 1, 0], [1, 0, 1]], [[1, 1, 0], [0, 1, 1]]
    >>> p = LabelSets.from_sets(true, answered, parents=[-1, 0, 0])  # one above two
    >>> superclass_pw_js(p)  # given to the first sample alone
    array([0.5])
    """
    return _restricted_pw_js(p, superclasses(p.parents))


def depth_pw_js(p: LabelSets, depth: int) -> Floats:
    """pw-JS if only classes of one depth were labels; depth 0 is the top.

    **Source**: ours, like `superclass_pw_js` for hierarchies of any depth. A class without a
    superclass has depth 0, whether or not it has classes below it.

    Examples
    --------
    >>> true, answered = [[1, 1, 0], [1, 0, 1]], [[1, 1, 0], [0, 1, 1]]
    >>> p = LabelSets.from_sets(true, answered, parents=[-1, 0, 0])  # one above two
    >>> depth_pw_js(p, 1)  # (1 + 1/2 · 1/2) / 2
    array([0.625])
    """
    return _restricted_pw_js(p, levels(p.parents) == depth)


def subclass_precision(p: LabelSets) -> Floats:
    """Share of right labels among the given labels that are subclasses under a superclass.

    Σ |Y ∩ Ŷ| / Σ |Ŷ| over the samples with a seen label, Ŷ restricted to those classes. A subclass
    is a class without classes below it, at any depth.

    **Source**: Abdelsalam et al. (2021, IIRC), D.3. **Departs**: no code of it is published. The
    sums run over all samples together; NaN where no such label is given.

    Examples
    --------
    >>> true, answered = [[1, 1, 0], [1, 0, 1]], [[1, 1, 0], [0, 1, 1]]
    >>> p = LabelSets.from_sets(true, answered, parents=[-1, 0, 0])  # one above two
    >>> subclass_precision(p).round(3)  # 2 of 3
    array([0.667])
    """
    return _precision(p, ~superclasses(p.parents) & (p.parents >= 0))


def lone_subclass_precision(p: LabelSets) -> Floats:
    """The same as `subclass_precision`, for subclasses without a superclass.

    **Source**: Abdelsalam et al. (2021, IIRC), D.3. **Departs**: the same as `subclass_precision`.

    Examples
    --------
    >>> true, answered = [[1, 1, 0], [1, 0, 1]], [[1, 1, 0], [0, 1, 1]]
    >>> p = LabelSets.from_sets(true, answered, parents=[-1, -1, -1])
    >>> lone_subclass_precision(p)  # 3 of 4
    array([0.75])
    """
    return _precision(p, ~superclasses(p.parents) & (p.parents < 0))


def labels_predicted(p: LabelSets) -> Floats:
    """Mean number of labels given to a sample, over the samples with a seen label.

    **Source**: ours; Abdelsalam et al. (2021, IIRC), §6.1, say that some learners give too many.

    Examples
    --------
    >>> true, answered = [[1, 1, 0], [1, 0, 1]], [[1, 1, 0], [0, 1, 1]]
    >>> p = LabelSets.from_sets(true, answered, parents=[-1, 0, 0])  # one above two
    >>> labels_predicted(p)
    array([2.])
    """
    return np.array([mean_or_nan(given) for _, _, given in _over_moments(p)])


def labels_true(p: LabelSets) -> Floats:
    """Mean number of true labels of a sample that were seen, over the samples with a seen label.

    **Source**: ours, to compare with `labels_predicted`.

    Examples
    --------
    >>> true, answered = [[1, 1, 0], [1, 0, 1]], [[1, 1, 0], [0, 1, 1]]
    >>> p = LabelSets.from_sets(true, answered, parents=[-1, 0, 0])  # one above two
    >>> labels_true(p)
    array([2.])
    """
    return np.array([mean_or_nan(true) for _, true, _ in _over_moments(p)])


def labels_newest(p: LabelSets) -> Floats:
    """Share of the latest session's classes in all labels given to the samples with a seen label.

    **Source**: ours; Abdelsalam et al. (2021, IIRC), §6.1, say that ER always predicts labels of
    the newest classes. NaN where no label is given.

    Examples
    --------
    >>> true, answered = [[1, 1, 0], [1, 0, 1]], [[1, 1, 0], [0, 1, 1]]
    >>> p = LabelSets.from_sets(true, answered, parents=[-1, 0, 0])  # one above two
    >>> labels_newest(p)  # all classes are of the latest session
    array([1.])
    """
    each = zip(_over_moments(p, p.introduces[p.session]), _over_moments(p), strict=True)
    sums = [(newest.sum(), given.sum()) for (*_, newest), (*_, given) in each]
    return np.array([newest / given if given else np.nan for newest, given in sums])


CURVES = (
    superclass_pw_js,
    subclass_precision,
    lone_subclass_precision,
    labels_predicted,
    labels_true,
    labels_newest,
)


# --- the hierarchy ---


def superclasses(parents: Ints) -> Bools:
    """(C,) classes with classes below them."""
    return np.isin(np.arange(len(parents)), parents)


# --- counts ---


def _rows(p: LabelSets) -> Ints:
    """The test samples."""
    return np.flatnonzero(p.split == 0)


def _size(packed: Bytes) -> Ints:
    """(n, B) → (n,) number of labels in each set."""
    sizes: Ints = np.bitwise_count(packed).sum(axis=1, dtype=np.int64)
    return sizes


def _has(packed: Bytes, classes: Bools) -> Bools:
    """(n,) the set has a label among the classes (C,)."""
    result: Bools = np.any(packed & pack(classes), axis=1)
    return result


def _counts(y: Bytes, given: Bytes, among: Bools) -> Counts:
    """Sizes of Y ∩ Ŷ, Y and Ŷ, with both sets restricted to the classes `among`."""
    allowed = pack(among)
    y = y & allowed
    given = given & allowed
    return _size(y & given), _size(y), _size(given)


def _over_moments(p: LabelSets, among: Bools | bool = True) -> Iterator[Counts]:
    """For each moment, the counts among seen classes, over the samples with any seen label.

    `among` are (C,) or (M, C).
    """
    rows = _rows(p)
    counted = p.seen & among
    for m, seen in enumerate(p.seen):
        taught = rows[_has(p.y[rows], seen)]
        yield _counts(p.y[taught], p.answer[m, taught], counted[m])


def _score(name: str, hit: Ints, true: Ints, given: Ints) -> Floats:
    """(n,) score of each sample; NaN where both sets are empty."""
    if name == "exact_match":
        return np.array((hit == true) & (hit == given), dtype=np.float64)
    with np.errstate(invalid="ignore"):
        js: Floats = hit / (true + given - hit)
    precision: Floats = hit / np.maximum(given, 1)
    return js if name == "js" else np.multiply(js, precision)


def _restricted_pw_js(p: LabelSets, among: Bools) -> Floats:
    """(M,) mean pw-JS restricted to some classes, over the samples with a label among them."""
    result = _over_moments(p, among)
    return np.array([mean_or_nan(_score("pw_js", h, t, g)[t > 0]) for h, t, g in result])


def _precision(p: LabelSets, among: Bools) -> Floats:
    """(M,) Σ |Y ∩ Ŷ| / Σ |Ŷ| restricted to some classes; NaN where none of them is given."""
    sums = [(hit.sum(), given.sum()) for hit, _, given in _over_moments(p, among)]
    return np.array([hit / given if given else np.nan for hit, given in sums])


KINDS: tuple[type[RunAnswers], ...] = (Predictions, LabelSets)


def kind_of(score: str) -> type[RunAnswers]:
    """The kind of answers that has a base score, such as the main score of a record."""
    return next((kind for kind in KINDS if score in kind.SCORES), Predictions)


def check_version(path: Path) -> None:
    """Refuse a `predictions.h5` of a version that cannot be read; its tables are not looked at."""
    with readable(path) as f:
        _kind_in(f).checked_version(f)


def load_any(path: Path) -> RunAnswers:
    """Read a `predictions.h5` with answers of any kind."""
    with readable(path) as f:
        return _kind_in(f).read(f)


def _kind_in(f: h5py.File) -> type[RunAnswers]:
    """The kind of an open file; what is none of ours is refused as one label a sample is."""
    name = text_attribute(f, "format")
    return next((kind for kind in KINDS if name == kind.FORMAT), Predictions)
