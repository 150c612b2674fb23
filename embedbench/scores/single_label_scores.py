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
    and NaN where another tool gave no such answers.

    Parameters
    ----------
    class_sizes : sequence of int or None
        (C,) training samples of each class in the whole stream; None: they are not known.
    """
    within = name.startswith("within_")
    if within and p.lacks_within:
        return _undefined(score_matrix(p, name.removeprefix("within_"), class_sizes), name)
    right = np.asarray(np.equal(p.within if within else p.answer, p.y), dtype=np.bool_)  # (M, n)
    score = _class_accuracy if name.endswith("class_accuracy") else _accuracy
    n_sets = len(p.set_classes)
    sizes = np.bincount(p.eval_set, minlength=n_sets)
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    values = np.full((len(p.session), n_sets), np.nan)
    for e in range(n_sets):
        part = slice(bounds[e], bounds[e + 1])
        values[:, e] = score(right[:, part], p.y[part])
    if not within:
        unseen = p.set_classes[None, :, :] & ~p.seen[:, None, :]  # (M, E, C)
        values[unseen.any(axis=2)] = np.nan
    pooled = np.full(len(p.session), np.nan)
    for m, session in enumerate(p.session):
        known = slice(0, bounds[min(int(session) + 1, n_sets)])
        pooled[m] = score(right[m : m + 1, known], p.y[known])[0]
    recalls = _recalls(p, right, bounds)
    n_classes = p.set_classes.sum(axis=1)
    return ScoreMatrix.of(name, p, values, pooled, sizes, n_classes, recalls, class_sizes)


def _undefined(like: ScoreMatrix, name: str) -> ScoreMatrix:
    """A score matrix without any score."""
    names = ("values", "pooled", "per_class")
    nothing = {field: np.full_like(getattr(like, field), np.nan) for field in names}
    return replace(like, name=name, **nothing)


def _recalls(p: Predictions, right: Bools, bounds: Ints) -> Floats:
    """(M, C) recall of each class seen, over the eval sets of the sessions so far.

    `bounds` (E + 1,) says where each eval set begins.
    """
    n_sets, n_classes = p.set_classes.shape
    recalls = np.full((len(right), n_classes), np.nan)
    for m, session in enumerate(p.session):
        known = slice(0, bounds[min(int(session) + 1, n_sets)])
        counts = np.bincount(p.y[known], minlength=n_classes)
        hits = np.bincount(p.y[known], right[m, known], minlength=n_classes)
        there = p.seen[m] & (counts > 0)
        recalls[m, there] = hits[there] / counts[there]
    return recalls


def _accuracy(right: Bools, y: Ints) -> Floats:
    """(M, n) → (M,) share of right answers at each moment."""
    if len(y) == 0:
        return np.full(len(right), np.nan)
    share: Floats = right.mean(axis=1, dtype=np.float64)
    return share


def _class_accuracy(right: Bools, y: Ints) -> Floats:
    """(M, n) → (M,) mean over the classes in y of the share of right answers."""
    if len(y) == 0:
        return np.full(len(right), np.nan)
    classes, inverse, counts = np.unique(y, return_inverse=True, return_counts=True)
    hits = np.stack([np.bincount(inverse, row, minlength=len(classes)) for row in right])
    mean: Floats = (hits / counts).mean(axis=1)  # (M, k) → (M,)
    return mean
