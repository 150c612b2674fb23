"""Scores of multi-label runs: from label sets to score matrices and curves.

Y is the set of a sample's true labels and Ŷ the set of labels given. Both are restricted to the
classes seen at the moment, so a label counts as soon as its class was introduced, also on old
samples. Label sets stay packed, eight to a byte, and are read one moment at a time. All scores are
of the test samples.
"""

from collections.abc import Iterator

import numpy as np

from embedbench.array_types import Bools, Floats, Ints

from .label_set_predictions import Bytes, LabelSets, levels, pack
from .score_matrix import ScoreMatrix, mean_or_nan

SCORES = ("pw_js", "js", "exact_match")

Counts = tuple[Ints, Ints, Ints]  # |Y ∩ Ŷ|, |Y|, |Ŷ| of each sample


def score_matrix(p: LabelSets, name: str = "pw_js") -> ScoreMatrix:
    """Compute one base score: a number for each sample, and its means over samples.

    `js` is |Y ∩ Ŷ| / |Y ∪ Ŷ|. `pw_js` is `js` times the precision |Y ∩ Ŷ| / |Ŷ|. `exact_match` is 1
    where Ŷ = Y. Eval set k of `values` has every sample with a label among session k's classes, so
    eval sets overlap; it is scored once these classes were seen. `pooled` has every sample with a
    seen label once. All means are over samples, not over classes.

    **Source**: Abdelsalam et al. (2021, IIRC), §4.2, Eq. 1 (`values`, R_jk) and Eq. 2 (`pooled`,
    R_j). **Departs**: where nothing is predicted Eq. 1 divides by 0; the score is then 0, as the
    authors' code does.
    """
    rows = _rows(p)
    y = p.y[rows]
    members = [np.flatnonzero(_has(y, classes)) for classes in p.introduces]
    shape = (len(p.session), len(members))
    values, pooled = np.full(shape, np.nan), np.full(shape[0], np.nan)
    for m, seen in enumerate(p.seen):
        hit, true, given = _counts(y, p.answer[m, rows], seen)
        score = _score(name, hit, true, given)
        pooled[m] = mean_or_nan(score[true > 0])
        for k, samples in enumerate(members):
            if seen[p.introduces[k]].all():
                values[m, k] = mean_or_nan(score[samples])
    sizes = np.array([len(samples) for samples in members])
    return ScoreMatrix.of(name, p, values, pooled, sizes, p.introduces.sum(axis=1))


def curves(p: LabelSets) -> dict[str, Floats]:
    """Every curve of the test samples, by name; (T,) each, the values after each session."""
    result = {f.__name__: f(p) for f in CURVES}
    for depth in range(int(levels(p.parents).max()) + 1):
        result[f"depth_{depth}_pw_js"] = depth_pw_js(p, depth)
    return {name: values[p.ends] for name, values in result.items()}


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
    y, given = y & allowed, given & allowed
    return _size(y & given), _size(y), _size(given)


def _over_moments(p: LabelSets, among: Bools | bool = True) -> Iterator[Counts]:
    """For each moment, the counts among seen classes, over the samples with any seen label.

    `among` are (C,) or (M, C).
    """
    rows, counted = _rows(p), p.seen & among
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
