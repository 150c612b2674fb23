"""Comparing several learners: corrected p-values, ranks, and agreement of rankings."""

import math
from collections.abc import Sequence

from embedbench.array_types import Floats

LEVEL = 0.05


def holm(p: Sequence[float]) -> list[float]:
    """p-values adjusted for the number of tests; NaN stays NaN and does not count as a test.

    **Source**: Holm (1979): the i-th smallest of m p-values times m - i + 1, made monotone.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted = [math.nan] * len(p)
    known = sorted((v, i) for i, v in enumerate(p) if not math.isnan(v))
    least = 0.0
    for rank, (value, i) in enumerate(known):
        least = max(least, min(1.0, (len(known) - rank) * value))
        adjusted[i] = least
    return adjusted


def average_ranks(scores: Floats) -> Floats:
    """(k,) mean over blocks of each learner's rank; rank 1 is the highest score, ties share a rank.

    Parameters
    ----------
    scores : array of float
        (blocks, k).

    >>> import numpy as np
    >>> average_ranks(np.array([[0.9, 0.5, 0.5], [0.4, 0.6, 0.2]]))
    array([1.5 , 1.75, 2.75])
    """
    from scipy.stats import rankdata

    ranks: Floats = rankdata(-scores, axis=1).mean(axis=0)
    return ranks


def kendall_tau(a: Sequence[float], b: Sequence[float]) -> float:
    """Kendall's τ_b of two rankings of the same items: 1 for the same order, -1 for the reverse.

    NaN if all items of a ranking are tied, or if there are fewer than two items.

    **Source**: Kendall (1945): (concordant - discordant) / √((pairs - ties in a)(pairs - ties in
    b)).

    >>> round(kendall_tau([1, 2, 3], [1, 3, 2]), 12)
    0.333333333333
    """
    from scipy.stats import kendalltau

    return float(kendalltau(a, b).statistic) if len(a) > 1 else math.nan
