"""Scores of few-shot streams: gAcc(α) and its area, novel and harmonic accuracy, performance drop.

A large base session is followed by sessions of a few samples a class. Most classes belong to the
base session, so plain accuracy hardly shows what happens to the novel classes. gAcc(α) scales the
weight of the base session from nothing (α = 0) to its number of classes (α = 1). The area under it
is one number for the whole range.

**Source**: Tang et al. (2024), "Rethinking Few-shot Class-incremental Learning", §3 and A6. The
formulas count sessions from 1, as the paper does: i = 1 … T. A_i^j = R[i, j] is the accuracy on the
classes of session j after session i; |Y_j| is the number of these classes. `accuracies` is (T, T);
only j ≤ i is read; `n_classes` is (T,) |Y_j|, `ratio` is r, see `class_ratio`; `sizes` is (T,) what
a session counts in a mean over test data: its classes, or its test samples. Every function returns
(T,), one value per session; NaN where undefined.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from embedbench.array_types import Floats, Ints

from .score_matrix import mean_or_nan


def aacc(accuracies: Floats, sizes: Sequence[int] | Ints) -> Floats:
    """aAcc_i: accuracy over all sessions so far, weighted by their sizes; its mean over i is aAcc.

    aAcc_i = Σ_{j≤i} s_j A_i^j / Σ_{j≤i} s_j. lAcc is the last value. **Source**: Tang et al.
    (2024), Eq. 1, where s_j are the test samples of a session, and Eq. 3, where they are its
    classes |Y_j|. The two are equal where all classes have the same number of test samples. Records
    have Eq. 1 under `by_score.accuracy`, and Eq. 3 under `by_score.class_accuracy`.

    Examples
    --------
    >>> accuracies = np.array([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> aacc(accuracies, [4, 1, 1]).round(3)  # (4 · 0.3 + 0.5 + 0.7) / 6
    array([0.9 , 0.64, 0.4 ])
    """
    weight = np.asarray(sizes, dtype=np.float64)
    known = np.where(weight > 0, np.tril(accuracies), 0.0)  # what has no test data counts nothing
    with np.errstate(invalid="ignore"):
        result: Floats = known @ weight / np.cumsum(weight)  # (T, T) @ (T,) -> (T,)
    return result


def tacc(accuracies: Floats) -> Floats:
    """tAcc_i: accuracy over all sessions so far, equal weight per session; its mean over i is tAcc.

    tAcc_i = 1/i Σ_{j≤i} A_i^j, which is AA_i. **Source**: Tang et al. (2024), Eq. 2.

    Examples
    --------
    >>> accuracies = np.array([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> tacc(accuracies).round(3)
    array([0.9, 0.7, 0.5])
    """
    return gacc(accuracies, 1, 1)  # the base session weighs as much as any other


def gacc(accuracies: Floats, ratio: float, alpha: ArrayLike) -> Floats:
    """gAcc_i(α): accuracy with the base session's weight scaled by α.

    gAcc_i(α) = (α r A_i^1 + Σ_{2≤j≤i} A_i^j) / (α r + i - 1), r = |Y_1|/|Y_novel|. gAcc_i(0) is the
    novel classes' accuracy, gAcc_i(1/r) = tAcc_i and gAcc_i(1) = aAcc_i; gAcc_1(0) is undefined.

    **Source**: Tang et al. (2024), Eq. 4. With several `alpha`, (…), the result is (…, T).

    Examples
    --------
    >>> accuracies = np.array([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> gacc(accuracies, 4, 0.25).round(3)  # α = 1/r is tAcc
    array([0.9, 0.7, 0.5])
    """
    base, novel, k = _parts(accuracies)
    weight = np.asarray(alpha, dtype=np.float64)[..., None] * ratio  # (…, 1)
    with np.errstate(invalid="ignore"):
        result: Floats = (weight * base + novel) / (weight + k)
    return result


def gacc_area(accuracies: Floats, ratio: float, *, exact: bool = False) -> Floats:
    """gAcc_i: area under gAcc_i(α), α from 0 to 1; its mean over i is gAcc.

    The trapezoid rule on α = a/r, a = 0 … r, with gAcc_1(0) counted as 0, so that a base session of
    accuracy A scores A (1 - 1/(2r)); NaN unless r is an integer. `exact`: the integral, for any r:
    A_i^1 + (Σ_{2≤j≤i} A_i^j - k A_i^1)/r · ln((r + k)/k), k = i - 1; for the base session it is
    A_1^1. The paper prints the former; at r = 12 the two differ by some tenths of a point after the
    base session.

    **Source**: Tang et al. (2024), Eq. 5 and 6; the grid is from their code. **Departs**: their
    code first rounds A_i^j to three decimals; ours does not.

    Examples
    --------
    >>> accuracies = np.array([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> gacc_area(accuracies, 4).round(2)  # the first: 0.9 (1 - 1/8)
    array([0.79, 0.68, 0.47])
    """
    if not exact:
        if not float(ratio).is_integer():
            return np.full(len(accuracies), np.nan)
        values = gacc(accuracies, ratio, np.linspace(0, 1, int(ratio) + 1))  # (r + 1, T)
        values[0, 0] = 0.0
        return np.asarray(np.trapezoid(values, dx=1 / ratio, axis=0), dtype=np.float64)
    base, novel, k = _parts(accuracies)
    later = np.maximum(k, 1)
    share = np.log((ratio + later) / later) / ratio
    area: Floats = base + np.where(k > 0, (novel - k * base) * share, 0.0)
    return area


def novel_accuracy(accuracies: Floats, sizes: Sequence[int] | Ints | None = None) -> Floats:
    """Accuracy on the novel classes: the mean over all sessions after the base session.

    A_i^novel = Σ_{2≤j≤i} s_j A_i^j / Σ_{2≤j≤i} s_j; NaN at the base session. Without `sizes` each
    session counts the same, which is gAcc_i(0). By test samples it is the share of right answers to
    the novel classes. **Source**: Tang et al. (2024), A6 and Tables A6 and A7.

    Examples
    --------
    >>> accuracies = np.array([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> novel_accuracy(accuracies).round(3)
    array([nan, 0.8, 0.6])
    """
    later = np.ones(0) if sizes is None else np.asarray(sizes, dtype=np.float64)[1:]
    if len({*later.tolist()}) < 2:
        return gacc(accuracies, 1, 0)  # the base session has no weight
    known = np.where(later > 0, np.tril(accuracies)[:, 1:], 0.0)  # (T, T - 1)
    with np.errstate(invalid="ignore"):
        result: Floats = known @ later / np.append(0.0, np.cumsum(later))
    return result


def hacc(accuracies: Floats, sizes: Sequence[int] | Ints | None = None) -> Floats:
    """hAcc_i: harmonic mean of the accuracies on base and on novel classes.

    hAcc_i = 2 A_i^1 A_i^novel / (A_i^1 + A_i^novel), with A_i^novel as in `novel_accuracy`; NaN at
    the base session, and where both are 0.
    **Source**: Peng et al. (2022), ALICE, in the form of Tang et al. (2024), Eq. A2.

    Examples
    --------
    >>> accuracies = np.array([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> hacc(accuracies).round(3)
    array([  nan, 0.686, 0.4  ])
    """
    base = accuracies[:, 0]
    novel = novel_accuracy(accuracies, sizes)
    with np.errstate(invalid="ignore"):
        result: Floats = 2 * base * novel / (base + novel)
    return result


def pd(accuracies: Floats) -> Floats:
    """PD_i, performance drop: mean change on each old session since it was learned.

    1/(i-1) Σ_{j<i} (A_i^j - A_j^j), so that a drop is negative; NaN at the base session. After the
    last session it is BWT.

    **Source**: Tang et al. (2024), §3.3 and A6, with one number for each j. **Departs**: ours is
    the mean over j. The PD of Zhang et al. (2021, CEC), aAcc_1 - aAcc_T, is a different number.

    Examples
    --------
    >>> accuracies = np.array([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> pd(accuracies).round(3)
    array([  nan, -0.3 , -0.45])
    """
    drops = accuracies - np.diagonal(accuracies)
    return np.array([mean_or_nan(row[:i]) for i, row in enumerate(drops)])


def kr(accuracies: Floats) -> Floats:
    """KR_i, knowledge rate: the share of each old session's first accuracy that is left.

    Mean over j < i of A_i^j / A_j^j; NaN at the base session. **Source**: Tang et al. (2024), §3.3,
    with one number for each j. **Departs**: ours is the mean over j. A session that was never
    learned (A_j^j = 0) has no such share and is left out: so a learner that keeps the base session
    and learns nothing else has KR 1, as the paper says.

    Examples
    --------
    >>> accuracies = np.array([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> kr(accuracies).round(3)
    array([  nan, 0.667, 0.479])
    """
    first = np.diagonal(accuracies)
    learned = first != 0
    shares = accuracies / np.where(learned, first, np.nan)
    return np.array([mean_or_nan(row[:i][learned[:i]]) for i, row in enumerate(shares)])


def rpd(accuracies: Floats) -> Floats:
    """RPD_i, relative performance drop: PD relative to the first accuracy of each old session.

    Mean over j < i of (A_i^j - A_j^j) / A_j^j, which is KR_i - 1; drops are negative. **Source**:
    Tan et al. (2022), in the form of Tang et al. (2024), A6. **Departs**: the same as KR.

    Examples
    --------
    >>> accuracies = np.array([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> rpd(accuracies).round(3)
    array([   nan, -0.333, -0.521])
    """
    return kr(accuracies) - 1


def max_forgetting(accuracies: Floats) -> Floats:
    """F_i: range of an old session's accuracies since it was learned, mean over old sessions.

    Mean over j < i of max_{j≤l≤i} A_l^j - min_{j≤l≤i} A_l^j; NaN at the base session. A rise counts
    like a drop. **Source**: Tang et al. (2024), A6, with one number for each j. They cite Chaudhry
    et al. (2018), whose forgetting is a different measure (`average_forgetting`). **Departs**: ours
    is the mean over j.

    Examples
    --------
    >>> accuracies = np.array([[0.9, 0, 0], [0.6, 0.8, 0], [0.3, 0.5, 0.7]])
    >>> max_forgetting(accuracies).round(3)
    array([ nan, 0.3 , 0.45])
    """
    ranges = [[np.ptp(accuracies[j : i + 1, j]) for j in range(i)] for i in range(len(accuracies))]
    return np.array([mean_or_nan(np.array(row)) for row in ranges])


# --- curves and summary of a run ---


def class_ratio(n_classes: Sequence[int] | Ints) -> float:
    """r = |Y_1|/|Y_novel|; NaN without later sessions, or if later sessions differ in size.

    >>> class_ratio([60, 5, 5, 5])
    12.0
    """
    later = set(map(int, n_classes[1:]))
    return float(n_classes[0]) / later.pop() if len(later) == 1 else float("nan")


_SIZED = (novel_accuracy, hacc)
_PLAIN = (pd, kr, rpd, max_forgetting)
FORMULAS = (aacc, tacc, gacc, gacc_area, *_SIZED, *_PLAIN)  # each a function of accuracies
CURVES = ("aacc", "tacc", "gacc", "gacc_exact", *(f.__name__ for f in (*_SIZED, *_PLAIN)))


def curves_from_accuracies(
    accuracies: Floats,
    n_classes: Sequence[int] | Ints,
    sizes: Sequence[int] | Ints | None = None,
) -> dict[str, Floats]:
    """Every curve of a few-shot run, by name; (T,) each.

    `sizes` weigh the means over test data, aAcc, novel accuracy and hAcc; None: by classes. Those
    that the paper defines by sessions stay so, of whatever score: tAcc, gAcc, and the drops.
    """
    ratio = class_ratio(n_classes)
    sizes = n_classes if sizes is None else sizes
    return {
        "aacc": aacc(accuracies, sizes),
        "tacc": tacc(accuracies),
        "gacc": gacc_area(accuracies, ratio),
        "gacc_exact": gacc_area(accuracies, ratio, exact=True),
        **{f.__name__: f(accuracies, sizes) for f in _SIZED},
        **{f.__name__: f(accuracies) for f in _PLAIN},
    }


def summary(result: dict[str, Floats]) -> dict[str, float]:
    """One number for each curve, the one that papers quote.

    aAcc, tAcc and gAcc are means over all sessions; novel accuracy and hAcc are means over the
    sessions after the base session. PD, KR, RPD and the largest forgetting are the values after the
    last session, and so is lAcc, the last aAcc_i.
    """
    means = {n: mean_or_nan(result[n]) for n in ("aacc", "tacc", "gacc", "gacc_exact")}
    novel = {n: mean_or_nan(result[n][1:]) for n in ("novel_accuracy", "hacc")}
    last = {n: float(result[n][-1]) for n in ("pd", "kr", "rpd", "max_forgetting")}
    return {**means, "lacc": float(result["aacc"][-1]), **novel, **last}


# --- helpers ---


def _parts(accuracies: Floats) -> tuple[Floats, Floats, Floats]:
    """(T,) each: A_i^1, Σ_{2≤j≤i} A_i^j, and i - 1."""
    novel = np.tril(accuracies)[:, 1:].sum(axis=1)
    return accuracies[:, 0], novel, np.arange(len(accuracies), dtype=np.float64)
