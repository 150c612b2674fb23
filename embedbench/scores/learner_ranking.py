"""Comparing several learners: paired differences, ties, ranks, and agreement of rankings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from embedbench.arrays import Bools, Floats

from .mean_intervals import t_quantile

LEVEL = 0.05


@dataclass(frozen=True)
class PairedDifference:
    """The mean difference of two learners over n units on which both were measured.

    Parameters
    ----------
    mean, half : float
        Mean and half-width of its 95 % t-interval; NaN under two units.
    p : float
        Two-sided p-value of the paired t-test; NaN under two units.
    """

    mean: float
    half: float
    p: float
    n: int

    @classmethod
    def of(cls, differences: Sequence[float]) -> PairedDifference:
        """From one difference per unit. If all differences are equal and not 0, p is 0."""
        from scipy.special import stdtr  # scipy.stats takes ten times as long to import

        d = np.asarray(differences, dtype=np.float64)
        n = len(d)
        mean = float(d.mean()) if n else math.nan
        if n < 2 or math.isnan(mean):
            return cls(mean, math.nan, math.nan, n)
        error = float(d.std(ddof=1)) / math.sqrt(n)
        if error < 1e-12:  # all units have the same difference, up to rounding
            return cls(mean, 0.0, 1.0 if abs(mean) < 1e-12 else 0.0, n)
        return cls(mean, t_quantile(n) * error, 2 * float(stdtr(n - 1, -abs(mean) / error)), n)


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

    >>> average_ranks(np.array([[0.9, 0.5, 0.5], [0.4, 0.6, 0.2]]))
    array([1.5 , 1.75, 2.75])
    """
    from scipy.stats import rankdata

    ranks: Floats = rankdata(-scores, axis=1).mean(axis=0)
    return ranks


def tie_groups(separated: Bools) -> list[tuple[int, ...]]:
    """Groups such that two learners share one exactly where they are not separated, top first.

    Groups may overlap: if a and c are separated and neither is from b, there are (a, b) and (b, c).
    A group need not hold neighbours only.

    **Source**: the compact letter display of Piepho (2004), where two treatments share a letter if
    and only if they do not differ significantly. **Departs**: the groups are found greedily, each
    grown from the top around a pair that no group has yet, and those that add no pair are dropped;
    a display with fewer letters may exist.

    Parameters
    ----------
    separated : array of bool
        (k, k) symmetric, False on the diagonal; learners are in the order of a table.

    Returns
    -------
    list of tuple of int
        Positions in each group, in order.

    >>> apart = np.zeros((3, 3), dtype=bool)
    >>> apart[0, 1] = apart[1, 0] = True
    >>> tie_groups(apart)
    [(0, 2), (1, 2)]
    """
    k, groups = len(separated), list[tuple[int, ...]]()
    counts = np.zeros((k, k), dtype=np.int64)  # how many groups have a pair
    for i, j in [*itertools.combinations(range(k), 2), *((i, i) for i in range(k))]:
        if separated[i, j] or counts[i, j]:
            continue
        grown = [i, j]
        for m in range(k):
            if not separated[m, grown].any():
                grown.append(m)
        groups.append(tuple(sorted(set(grown))))
        counts[np.ix_(groups[-1], groups[-1])] += 1
    for group in list(groups):
        inside = np.ix_(group, group)
        if (counts[inside] > 1).all():
            counts[inside] -= 1
            groups.remove(group)
    return sorted(groups)


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
