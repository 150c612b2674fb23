"""How far a mean over seeds depends on the test sample: a jackknife that leaves out one group.

Other test samples of the same kind would give other scores. How much other is estimated by leaving
out one group at a time: all samples with one `group` of the file (one speaker, one type family), or
one sample where the file has no groups. A sample that several eval sets hold is one group.

Ω, forgetting or gAcc are no means over samples: they are computed again from the score matrix that
the rest of the samples gives. α_ideal and the chance level of FWT are held fixed: all rows of a
table have the same.

**Source**: the delete-one-group jackknife, Quenouille (1956) and Tukey (1958); Efron and Stein
(1981) show that it overestimates a variance rather than underestimates it. For a mean over groups
of equal size it equals Σ (S_g - n_g m)² / N² times G / (G - 1), the variance of a ratio under
cluster sampling (Cochran 1977, section 11.8). A variance of groups of unequal size is less certain
than their number says: they count as 1 / Σ w_g², w_g the share of a group in the score (Kish 1965,
section 8.2).
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from embedbench.array_types import Array, Bools, Floats, Ints

from . import against_chance
from .few_shot_scores import class_ratio, gacc_area
from .learner_verdicts import SampleShare
from .metrics import Metric, Reference, all_metrics, average_anytime_accuracy, final_accuracy
from .old_and_new_classes import OLD_AND_NEW
from .run_answers import RunAnswers, SampleScores
from .score_matrix import ScoreMatrix, mean_or_nan

MINIMUM = "worst_class_accuracy"  # a jackknife does not estimate the variance of a minimum
BY_MOMENT = ("values", "pooled", "session", "samples_seen", "classes_seen", "per_class")
CURVES: dict[str, Callable[[ScoreMatrix], Floats]] = {
    "raa": against_chance.raa,
    "raf": against_chance.raf,
    "gacc": lambda scores: gacc_area(scores.R, class_ratio(scores.n_classes)),
    "gacc_exact": lambda scores: gacc_area(scores.R, class_ratio(scores.n_classes), exact=True),
}


class _LeftPart(NamedTuple):
    """An eval set or a class without one group."""

    number: int  # of the eval set or the class
    scores: Floats  # (M,) without the group
    size: int  # samples of the group that are in it


_LeftParts = dict[int, list[_LeftPart]]  # by group


def quote_curve(name: str, curve: Sequence[float] | Floats) -> float:
    """The one number that is quoted for a curve of `CURVES`; NaN for an empty one.

    The mean of gAcc over the sessions where it is defined, and the last value of RAA and RAF: their
    earlier ones are small by definition, so that a learner that is always right has a mean of one
    half over many equal sessions.

    **Source**: Tang et al. (2024), whose tables average gAcc over the sessions, the base included;
    Michel et al. (2023), Eq. 5, by which RAA_K = AA_K at the last session K.
    """
    values = np.array(curve, dtype=np.float64)
    if name.startswith("gacc"):
        return mean_or_nan(values[~np.isnan(values)])
    return float(values[-1]) if values.size else np.nan


def find_metric(name: str) -> Metric | None:
    """The function of a metric of ours, or of a curve's number; None if it has no jackknife."""
    if name in CURVES:
        return lambda scores, _: quote_curve(name, CURVES[name](scores))
    return None if name == MINIMUM else {**all_metrics(), **OLD_AND_NEW}.get(name)


@dataclass(frozen=True)
class LeftOut:
    """A metric of one run without each group of its test samples."""

    names: Array  # (G,) of the groups: the same in all runs that are compared
    values: Floats  # (G + 1,) the metric without that group; the last value is the metric itself
    grouped: bool  # whether groups are those of a file; if not, each sample is one
    weights: Floats  # (G,) the share of each group in the base score on all test samples

    def aligned(self, names: Array) -> Floats:
        """The values without each of `names`, which are sorted; some may not be in this run."""
        result = np.full(len(names), self.values[-1])
        result[np.searchsorted(names, self.names)] = self.values[:-1]
        return result

    def weigh(self, names: Array) -> Floats:
        """The share of each of `names` in the score, 0 of those that are not in this run."""
        result = np.zeros(len(names))
        result[np.searchsorted(names, self.names)] = self.weights
        return result


def leave_out_metric(
    p: RunAnswers,
    score: str,
    metric: Metric,
    reference: Reference,
    *,
    groups: Array | None = None,
    class_sizes: Sequence[int] | None = None,
) -> LeftOut | None:
    """A metric of a run without each of the (n,) `groups` of its test samples, or each sample.

    None for a base score that is no mean over samples.
    """
    rated = p.rate_samples(score, np.array([len(p.session) - 1]))
    if rated is None:
        return None
    names, number = np.unique(p.ids if groups is None else groups, return_inverse=True)
    n_groups = len(names) + 1  # the last is empty: nothing is left out
    weights = weigh_groups(rated.labels, number, by_class=rated.by_class)
    if metric is final_accuracy:
        final = leave_out_final(p, number, n_groups, score)
        return LeftOut(names, final, groups is not None, weights)
    ends_only = metric is not average_anytime_accuracy
    rest = _Rest(p, score, number, n_groups, class_sizes, ends_only=ends_only)
    values = np.empty(n_groups)
    for alike in [*_alike(rest.rated, number), np.array([len(names)])]:
        with np.errstate(invalid="ignore", divide="ignore"):
            values[alike] = metric(rest.matrix(alike[0]), reference)
    return LeftOut(names, values, groups is not None, weights)


