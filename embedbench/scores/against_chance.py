"""Accuracy and forgetting against chance: relative to a random classifier, session by session.

A stream that adds classes gets harder, so even a learner that knows nothing loses accuracy. uRAA
and uRAF divide by the values of such a learner; RAA and RAF divide by their largest possible value,
too.

**Source**: Michel et al. (2023), Definitions 4.1 and 4.2, Propositions 4.3 and 4.4. Sessions are
counted from 1 here, as in the paper: k = 1 … K; C_k is the number of classes seen after session k.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from embedbench.array_types import Floats, Ints

from .score_matrix import ScoreMatrix


def guessing(seen: int | Ints, limits: Sequence[int | None] = (None,)) -> Floats:
    """(…, E) expected accuracy of a uniform draw among the candidates of each eval set.

    Every chance level in flags, tables, curves and figures is this one. `seen` are (…, 1) classes
    seen so far, `limits` (E,) candidates; None: all classes seen.
    """
    most = np.array([np.inf if n is None else n or np.inf for n in limits])
    chances: Floats = 1.0 / np.minimum(seen, most)
    return chances


def random_forgetting(seen: Sequence[int]) -> list[Fraction]:
    """AF_k(Rand), k = 2 … K: the mean of 1/C_j over j < k, minus 1/C_k.

    **Source**: the proof of Lemma B.1, before it assumes equal sessions; with equal sessions it is
    k (H_k - 1) / ((k - 1) C_k).
    """
    values = []
    total = Fraction(0)
    for k in range(1, len(seen)):
        total += Fraction(1, seen[k - 1])
        values.append(total / k - Fraction(1, seen[k]))
    return values


# --- the curves of a run, (K,) each ---


def aa(scores: ScoreMatrix) -> Floats:
    """AA_k: unweighted mean over the eval sets so far of the score after session k.

    AA_k = 1/k Σ_{j≤k} R[k, j]. **Source**: Michel et al. (2023), Eq. 1.

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> aa(scores).round(3)
    array([0.9, 0.7, 0.5])
    """
    there = scores.tested
    return np.array([np.mean(row[: k + 1][there[: k + 1]]) for k, row in enumerate(scores.R)])


def af(scores: ScoreMatrix) -> Floats:
    """AF_k: mean over old sessions of the drop from the best earlier score to the score after k.

    AF_k = 1/(k-1) Σ_{j<k} (max_{j≤l<k} R[l, j] - R[k, j]); NaN at k = 1. **Source**: Michel et al.
    (2023), Eq. 2.

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> af(scores).round(3)
    array([ nan, 0.3 , 0.45])
    """
    R = scores.R
    learned = np.tri(*R.shape, dtype=np.bool_)
    best = np.maximum.accumulate(np.where(learned, R, -np.inf))  # (K, E) max over j ≤ l ≤ k
    drops, there = best[:-1] - R[1:], scores.tested  # (K - 1, E), (E,)
    return np.array([np.nan, *(np.mean(d[:k][there[:k]]) for k, d in enumerate(drops, start=1))])


def uraa(scores: ScoreMatrix) -> Floats:
    """uRAA_k: AA_k as a multiple of the random classifier's.

    uRAA_k = AA_k / AA_k(Rand) = C_k AA_k. **Source**: Michel et al. (2023), Eq. 3.

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> uraa(scores).round(3)  # 1, 2 and 3 classes seen
    array([0.9, 1.4, 1.5])
    """
    return aa(scores) / _random_accuracy(scores)


def uraf(scores: ScoreMatrix) -> Floats:
    """uRAF_k: AF_k as a multiple of the random classifier's.

    uRAF_k = AF_k / AF_k(Rand), `random_forgetting`; NaN at k = 1 and while no class was added.
    **Source**: Michel et al. (2023), Eq. 3.

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> uraf(scores).round(3)
    array([ nan, 0.6 , 1.08])
    """
    return af(scores) / _random_forgetting(scores)


def raa(scores: ScoreMatrix) -> Floats:
    """RAA_k: uRAA_k as a share of its largest possible value; a constant curve is no progress.

    RAA_k = γ_k AA_k, γ_k = C_k/C_K, whatever the sizes of the sessions; RAA_K = AA_K. **Source**:
    Michel et al. (2023), Eq. 5.

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> raa(scores).round(3)
    array([0.3  , 0.467, 0.5  ])
    """
    chance = _random_accuracy(scores)
    return aa(scores) * (np.min(chance) / chance)


def raf(scores: ScoreMatrix) -> Floats:
    """RAF_k: uRAF_k as a share of its largest possible value, max_k' 1/AF_k'(Rand).

    RAF_k = AF_k · min_k' AF_k'(Rand) / AF_k(Rand). With equal sessions this is β_k AF_k and RAF_K =
    AF_K. If session 1 is large, the maximum lies at k' = 2 and RAF_K < AF_K (with a base of 100
    classes and 100 sessions of one class: RAF_K = .0506 AF_K). **Source**: Michel et al. (2023),
    Eq. 4. **Departs**: Prop. 4.4 treats equal sessions only; this is the definition for any
    sessions.

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> raf(scores).round(3)
    array([ nan, 0.25, 0.45])
    """
    chance = _random_forgetting(scores)
    least = np.min(chance[1:]) if len(chance) > 1 else np.nan  # NaN where any is undefined
    return af(scores) * (least / chance)


def raf_lastnorm(scores: ScoreMatrix) -> Floats:
    """RAF_lastnorm_k: uRAF_k scaled so that its last value is AF_K.

    AF_k · AF_K(Rand) / AF_k(Rand). Equal to RAF_k with equal sessions; may exceed 1 otherwise.
    **Source**: ours, a variant of Michel et al. (2023), Eq. 4. **Departs**: it keeps RAF_K = AF_K
    for unequal sessions, as the paper says; Eq. 4 does not.

    Examples
    --------
    >>> scores = ScoreMatrix.from_matrix([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> raf_lastnorm(scores).round(3)  # as raf, since sessions are equal
    array([ nan, 0.25, 0.45])
    """
    chance = _random_forgetting(scores)
    return af(scores) * (float(chance[-1]) / chance)


CURVES = (aa, af, uraa, uraf, raa, raf, raf_lastnorm)


def curves(scores: ScoreMatrix, *, restricted: bool = False) -> dict[str, Floats]:
    """Every curve by name, (K,) each.

    `restricted`: answers are not chosen among all the classes seen, so that 1/C_k is not the chance
    level (within-session scores, modalities). Only AA and AF are defined then.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        result = {curve.__name__: curve(scores) for curve in CURVES}
    if restricted:
        result |= {k: np.full_like(v, np.nan) for k, v in result.items() if k not in ("aa", "af")}
    return result


def _random_accuracy(scores: ScoreMatrix) -> Floats:
    """(K,) AA_k(Rand) = 1/C_k (Lemma A.1)."""
    return guessing(scores.classes_seen[scores.ends][:, None])[:, 0]


def _random_forgetting(scores: ScoreMatrix) -> Floats:
    """(K,) AF_k(Rand); NaN at k = 1 and where it is 0, since it is a divisor."""
    exact = random_forgetting(scores.classes_seen[scores.ends].tolist())
    values: Floats = np.array([np.nan, *map(float, exact)])
    values[values == 0] = np.nan
    return values
