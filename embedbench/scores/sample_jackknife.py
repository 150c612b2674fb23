"""How far a mean over seeds depends on the test sample: a jackknife that leaves out one group.

Other test samples of the same kind would give other scores. How much other is estimated by leaving
out one group at a time: all samples with one `group` of the file (one speaker, one type family), or
one sample where the file has no groups. A sample that several eval sets hold is one group. Here is
the final score; `metric_jackknife` has the metrics that are no means over samples.

**Source**: the delete-one-group jackknife, Quenouille (1956) and Tukey (1958); Efron and Stein
(1981) show that it overestimates a variance rather than underestimates it. For a mean over groups
of equal size it equals Σ (S_g - n_g m)² / N² times G / (G - 1), the variance of a ratio under
cluster sampling (Cochran 1977, section 11.8).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from embedbench.array_types import Array, Bools, Floats, Ints

from .predictions import Predictions


@dataclass(frozen=True)
class LeftOut:
    """A score of one run without each group of its test samples.

    Parameters
    ----------
    names : array
        (G,) name of each group: the same in all runs that are compared.
    values : array of float
        (G + 1,) the score without that group; the last value is the score itself.
    grouped : bool
        Whether groups are those of a file; if not, each sample is one.
    """

    names: Array
    values: Floats
    grouped: bool = False

    @classmethod
    def of(cls, p: Predictions, score: str, groups: Array | None = None) -> "LeftOut":
        """The final score of a run; `metric_jackknife` has every other metric.

        `groups` are (n,); None: those that the answers hold, or each sample is one.
        """
        alone = p.ids if p.group is None else p.group
        names, number = np.unique(alone if groups is None else groups, return_inverse=True)
        left_out = leave_out_final(p, number, len(names) + 1, score)
        return cls(names, left_out, not (groups is None and p.group is None))

    def aligned(self, names: Array) -> Floats:
        """The values without each of `names`, which are sorted; some may not be in this run."""
        result = np.full(len(names), self.values[-1])
        result[np.searchsorted(names, self.names)] = self.values[:-1]
        return result


def share_of_rows(rows: Sequence[Sequence[Sequence[LeftOut]]]) -> tuple[Floats | None, int]:
    """The variances of `pair_variances`, and the number of groups; None and 0 if unknown.

    `rows` are rows of a table, their columns, and the runs whose mean is there.
    """
    runs = [run for row in rows for column in row for run in column]
    if not runs:
        return None, 0
    names = np.unique(np.concatenate([run.names for run in runs]))
    nothing = np.full(len(names), np.nan)
    left_out = [
        [np.mean([r.aligned(names) for r in runs], axis=0) if runs else nothing for runs in row]
        for row in rows
    ]
    return pair_variances(np.array(left_out)), len(names)


def leave_out_final(p: Predictions, groups: Ints, n_groups: int, score: str) -> Floats:
    """(n_groups,) the final score of a run without the samples of each of its (n,) `groups`."""
    if p.lacks_within and score.startswith("within_"):
        return np.full(n_groups, np.nan)
    last = np.array([len(p.session) - 1])
    right, classes = rate_answers(p, score, last)
    counts = p.eval_set <= p.session[last, None]
    return np.asarray(leave_out_means(right, counts, classes, groups, n_groups)[0])


def rate_answers(p: Predictions, score: str, moments: Ints) -> tuple[Floats, Ints]:
    """(M, n) 1 where an answer is right; and (n,) classes, all 0 where a score is over samples."""
    answers = (p.within if score.startswith("within_") else p.answer)[moments]
    classes = p.y if score.endswith("class_accuracy") else np.zeros_like(p.y)
    return (answers == p.y).astype(np.float64), classes


def leave_out_means(
    values: Floats, counts: Bools, classes: Ints, groups: Ints, n_groups: int
) -> Floats:
    """(M, G) mean over classes of the means over their samples, without each group's samples.

    A class whose samples are all left out does not count; NaN where nothing is left.

    Parameters
    ----------
    values : array of float
        (M, N) value of each sample at each moment, such as right or wrong.
    counts : array of bool
        (M, N) whether the sample counts at that moment.
    classes, groups : array of int
        (N,) class and group of each sample; one class for all: the mean over samples.
    """
    width = int(classes.max(initial=0)) + 1
    cells, cell = np.unique(groups * width + classes, return_inverse=True)
    cell_group, cell_class = cells // width, cells % width
    result = np.empty((len(values), n_groups))
    for moment, (value, counted) in enumerate(zip(values, counts, strict=True)):
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

    Parameters
    ----------
    left_out : array of float
        (k, n, G): row, seed, group: the value without that group; NaN where there is no run. Values
        are averaged over the seeds that both rows have.
    """
    n_groups = left_out.shape[-1]
    apart = left_out - left_out.mean(axis=-1, keepdims=True)
    has = ~np.isnan(apart).any(axis=-1)
    patterns, which = np.unique(has, axis=0, return_inverse=True)
    result = np.full((len(has), len(has)), np.nan)
    for a, mine in enumerate(patterns):
        for b, other in enumerate(patterns):
            if (both := mine & other).any():
                x, y = (apart[which == c][:, both].mean(axis=1) for c in (a, b))
                squares = (x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1) - 2 * x @ y.T
                result[np.ix_(which == a, which == b)] = np.maximum(squares, 0)
        rows = apart[which == a][:, mine].mean(axis=1) if mine.any() else apart[which == a][:, 0]
        at = np.flatnonzero(which == a)
        result[at, at] = (rows**2).sum(axis=1)
    return np.asarray(result * (n_groups - 1) / n_groups)
