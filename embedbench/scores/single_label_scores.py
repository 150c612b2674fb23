"""Accuracies of runs with one label per sample, as score matrices."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from embedbench.array_types import Bools, Floats, Ints

from .predictions import Predictions
from .score_matrix import ScoreMatrix

SCORES = ("class_accuracy", "accuracy", "within_class_accuracy", "within_accuracy")


def score_matrix(
    p: Predictions, name: str = "class_accuracy", class_sizes: Sequence[int] | None = None
) -> ScoreMatrix:
    """Compute one base score from predictions.

    `accuracy` is the share of right answers. `class_accuracy` is the mean of the per-class recalls
    (Kemker et al. 2018, "mean-per-class accuracy"). Both use the answer over the classes seen so
    far; `within_…` use the answer within the sample's own session (task-incremental). An eval set
    is scored as soon as all its classes were seen; for `within_…` it is scored at every moment,
    and NaN where another tool gave no such answers. So is the score of a set before its session
    where another tool left answers out. `class_sizes` are (C,) training samples of each
    class in the whole stream, if they are known.
    """
    within = name.startswith("within_")
    if within and p.lacks_within:
        like = score_matrix(p, name.removeprefix("within_"), class_sizes)
        scores = ("values", "pooled", "per_class")
        undefined = {field: np.full_like(getattr(like, field), np.nan) for field in scores}
        return replace(like, name=name, **undefined)
    right = np.asarray(np.equal(p.within if within else p.answer, p.y), dtype=np.bool_)  # (M, n)
    by_class = name.endswith("class_accuracy")
    n_sets, n_classes = p.set_classes.shape
    sizes = np.bincount(p.eval_set, minlength=n_sets)
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    values = np.full((len(p.session), n_sets), np.nan)
    for e in range(n_sets):
        part = slice(bounds[e], bounds[e + 1])
        values[:, e] = _accuracy(right[:, part], p.y[part], by_class)
    if not within:
        unseen = p.set_classes[None, :, :] & ~p.seen[:, None, :]  # (M, E, C)
        values[unseen.any(axis=2)] = np.nan
    if p.lacks_within:
        values[_before_learning(p)] = np.nan
    pooled, recalls = np.full(len(right), np.nan), np.full((len(right), n_classes), np.nan)
    for m, session in enumerate(p.session):
        known = slice(0, bounds[min(int(session) + 1, n_sets)])
        counts = np.bincount(p.y[known], minlength=n_classes)
        hits = np.bincount(p.y[known], right[m, known], minlength=n_classes)
        there = counts > 0
        shares = hits[there] / counts[there]
        if there.any():
            pooled[m] = shares.mean() if by_class else hits.sum() / counts.sum()
        recalls[m, there] = np.where(p.seen[m, there], shares, np.nan)
    in_set = p.set_classes.sum(axis=1)
    return ScoreMatrix.of(name, p, values, pooled, sizes, in_set, recalls, class_sizes)


def _before_learning(p: Predictions) -> Bools:
    """(M, E) where another tool left answers to the samples of a later session out."""
    none = p.answer < 0
    sets = np.arange(len(p.set_classes))
    missing = np.stack([none[:, p.eval_set == e].any(axis=1) for e in sets], axis=1)
    return np.asarray(missing & (sets > p.session[:, None]), dtype=np.bool_)


def _accuracy(right: Bools, y: Ints, by_class: bool) -> Floats:
    """(M, n) → (M,) share of right answers at each moment; by class, the mean over those in y."""
    if len(y) == 0:
        return np.full(len(right), np.nan)
    if not by_class:
        return np.asarray(right.mean(axis=1, dtype=np.float64))
    classes, inverse, counts = np.unique(y, return_inverse=True, return_counts=True)
    hits = np.stack([np.bincount(inverse, row, minlength=len(classes)) for row in right])
    return np.asarray((hits / counts).mean(axis=1))  # (M, k) → (M,)
