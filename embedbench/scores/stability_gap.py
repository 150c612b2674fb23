"""The stability gap: how far old sessions fall while a new one is learned, and rise again.

It is seen at the moments between the ends of sessions (`protocol.evaluate_every`). Without such
moments the metrics are NaN. Both take `(scores, reference)`, as those of `metrics`.
"""

import numpy as np

from embedbench.array_types import Floats

from .metrics import Reference
from .score_matrix import ScoreMatrix, mean_or_nan

WINDOW = 10  # moments; the paper's shorter one


def min_accuracy(scores: ScoreMatrix, reference: Reference) -> float:
    """Min-ACC: mean over old sessions of the lowest score at any moment after they were learned.

    1/(T-1) Σ_{j<T-1} min_m R_m[j] over the moments m after the end of session j, those between the
    ends of sessions too. NaN where a run was evaluated at the ends of sessions alone.

    **Source**: De Lange et al. (2023), average minimum accuracy, min-ACC.

    Examples
    --------
    >>> values, session = [[0.9, 0], [0.5, 0.1], [0.6, 0.8]], [0, 1, 1]
    >>> scores = ScoreMatrix.from_matrix(values, session)
    >>> min_accuracy(scores, Reference())
    0.5
    """
    lows = [
        scores.values[scores.session > scores.learned[j], j].min()
        for j in np.flatnonzero(scores.tested)
        if scores.learned[j] < scores.session[-1]
    ]
    return mean_or_nan(lows if _has_moments(scores) else [])


def windowed_forgetting(scores: ScoreMatrix, reference: Reference) -> float:
    """WF: mean over sessions of the largest drop within ten moments in a row.

    1/T Σ_j max_{m<m'<m+10} (R_m[j] - R_m'[j]), over the moments since the classes of session j were
    seen; 0 where the score never falls. Lower is better. It depends on `evaluate_every`: compare
    runs of one setting. NaN where a run was evaluated at the ends of sessions alone.

    **Source**: De Lange et al. (2023), windowed forgetting WF^w with w = 10, as their code
    computes it. **Departs**: they evaluate after every step of the optimiser, a run here after
    every `evaluate_every` samples; a session with one moment has no drop and counts as 0.

    Examples
    --------
    >>> values, session = [[0.9, 0], [0.5, 0.1], [0.6, 0.8]], [0, 1, 1]
    >>> scores = ScoreMatrix.from_matrix(values, session)
    >>> round(windowed_forgetting(scores, Reference()), 3)  # (0.4 + 0) / 2
    0.2
    """
    drops = [_largest_drop(scores.values[:, j]) for j in np.flatnonzero(scores.tested)]
    return mean_or_nan(drops if _has_moments(scores) else [])


def _has_moments(scores: ScoreMatrix) -> bool:
    """Whether there are moments between the ends of sessions."""
    return len(scores.session) > len(scores.ends)


def _largest_drop(values: Floats) -> float:
    """The largest drop from one value to one of the nine after it; at least 0."""
    known = values[~np.isnan(values)]
    lags = range(1, min(WINDOW, len(known)))
    return max([0.0, *(float((known[:-lag] - known[lag:]).max()) for lag in lags)])
