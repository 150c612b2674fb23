"""Means that are not paired: hand-worked half-widths, the level, how many runs see a difference."""

import math

import numpy as np
import pytest

from embedbench.array_types import Floats
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.unpaired_differences import (
    ComparedMeans,
    compare_means,
    count_runs,
    subtract_means,
)


def compared(*stats: Stat, rounding: float = 0.0, lower: bool = False) -> ComparedMeans:
    k = len(stats)
    no_runs = np.full((k, 1), math.nan)
    return compare_means(stats, no_runs, np.full(k, rounding), lower=lower)


def test_a_half_width_by_hand() -> None:
    """t(.975, 4) = 2.776445 and t(.975, 9) = 2.262157: each row at 5 % / 2 of two rows."""
    made = compared(Stat.printed(0.70, 5, sd=0.02), Stat.printed(0.60, 10, sd=0.03))
    half = math.sqrt(2.776445**2 * 0.02**2 / 5 + 2.262157**2 * 0.03**2 / 10)
    assert made.verdicts[1].behind_by_least == pytest.approx(0.1 - half, rel=1e-6)


def test_half_a_digit_of_each_mean_is_added() -> None:
    exact, rounded = (
        compared(Stat.printed(0.7, 5, sd=0.02), Stat.printed(0.6, 5, sd=0.02), rounding=digit)
        for digit in (0.0, 0.005)
    )
    gap = rounded.verdicts[1].detectable - exact.verdicts[1].detectable
    assert gap == pytest.approx(0.01)


def test_a_row_without_a_spread_is_not_compared() -> None:
    unknown = Stat(0.5, math.nan, math.nan, (), 5)
    made = compared(Stat.printed(0.7, 5, sd=0.01), Stat.printed(0.6, 5, sd=0.01), unknown)
    assert [verdict.behind for verdict in made.verdicts] == [False, True, None]


def test_two_equal_runs_are_no_proof() -> None:
    made = compared(Stat.printed(0.7, 2, sd=0.0), Stat.printed(0.6, 2, sd=0.0))
    assert [verdict.behind for verdict in made.verdicts] == [None, None]


def test_less_may_be_better() -> None:
    made = compared(Stat.printed(0.2, 5, sd=0.01), Stat.printed(0.1, 5, sd=0.01), lower=True)
    assert [verdict.behind for verdict in made.verdicts] == [True, False]


def test_rows_with_two_seeds_in_common_are_paired() -> None:
    """Differences .1 and .1 and .13: mean .11, sd √.0003, t(.975, 2) = 4.302653."""
    values = np.array([[0.5, 0.7, 0.6], [0.4, 0.6, 0.47]])
    stats = [Stat.of(row) for row in values]
    made = compare_means(stats, values, np.zeros(2))
    least = 0.11 - 4.302653 * math.sqrt(0.0003 / 3)
    assert made.verdicts[1].behind_by_least == pytest.approx(least, rel=1e-6)


def rates(sds: Floats, n: Floats, tables: int = 4000) -> float:
    """The largest share of tables of equal rows in which one of them is called behind."""
    rng, k = np.random.default_rng(7), len(sds)
    means, variances = np.empty((tables, k)), np.empty((tables, k))
    for i, (sd, runs) in enumerate(zip(sds, n, strict=True)):
        x = sd * rng.standard_normal((tables, runs))
        means[:, i], variances[:, i] = x.mean(axis=1), x.var(axis=1, ddof=1) / runs
    apart = subtract_means(means, variances, np.broadcast_to(n, means.shape), np.zeros(k))
    behind = (apart.behind_by_least() > 0).any(axis=-1)
    return float(behind.mean(axis=0).max())


@pytest.mark.parametrize("runs", [3, 5, 10])
@pytest.mark.parametrize("k", [2, 3, 5, 10])
@pytest.mark.parametrize("first", [1.0, 0.2, 5.0])
def test_a_best_row_is_seldom_called_behind(k: int, runs: int, first: float) -> None:
    """5 %, and three Monte-Carlo errors of 4,000 tables: √(.05 · .95 / 4000) = .34 %."""
    assert rates(np.array([first] + [1.0] * (k - 1)), np.full(k, runs)) < 0.05 + 3 * 0.00345


def test_a_best_row_with_more_runs_than_the_others_is_seldom_called_behind() -> None:
    """Where Welch's rule calls it behind in 9.7 % of tables."""
    assert rates(np.array([1.0] + [5.0] * 9), np.array([10] + [3] * 9)) < 0.05 + 3 * 0.00345


@pytest.mark.parametrize(("difference", "sds"), [(2.0, (1.0, 1.0)), (1.0, (0.2, 1.5))])
def test_so_many_runs_see_a_difference(difference: float, sds: tuple[float, float]) -> None:
    """In four of five tables, as simulated; and one run fewer in not many more than these."""
    rng = np.random.default_rng(3)
    n = count_runs(difference, *sds, 0.025)
    assert n is not None
    x, y = (sd * rng.standard_normal((20_000, n)) for sd in sds)
    means = np.stack([difference + x.mean(axis=1), y.mean(axis=1)], axis=1)
    variances = np.stack([x.var(axis=1, ddof=1), y.var(axis=1, ddof=1)], axis=1) / n
    apart = subtract_means(means, variances, np.full(means.shape, n), np.zeros(2))
    seen = float((apart.behind_by_least()[:, 1, 0] > 0).mean())
    assert 0.79 < seen < 0.90


def test_a_difference_within_the_rounding_is_never_seen() -> None:
    assert count_runs(0.1, 1.0, 1.0, 0.025, rounding=0.1) is None
