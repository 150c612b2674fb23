"""Any metric of a run without each group of its test samples, for `sample_jackknife`.

Ω, forgetting or gAcc are no means over samples: they are computed again from the score matrix that
the rest of the samples gives. The samples of a group leave α_ideal too, where the answers of the
offline runs are given and these runs were tested on the same samples; otherwise α_ideal is held
fixed, as on multi-modal streams, where each session has one of its own. The chance level of FWT is
held fixed: all rows of a table have the same, and it leaves their differences.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from embedbench.array_types import Array, Bools, Floats, Ints

from . import against_chance
from .few_shot_scores import class_ratio, gacc_area
from .metrics import Metric, Reference, all_metrics, average_anytime_accuracy
from .predictions import Predictions
from .sample_jackknife import LeftOut, leave_out_final, leave_out_means, rate_answers
from .score_matrix import BY_MOMENT, ScoreMatrix
from .single_label_scores import score_matrix

MINIMUM = "worst_class_accuracy"  # a jackknife does not estimate the variance of a minimum
CURVES: dict[str, Callable[[ScoreMatrix], Floats]] = {
    "raa": against_chance.raa,
    "raf": against_chance.raf,
    "gacc": lambda scores: gacc_area(scores.R, class_ratio(scores.n_classes)),
}
_Parts = dict[int, list[tuple[int, Floats, int]]]  # group → eval set or class, (M,) score, size


def mean_curve(curve: Sequence[float] | Floats) -> float:
    """Mean over the sessions where a curve is defined; NaN without any."""
    values = np.array(curve, dtype=np.float64)
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def find_metric(name: str) -> Metric | None:
    """The function of a metric of ours, or of the mean of a curve; None if it has no jackknife."""
    if name in CURVES:
        return lambda scores, _: mean_curve(CURVES[name](scores))
    return None if name == MINIMUM else all_metrics().get(name)


def leave_out_metric(
    p: Predictions,
    score: str,
    metric: Metric,
    reference: Reference,
    *,
    offline: Sequence[Sequence[Predictions]] = (),
    groups: Array | None = None,
    class_sizes: Sequence[int] | None = None,
) -> LeftOut:
    """A metric of a run without each group of its test samples.

    Parameters
    ----------
    offline : sequence of sequence of Predictions
        Answers of the runs behind α_ideal, or of those behind each α_offline,i of
        `omega_streaming`; empty: α_ideal is held fixed.
    groups : array or None
        (n,) `group` of each test sample; None: every sample is a group.
    """
    names, number = np.unique(p.ids if groups is None else groups, return_inverse=True)
    ideals = _leave_out_ideals(offline, p, number, len(names) + 1, score)
    ends_only = metric is not average_anytime_accuracy
    rest = _Rest(p, score, number, len(names) + 1, class_sizes, ends_only=ends_only)
    values = np.empty(len(names) + 1)
    for alike in [*_alike(p, rest.right, number, ideals), np.array([len(names)])]:
        left = None if ideals is None else ideals[:, alike[0]]
        with np.errstate(invalid="ignore", divide="ignore"):
            values[alike] = metric(rest.matrix(alike[0]), _reference(reference, left))
    return LeftOut(names, values, groups is not None)


class _Rest:
    """The score matrix of a run without each group; the last group is empty."""

    def __init__(
        self,
        p: Predictions,
        score: str,
        number: Ints,
        n_groups: int,
        class_sizes: Sequence[int] | None,
        *,
        ends_only: bool,
    ) -> None:
        whole = score_matrix(p, score, class_sizes)
        moments = whole.ends if ends_only else np.arange(len(p.session))
        parts = {f: getattr(whole, f)[moments] for f in ("values", *BY_MOMENT)}
        self.whole = whole = replace(whole, **parts)
        self.right, classes = rate_answers(p, score, moments)
        counts = p.eval_set <= whole.session[:, None]
        pooled = leave_out_means(self.right, counts, classes, number, n_groups)
        self.pooled = np.where(np.isnan(whole.pooled)[:, None], np.nan, pooled)
        self.sets = self._parts(whole.values, p.eval_set, np.ones_like(counts), classes, number)
        self.classes = self._parts(whole.per_class, p.y, counts, np.zeros_like(p.y), number)

    def _parts(
        self, known: Floats, part_of: Ints, counts: Bools, classes: Ints, number: Ints
    ) -> _Parts:
        """Group → eval sets or classes that it is in, their (M,) scores without it, its size."""
        parts: _Parts = {}
        for k in range(known.shape[1]):
            samples = np.flatnonzero(part_of == k)
            groups, local, sizes = np.unique(
                number[samples], return_inverse=True, return_counts=True
            )
            left = leave_out_means(
                self.right[:, samples], counts[:, samples], classes[samples], local, len(groups)
            )
            left[np.isnan(known[:, k])] = np.nan
            for g, column, size in zip(groups.tolist(), left.T, sizes.tolist(), strict=True):
                parts.setdefault(g, []).append((k, column, size))
        return parts

    def matrix(self, group: int) -> ScoreMatrix:
        """The score matrix without a group."""
        whole = self.whole
        values, per_class = whole.values.copy(), whole.per_class.copy()
        n_samples = whole.n_samples.copy()
        for e, column, size in self.sets.get(group, ()):
            values[:, e] = column
            n_samples[e] -= size
        for c, column, _ in self.classes.get(group, ()):
            per_class[:, c] = column
        left = replace(whole, values=values, n_samples=n_samples, per_class=per_class)
        return replace(left, pooled=self.pooled[:, group])


def _alike(p: Predictions, right: Floats, number: Ints, ideals: Floats | None) -> list[Ints]:
    """Groups whose removal gives the same: single samples of one kind that were answered alike."""
    n_groups = int(number.max()) + 1
    if n_groups < len(number):
        return [np.array([g]) for g in range(n_groups)]
    rows = np.array([p.eval_set, p.y, *right])[:, np.argsort(number)]
    with_ideals = rows if ideals is None else np.concatenate([rows, ideals[:, :-1]])
    _, kind = np.unique(with_ideals, axis=1, return_inverse=True)
    kind = kind.ravel()
    order = np.argsort(kind, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(kind[order])) + 1)


def _reference(reference: Reference, ideals: Floats | None) -> Reference:
    """The reference values without a group."""
    if ideals is None:
        return reference
    so_far = None if reference.so_far is None else ideals
    return replace(reference, ideal=float(ideals[-1]), so_far=so_far)


def _leave_out_ideals(
    offline: Sequence[Sequence[Predictions]],
    p: Predictions,
    number: Ints,
    n_groups: int,
    score: str,
) -> Floats | None:
    """(K, n_groups) each α_ideal without each group; None where it is to be held fixed."""
    ids, first = np.unique(p.ids, return_index=True)
    runs = [run for each in offline for run in each]
    if not runs or not all(np.isin(run.ids, ids).all() for run in runs):
        return None
    group_of = number[first]

    def without(q: Predictions) -> Floats:
        return leave_out_final(q, group_of[np.searchsorted(ids, q.ids)], n_groups, score)

    return np.array([np.mean([without(q) for q in each], axis=0) for each in offline])
