"""Differences of means whose runs are not paired, as printed tables have them: mean, spread, n.

Of two such rows the square of the half-width is t(n_i - 1)² s_i²/n_i + t(n_j - 1)² s_j²/n_j, each
at the one-sided level that `learner_verdicts` gives to a pair. Two rows that share seeds are paired
there, and may be so here in the same table.

**Source**: Banerjee (1960), for the difference of two means with unknown, unequal variances; the
level is kept whatever they are, and a table has the same level as one of paired runs.

**Departs**: Welch's approximation, which is usual, sees more, and does not keep the level where the
other rows vary more than the best: with ten rows of three runs it called the best behind in up to
6.9 % of tables (7.5 % at α/(k - 1)), with ten runs beside three in 9.7 %; this rule in 4.1 % of any
that were tried (benchmarks/RESULTS.md).

Printed means are rounded: half a unit of the last digit of each is added to the half-width.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from embedbench.array_types import Bools, Floats, Ints

from .learner_verdicts import (
    LEAST,
    ROUNDING,
    Differences,
    RowVerdict,
    judge_differences,
    subtract_rows,
)
from .mean_intervals import Stat

POWER = 0.8  # how often a true difference is to be seen
MOST = 1_000_000  # runs that are looked for


@dataclass(frozen=True, kw_only=True)
class MixedDifferences(Differences):
    """Differences of which some are paired by seed; of the others rows have their own variance."""

    row_variance: Floats  # (…, k) squared standard error of each mean; NaN where unknown
    row_n: Ints  # (…, k) runs of each row
    rounding: Floats  # (k,) how far each mean may be from what is printed
    paired: Bools  # (k, k) whether rows share seeds, and their differences a variance

    def half_widths(self, level: Floats) -> Floats:
        """(…, k, k) half-widths at one-sided levels that broadcast to (…, k, k)."""
        pairs = quantile(self.seed_freedom, level) ** 2 * self.seed_variance
        variance = self.row_variance
        n = self.row_n
        first = quantile(n[..., :, None] - 1, level) ** 2 * variance[..., :, None]
        second = quantile(n[..., None, :] - 1, level) ** 2 * variance[..., None, :]
        half = np.sqrt(np.where(self.paired, pairs, first + second))
        rounding = self.rounding[:, None] + self.rounding[None, :]
        return np.where(self.decidable, half + rounding + ROUNDING, np.nan)


def subtract_means(
    means: Floats, variances: Floats, n: Ints, rounding: Floats, by_seed: Differences | None = None
) -> MixedDifferences:
    """The differences of all pairs of means (…, k); more is better.

    Parameters
    ----------
    means, variances : array of float
        (…, k) and their squared standard errors; NaN where unknown.
    n, rounding : array
        (…, k) runs of each, and (k,) half a unit of its last digit.
    by_seed : Differences or None
        Those of the rows' runs, which go first where they are decidable.
    """
    apart = means[..., None, :] - means[..., :, None]
    pairs = np.minimum(n[..., :, None], n[..., None, :])
    variance = variances[..., :, None] + variances[..., None, :]
    paired = np.zeros(apart.shape[-2:], dtype=np.bool_)
    if by_seed is not None:
        paired = by_seed.decidable
        apart = np.where(paired, by_seed.mean, apart)
        pairs = np.where(paired, by_seed.n, pairs)
        variance = np.where(paired, by_seed.seed_variance, variance)
    return MixedDifferences(
        mean=apart,
        n=pairs,
        seed_variance=variance,
        seed_freedom=pairs - 1.0,
        row_variance=variances,
        row_n=n,
        rounding=rounding,
        paired=paired,
    )


@dataclass(frozen=True)
class ComparedMeans:
    """The verdict on each row of a table, and the differences that they come from."""

    verdicts: list[RowVerdict]
    apart: MixedDifferences
    sds: Floats  # (k,) of single runs

    @property
    def decided(self) -> Bools:
        """(k, k) whether row j is above row i for certain, at the level of row i's tests."""
        return np.asarray(self.apart.behind_by_least() > 0)

    def count_runs(self, row: int, difference: float) -> int | None:
        """How many runs of a row and of the best other one see a difference; see `count_runs`."""
        apart = self.apart
        if not apart.decidable[row].any():
            return None
        best = int(np.argmax(np.where(apart.decidable[row], apart.mean[row], -np.inf)))
        level = float(apart.shared_level[row, 0])
        rounding = float(apart.rounding[row] + apart.rounding[best])
        if apart.paired[row, best]:
            sd = math.sqrt(apart.seed_variance[row, best] * apart.n[row, best])
            return count_runs(difference, sd, 0.0, level, rounding)
        first = float(self.sds[row])
        second = float(self.sds[best])
        return count_runs(difference, first, second, level, rounding)