def weigh_groups(y: Ints, groups: Ints, *, by_class: bool) -> Floats:
    """(G,) the share of each group in a mean over samples, or over classes of means over theirs.

    >>> weigh_groups(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]), by_class=True).round(2)
    array([0.33, 0.67])
    """
    classes = y if by_class else np.zeros_like(y)
    sizes = np.bincount(classes)
    return np.asarray(
        np.bincount(groups, 1 / (sizes[classes] * np.count_nonzero(sizes))), np.float64
    )


class _Rest:
    """The score matrix of a run without each group; the last group is empty."""

    def __init__(
        self,
        p: RunAnswers,
        score: str,
        number: Ints,
        n_groups: int,
        class_sizes: Sequence[int] | None,
        *,
        ends_only: bool,
    ) -> None:
        whole = p.score_matrix(score, class_sizes)
        moments = whole.ends if ends_only else np.arange(len(p.session))
        parts = {name: getattr(whole, name)[moments] for name in BY_MOMENT}
        self.whole = whole = replace(whole, **parts)
        self.rated = rated = _rate(p, score, moments)
        counts = rated.sets <= whole.session[:, None]
        one = np.zeros_like(rated.labels)
        classes = rated.labels if rated.by_class else one
        pooled = leave_out_means(rated.values, counts, classes, number, n_groups)
        self.pooled = np.where(np.isnan(whole.pooled)[:, None], np.nan, pooled)
        self.sets = self._parts(whole.values, rated.sets, np.ones_like(counts), classes, number)
        self.classes = self._parts(whole.per_class, rated.labels, counts, one, number)

    def _parts(
        self, known: Floats, part_of: Ints, counts: Bools, classes: Ints, number: Ints
    ) -> _LeftParts:
        """Group → eval sets or classes that it is in, their (M,) scores without it, its size."""
        parts: _LeftParts = {}
        for k in range(known.shape[1]):
            samples = np.flatnonzero(part_of == k)
            groups, local, sizes = np.unique(
                number[samples], return_inverse=True, return_counts=True
            )
            left = leave_out_means(
                self.rated.values[:, samples],
                counts[:, samples],
                classes[samples],
                local,
                len(groups),
            )
            left[np.isnan(known[:, k])] = np.nan
            for g, column, size in zip(groups.tolist(), left.T, sizes.tolist(), strict=True):
                parts.setdefault(g, []).append(_LeftPart(k, column, size))
        return parts

    def matrix(self, group: int) -> ScoreMatrix:
        """The score matrix without a group."""
        whole = self.whole
        values = whole.values.copy()
        per_class = whole.per_class.copy()
        n_samples = whole.n_samples.copy()
        for part in self.sets.get(group, ()):
            values[:, part.number] = part.scores
            n_samples[part.number] -= part.size
        for part in self.classes.get(group, ()):
            per_class[:, part.number] = part.scores
        left = replace(whole, values=values, n_samples=n_samples, per_class=per_class)
        return replace(left, pooled=self.pooled[:, group])


def _rate(p: RunAnswers, score: str, moments: Ints) -> SampleScores:
    rated = p.rate_samples(score, moments)
    assert rated is not None  # `leave_out_metric` has asked
    return rated


def _alike(rated: SampleScores, number: Ints) -> list[Ints]:
    """Groups whose removal gives the same: single samples of one class that scored alike."""
    n_groups = int(number.max()) + 1
    if n_groups < len(number):
        return [np.array([g]) for g in range(n_groups)]
    rows = np.array([rated.sets, rated.labels, *rated.values])[:, np.argsort(number)]
    _, kind = np.unique(rows, axis=1, return_inverse=True)
    kind = kind.ravel()
    order = np.argsort(kind, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(kind[order])) + 1)


def leave_out_final(p: RunAnswers, groups: Ints, n_groups: int, score: str) -> Floats:
    """(n_groups,) the final score of a run without the samples of each of its (n,) `groups`."""
    last = np.array([len(p.session) - 1])
    rated = _rate(p, score, last)
    classes = rated.labels if rated.by_class else np.zeros_like(rated.labels)
    counts = rated.sets <= p.session[last, None]
    return np.asarray(leave_out_means(rated.values, counts, classes, groups, n_groups)[0])


