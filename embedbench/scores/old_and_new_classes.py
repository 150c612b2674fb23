"""Old and new classes apart: the two sides of one accuracy, after the last session.

Base and novel classes are those of the first session and of all later ones, as papers on few-shot
streams split them; old and new classes those of all earlier sessions and of the last one. Records
do not hold these metrics, as they follow from the stored answers. A mean over several sessions is
over their test samples, or of a score by class over their classes: so base and novel accuracy,
weighted by their test samples, give the accuracy, and so do old and new. Label sets, whose sessions
share test samples, have no such mean: it is NaN.
"""

import numpy as np

from embedbench.array_types import Bools

from .metrics import Metric, Reference
from .score_matrix import ScoreMatrix


def base_accuracy(scores: ScoreMatrix, reference: Reference) -> float:
    """Score on the classes of the first session, after the last one.

    R[T-1, 0]. **Source**: in common use on few-shot streams, "base classes"; A_T^1 of Tang et al.
    (2024).

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> base_accuracy(scores, Reference())
    0.3
    """
    return _split(scores, 1)[0]


def novel_accuracy(scores: ScoreMatrix, reference: Reference) -> float:
    """Score on the classes of all sessions after the first, after the last one.

    Σ_{j≥1} s_j R[T-1, j] / Σ_{j≥1} s_j, s_j the test samples of a session, or its classes. NaN with
    one session. **Source**: in common use on few-shot streams, "novel classes"; the last value of
    the curve of this name, `few_shot_scores.novel_accuracy`.

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> round(novel_accuracy(scores, Reference()), 3)  # (0.5 + 0.7) / 2
    0.6
    """
    return _split(scores, 1)[1]


def hacc(scores: ScoreMatrix, reference: Reference) -> float:
    """Harmonic mean of the scores on base and on novel classes, after the last session.

    2 b n / (b + n); NaN where both are 0. **Source**: Peng et al. (2022), ALICE; the last value of
    the curve of this name, `few_shot_scores.hacc`.

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> round(hacc(scores, Reference()), 3)  # 2 * 0.3 * 0.6 / 0.9
    0.4
    """
    base, novel = _split(scores, 1)
    return 2 * base * novel / (base + novel) if base + novel else float("nan")


def performance_drop(scores: ScoreMatrix, reference: Reference) -> float:
    """PD, performance dropping rate: score after the first session less that after the last one.

    α_0 - α_{T-1}, each over all classes so far; NaN with one session. Lower is better. **Source**:
    Zhang et al. (2021), CEC, "performance dropping rate". `few_shot_scores.pd` is another number.

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> round(performance_drop(scores, Reference()), 3)  # 0.9 - 0.5
    0.4
    """
    after = scores.pooled[scores.ends]
    return float(after[0] - after[-1]) if len(after) > 1 else float("nan")


def old_accuracy(scores: ScoreMatrix, reference: Reference) -> float:
    """Score on the classes of all sessions before the last one, after it.

    Σ_{j<T-1} s_j R[T-1, j] / Σ_{j<T-1} s_j, s_j the test samples of a session, or its classes. NaN
    with one session. **Source**: in common use, "old classes"; e.g. Wu et al. (2019), BiC.

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> round(old_accuracy(scores, Reference()), 3)  # (0.3 + 0.5) / 2
    0.4
    """
    return _split(scores, int(scores.session[-1]))[0]


def new_accuracy(scores: ScoreMatrix, reference: Reference) -> float:
    """Score on the classes of the last session, after it.

    R[T-1, T-1]. **Source**: in common use, "new classes"; e.g. Wu et al.
    (2019), BiC.

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> new_accuracy(scores, Reference())
    0.7
    """
    return _split(scores, int(scores.session[-1]))[1]


FEW_SHOT: dict[str, Metric] = {
    f.__name__: f for f in (base_accuracy, novel_accuracy, hacc, performance_drop)
}
OLD_AND_NEW: dict[str, Metric] = FEW_SHOT | {f.__name__: f for f in (old_accuracy, new_accuracy)}
LOWER = ("performance_drop",)


def _split(scores: ScoreMatrix, at: int) -> tuple[float, float]:
    """The last score on the sessions before session `at`, and on those from there on."""
    reached = scores.learned <= scores.session[-1]
    early = scores.learned < at
    return _mean(scores, early & reached), _mean(scores, ~early & reached)


def _mean(scores: ScoreMatrix, chosen: Bools) -> float:
    """The last score on some sessions together; NaN where they have no test sample."""
    sets = np.flatnonzero(chosen & scores.tested)
    if len(sets) == 1:
        return float(scores.R[-1, sets[0]])
    if len(sets) == 0 or np.isnan(scores.per_class).all():
        return float("nan")
    return float(np.average(scores.R[-1, sets], weights=scores.sizes[sets]))
