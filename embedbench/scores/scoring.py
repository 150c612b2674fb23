"""From predictions to score matrices: pure NumPy, no learner, no file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from embedbench.arrays import Bools, Floats, Ints

from .label_sets import AnyPredictions, LabelSets
from .predictions import Predictions

SCORES = ("class_accuracy", "accuracy", "within_class_accuracy", "within_accuracy")


@dataclass(frozen=True)
class ScoreMatrix:
    """One base score of one run. M moments, E eval sets; fractions; NaN where undefined.

    Parameters
    ----------
    name : one of `SCORES`
    values : (M, E) score of eval set e at moment m
    pooled : (M,) score over the test samples of all sessions learned so far, together
    session, samples_seen, classes_seen : (M,) as in `Predictions`
    n_samples, n_classes, learned : (E,) size, classes, and the session that teaches each eval set
    """

    name: str
    values: Floats
    pooled: Floats
    session: Ints
    samples_seen: Ints
    classes_seen: Ints
    n_samples: Ints
    n_classes: Ints
    learned: Ints

    @property
    def ends(self) -> Ints:
        """The last moment of each session, (T,)."""
        return np.flatnonzero(np.append(np.diff(self.session) > 0, True))

    @property
    def R(self) -> Floats:  # noqa: N802  (the field's name)
        """R[i, j]: score on eval set j after session i, (T, E)."""
        return self.values[self.ends]

    def until(self, session: int) -> ScoreMatrix:
        """What was known after `session`: its moments and the eval sets taught so far.

        Any metric of it is that metric after `session` instead of after the last one.
        """
        m, e = self.session <= session, self.learned <= session
        return ScoreMatrix(
            name=self.name,
            values=self.values[m][:, e],
            pooled=self.pooled[m],
            session=self.session[m],
            samples_seen=self.samples_seen[m],
            classes_seen=self.classes_seen[m],
            n_samples=self.n_samples[e],
            n_classes=self.n_classes[e],
            learned=self.learned[e],
        )


def score_matrix(p: Predictions, name: str = "class_accuracy") -> ScoreMatrix:
    """Compute one base score from predictions.

    `accuracy` is the share of right answers; `class_accuracy` the mean of the per-class recalls
    (Kemker et al. 2018, "mean-per-class accuracy"). Both take the answer over the classes seen so
    far; `within_…` take the answer within the sample's own session (task-incremental).
    An eval set is scored once all its classes were seen, for `within_…` always.
    """
    within = name.startswith("within_")
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
        values[~_evaluated(p)] = np.nan
    learned = np.arange(n_sets)
    pooled = np.full(len(p.session), np.nan)
    for m, session in enumerate(p.session):
        known = slice(0, bounds[min(int(session) + 1, n_sets)])
        pooled[m] = score(right[m : m + 1, known], p.y[known])[0]
    return ScoreMatrix(
        name=name,
        values=values,
        pooled=pooled,
        session=p.session,
        samples_seen=p.samples_seen,
        classes_seen=p.seen.sum(axis=1),
        n_samples=sizes,
        n_classes=p.set_classes.sum(axis=1),
        learned=learned,
    )


def score_matrices(p: AnyPredictions) -> dict[str, ScoreMatrix]:
    """Every base score of a run by name, the main one first."""
    if isinstance(p, LabelSets):
        from . import multilabel  # which builds on this module

        found: dict[str, ScoreMatrix] = multilabel.matrices(p)
        return found
    return {name: score_matrix(p, name) for name in SCORES}


def main_matrix(p: AnyPredictions) -> ScoreMatrix:
    """The main base score of a run: mean-per-class accuracy, or pw-JS of label sets."""
    if isinstance(p, LabelSets):
        from . import multilabel  # which builds on this module

        found: ScoreMatrix = multilabel.score_matrix(p)
        return found
    return score_matrix(p)


def _evaluated(p: Predictions) -> Bools:
    """(M, E): every class of the eval set was seen at the moment."""
    missing = p.set_classes[None, :, :] & ~p.seen[:, None, :]  # (M, E, C)
    return np.logical_not(missing.any(axis=2), dtype=np.bool_)


def _accuracy(right: Bools, y: Ints) -> Floats:
    """(M, n) → (M,) share of right answers."""
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