def leave_out_means(
    values: Floats, counts: Bools, classes: Ints, groups: Ints, n_groups: int
) -> Floats:
    """(M, G) mean over classes of the means over their samples, without each group's samples.

    A class whose samples are all left out does not count; NaN where nothing is left. `values` are
    (M, N), right or wrong for example, `counts` (M, N) whether the sample counts at that moment,
    `classes` and `groups` (N,); one class for all: the mean over samples.
    """
    width = int(classes.max(initial=0)) + 1
    # A cell is the samples of one class in one group; only cells that have samples are counted.
    cells, cell = np.unique(groups * width + classes, return_inverse=True)
    cell_group = cells // width
    cell_class = cells % width
    result = np.empty((len(values), n_groups))
    for moment, (value, counted) in enumerate(zip(values, counts, strict=True)):
        # Leaving out a group changes the means of its own cells' classes alone, so that what each
        # cell takes away is added up by group, in place of a mean over classes for each group.
        n = np.bincount(cell, counted, len(cells))
        total = np.bincount(cell, np.where(counted, value, 0), len(cells))
        n_class = np.bincount(cell_class, n, width)
        total_class = np.bincount(cell_class, total, width)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(n_class > 0, total_class / n_class, 0)
            left = n_class[cell_class] - n
            rest = np.where(left > 0, (total_class[cell_class] - total) / left, 0)
            change = np.bincount(cell_group, rest - mean[cell_class], n_groups)
            lost = np.bincount(cell_group, (left == 0) & (n > 0), n_groups)
            result[moment] = (mean.sum() + change) / ((n_class > 0).sum() - lost)
    return result


def pair_variances(left_out: Floats) -> Floats:
    """(k, k) the test sample's share of the variance of each difference of two rows.

    On the diagonal is that of each row's mean. NaN where two rows share no seed with answers.
    `left_out` are (k, n, G) values of row and seed without that group; NaN where there is no run.
    They are averaged over the seeds that both rows have.
    """
    n_groups = left_out.shape[-1]
    apart = left_out - left_out.mean(axis=-1, keepdims=True)
    has = ~np.isnan(apart).any(axis=-1)
    # Rows with the same seeds share a pattern: their pairs are averaged over the same columns, and
    # all squared distances of such rows are one product of matrices, |x - y|² = x² + y² - 2xy.
    patterns, which = np.unique(has, axis=0, return_inverse=True)
    result = np.full((len(has), len(has)), np.nan)
    for a, mine in enumerate(patterns):
        for b, other in enumerate(patterns):
            both = mine & other
            if both.any():
                x = apart[which == a][:, both].mean(axis=1)
                y = apart[which == b][:, both].mean(axis=1)
                squares = (x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1) - 2 * x @ y.T
                result[np.ix_(which == a, which == b)] = np.maximum(squares, 0)
        if mine.any():  # the diagonal is no difference: it is the mean of the row itself
            rows = apart[which == a][:, mine].mean(axis=1)
            at = np.flatnonzero(which == a)
            result[at, at] = (rows**2).sum(axis=1)
    return np.asarray(result * (n_groups - 1) / n_groups)


def lasting_variances(left_out: Floats) -> Floats:
    """(k, k) the `pair_variances` of pairs of rows with ever more seeds; NaN where unknown.

    With n seeds, the variance is V + W/n: W is what seeds and samples do together. One seed alone
    has V + W, in the mean over the n, so that V = (n · variance - that mean) / (n - 1).
    """
    n_groups = left_out.shape[-1]
    apart = left_out - left_out.mean(axis=-1, keepdims=True)
    has = ~np.isnan(apart).any(axis=-1)
    single = np.zeros((len(has), len(has)))  # sums over seeds, of V + W
    n = np.zeros((len(has), len(has)))  # seeds that both rows have
    for column, here in zip(apart.transpose(1, 0, 2), has.T, strict=True):
        x = np.where(here[:, None], column, 0)
        squares = (x**2).sum(axis=1)
        both = here[:, None] & here
        single += np.where(both, squares[:, None] + squares - 2 * x @ x.T, 0)
        n += both
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = single / n * (n_groups - 1) / n_groups
        lasting = (n * pair_variances(left_out) - mean) / (n - 1)
    known = (n > 1) & ~np.eye(len(has), dtype=np.bool_)
    return np.where(known, np.maximum(lasting, 0), np.nan)


def share_of_rows(rows: Sequence[Sequence[Sequence[LeftOut]]]) -> SampleShare | None:
    """What other test samples would change in the differences of rows; None if it is unknown.

    `rows` are rows of a table, their columns, and the runs whose mean is there.
    """
    columns = list(itertools.chain(*rows))
    runs = list(itertools.chain(*columns))
    if not runs or len({run.grouped for run in runs}) > 1:  # groups and samples are of two kinds
        return None
    names = np.unique(np.concatenate([run.names for run in runs]))
    left_out = np.array([[_mean_left_out(column, names) for column in row] for row in rows])
    weights = np.mean([run.weigh(names) for run in runs], axis=0)
    effective = float(weights.sum() ** 2 / (weights**2).sum())
    return SampleShare(
        variances=pair_variances(left_out),
        groups=len(names),
        effective=effective,
        lasting=lasting_variances(left_out),
    )


def _mean_left_out(runs: Sequence[LeftOut], names: Array) -> Floats:
    """The mean of some runs without each of `names`; NaN without runs."""
    if not runs:
        return np.full(len(names), np.nan)
    return np.asarray(np.mean([run.aligned(names) for run in runs], axis=0))