def compare_means(
    stats: Sequence[Stat], values: Floats, rounding: Floats, *, lower: bool = False
) -> ComparedMeans:
    """Compare the rows of a table in which some rows, or all, are means that were printed.

    Parameters
    ----------
    stats : sequence of Stat
        (k,) mean, sd and number of runs of each row.
    values : array of float
        (k, n): row, seed; NaN where there is no run of this seed. Rows with two seeds in common are
        paired by them.
    rounding : array of float
        (k,) half a unit of the last digit of each mean.
    lower : bool
        Whether less is better.
    """
    means = np.array([stat.mean for stat in stats])
    apart = subtract_means(
        -means if lower else means,
        np.array([_variance(stat) for stat in stats]),
        np.array([stat.n for stat in stats]),
        rounding,
        subtract_rows(-values if lower else values),
    )
    halves = np.array([stat.half for stat in stats])
    verdicts = judge_differences(apart, means, halves, lower=lower)
    return ComparedMeans(verdicts, apart, np.array([stat.sd for stat in stats]))


def count_runs(
    difference: float, first_sd: float, second_sd: float, level: float, rounding: float = 0.0
) -> int | None:
    """How many runs of each of two rows see a true difference in `POWER` of all cases.

    Parameters
    ----------
    difference : float
        Between the two means, above 0.
    first_sd, second_sd : float
        Of the runs of each; 0 is taken as it is.
    level : float
        One-sided.
    rounding : float
        By which a half-width is wider.

    Returns
    -------
    int or None
        None where no number of runs does, or more than `MOST` are needed.

    Examples
    --------
    Two sd of 1, a difference of 2, at 2.5 % in each of two rows:

    >>> count_runs(2.0, 1.0, 1.0, 0.025)
    7
    """
    from scipy.special import nctdtr

    spread = math.hypot(first_sd, second_sd)
    left = difference - rounding
    if math.isnan(spread) or left <= 0:
        return None
    if spread == 0:
        return 2

    def is_enough(n: int) -> bool:
        # (mean difference - rounding) / standard error is t with at least n - 1 degrees of freedom
        beyond = float(quantile(np.array(n - 1), np.array(level)))
        return 1 - float(nctdtr(n - 1, left * math.sqrt(n) / spread, beyond)) >= POWER

    low, high = 1, 2
    while not is_enough(high):
        low = high
        high = 2 * high
        if high > MOST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def quantile(df: Ints | Floats, level: Floats) -> Floats:
    """Upper quantile of Student's t, NaN without degrees of freedom; shapes broadcast."""
    from scipy.special import stdtrit  # scipy.stats takes ten times as long to import

    with np.errstate(invalid="ignore"):
        return np.asarray(-stdtrit(np.where(df > 0, df, np.nan), level))


def _variance(stat: Stat) -> float:
    """The squared standard error of a mean; NaN where its spread or its n is not known.

    A spread of 0 of fewer than `LEAST` runs is no proof that there is none.
    """
    if stat.n < 2 or math.isnan(stat.sd):
        return math.nan
    if stat.sd == 0 and stat.n < LEAST:
        return math.nan
    return stat.sd**2 / stat.n
