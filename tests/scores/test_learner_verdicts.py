"""Verdicts on rows: values by hand, loops written plainly, and the level in small."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from embedbench.array_types import Floats
from embedbench.scores.learner_verdicts import (
    RowVerdict,
    compare_with_best,
    subtract_rows,
)

NAN = math.nan
BOTH = ("seeds", "test sample")


def random_table(seed: int) -> tuple[Floats, Floats, int]:
    """Values with runs missing, and the test sample's share of all pairs."""
    rng = np.random.default_rng(seed)
    k, n, groups = rng.integers(2, 7), rng.integers(2, 6), int(rng.integers(2, 40))
    values = rng.normal(0, 1, (k, n)) + rng.normal(0, 3, (k, 1))
    values[rng.random((k, n)) < 0.15] = NAN
    draws = rng.normal(0, 0.3, (k, groups))
    apart = draws[:, None] - draws[None]
    return values, apart.var(axis=-1, ddof=1) / groups, groups


def naive_bounds(values: Floats, variances: Floats, groups: int) -> Floats:
    """[i, j]: mean less half-width of row j above row i, one pair and one seed at a time."""
    k = len(values)
    pairs = {}
    for i, j in itertools.permutations(range(k), 2):
        d = [b - a for a, b in zip(values[i], values[j], strict=True) if not math.isnan(b - a)]
        if d:
            pairs[i, j] = d
    bounds = np.full((k, k), NAN)
    for (i, j), d in pairs.items():
        others = sum(a == i for a, _ in pairs)
        level = 0.05 / (others + 1)
        square = stats.t.isf(level, groups - 1) ** 2 * variances[i, j]
        if len(d) > 1:
            square += stats.t.isf(level, len(d) - 1) ** 2 * np.var(d, ddof=1) / len(d)
        bounds[i, j] = np.mean(d) - math.sqrt(square)
    return bounds


def test_three_rows_by_hand() -> None:
    """Differences 10, 9, 8 · 30, 27, 30 · 20, 18, 22: s = 1, √3, 2; t(2) at .05/3 is 5.33934.

    With two degrees of freedom t(1 - p) = (1 - 2p) / √(2 p (1 - p)).
    """
    p = 0.05 / 3
    t = (1 - 2 * p) / math.sqrt(2 * p * (1 - p))
    values = np.array([[90.0, 91, 92], [80, 82, 84], [60, 64, 62]])
    best, second, third = compare_with_best(values)
    assert (best.mean, best.behind_by, best.rank, best.ranks) == (91, 0, 1, (1, 1))
    assert best.behind is False
    assert best.behind_by_least < 0
    assert (second.behind, second.behind_by, second.against) == (True, 9, 0)
    assert second.behind_by_least == pytest.approx(9 - t / math.sqrt(3), rel=1e-12)
    assert second.detectable == pytest.approx(t / math.sqrt(3), rel=1e-12)
    assert (second.rank, second.ranks) == (2, (2, 2))
    assert third.behind_by == 29
    assert third.behind_by_least == pytest.approx(29 - t, rel=1e-12)
    assert (third.n, third.groups, third.parts) == (3, 0, ("seeds",))
    assert second.half == pytest.approx(4.302652729749464 * 2 / math.sqrt(3), rel=1e-12)


def test_both_parts_by_hand() -> None:
    """Two rows are tested at .025: t(2) = 4.302653, t(20) = 2.085963; s² / n = 1/3, v = 4."""
    variances = np.array([[1.0, 4], [4, 2.25]])
    values = np.array([[90.0, 91, 92], [80, 82, 84]])
    best, row = compare_with_best(values, variances, 21)
    square = 4.302652729749464**2 / 3 + 2.0859634472658364**2 * 4
    assert row.behind_by_least == pytest.approx(9 - math.sqrt(square), rel=1e-12)
    assert (row.parts, row.groups, row.n) == (BOTH, 21, 3)
    square = 4.302652729749464**2 * 4 / 3 + 2.0859634472658364**2 * 2.25
    assert row.half == pytest.approx(math.sqrt(square), rel=1e-12)
    assert best.behind is False
    assert compare_with_best(values)[1].parts == ("seeds",)


def test_a_learner_55_points_behind_at_three_seeds_is_behind() -> None:
    """85.3 (sd .4) against 30.0 (±17.6 of the difference), nine learners: once "rank 1"."""
    rng = np.random.default_rng(0)
    shape = np.array([-1.0, 0, 1])
    others = rng.normal(60, 10, (7, 1)) + rng.normal(0, 5, (7, 3))
    values = np.vstack([85.3 + 0.4 * shape, 30.0 - 6.7 * shape, others])
    rows = compare_with_best(values)
    mlp = rows[1]
    assert mlp.behind
    assert mlp.behind_by == pytest.approx(55.3)
    bound = subtract_rows(values).behind_by_least()[1]  # t(2) at .05/9 is 9.4077
    assert bound[0] == pytest.approx(55.3 - 9.4077 * 7.1 / math.sqrt(3), abs=0.001)
    assert mlp.behind_by_least == np.nanmax(bound)
    assert mlp.ranks is not None
    assert mlp.ranks[0] >= 2
    assert not rows[0].behind
    half = subtract_rows(values).half_widths(np.array(0.025))
    assert half[0, 1] == pytest.approx(17.6, abs=0.1)


@pytest.mark.parametrize("seed", range(30))
def test_bounds_are_those_of_plain_loops_and_verdicts_agree(seed: int) -> None:
    values, variances, groups = random_table(seed)
    bounds = subtract_rows(values, variances, groups).behind_by_least()
    np.testing.assert_allclose(bounds, naive_bounds(values, variances, groups), rtol=1e-9)
    for row in compare_with_best(values, variances, groups):
        if row.behind is None:
            assert math.isnan(row.behind_by_least)
            assert row.parts == ()
            continue
        assert row.behind == (row.behind_by_least > 0)
        assert row.behind_by_least <= row.behind_by
        if row.rank is not None and row.ranks is not None:
            assert row.ranks[0] <= row.rank <= row.ranks[1]
            assert row.behind or row.ranks[0] == 1 or row.rank == row.ranks[0]


def numbers(row: RowVerdict) -> list[float]:
    """What does not depend on where the other rows are."""
    first, last = row.ranks or (0, 0)
    behind = NAN if row.behind is None else row.behind
    return [row.mean, row.half, row.behind_by, row.behind_by_least, behind, first, last]


@pytest.mark.parametrize("seed", range(10))
def test_order_of_rows_and_seeds_sign_and_shift_do_not_matter(seed: int) -> None:
    values, variances, groups = random_table(seed)
    rng = np.random.default_rng(seed)
    rows = compare_with_best(values, variances, groups)
    order, seeds = rng.permutation(len(values)), rng.permutation(values.shape[1])
    moved = compare_with_best(values[order][:, seeds], variances[np.ix_(order, order)], groups)
    for i, row in zip(order, moved, strict=True):
        np.testing.assert_allclose(numbers(row), numbers(rows[i]), rtol=1e-9, atol=1e-12)
    lower = compare_with_best(-values, variances, groups, lower=True)
    for a, b in zip(rows, lower, strict=True):
        assert b.rank == a.rank
        np.testing.assert_array_equal([-b.mean, *numbers(b)[1:]], numbers(a))
    shift = compare_with_best(values + rng.normal(0, 5, values.shape[1]), variances, groups)
    for a, b in zip(rows, shift, strict=True):  # what a seed does to all rows
        np.testing.assert_allclose(numbers(b)[2:5], numbers(a)[2:5], rtol=1e-7, atol=1e-9)


def test_learners_that_no_seed_changes() -> None:
    """Their interval is the test sample's; without it a difference on this sample is exact."""
    values = np.repeat([[0.7], [0.6], [0.6]], 5, axis=1)
    variances = np.array([[0.0002, 0.0009, 0.0009], [0.0009, 0, 0], [0.0009, 0, 0]])
    best, row, tie = compare_with_best(values, variances, 50)
    t = stats.t.isf(0.05 / 3, 49)
    assert row.behind_by_least == pytest.approx(0.1 - t * 0.03, rel=1e-9)
    assert row.parts == BOTH
    assert best.half == pytest.approx(stats.t.isf(0.025, 49) * math.sqrt(0.0002))
    assert row.rank == tie.rank == 2
    exact = compare_with_best(values)
    assert [r.behind_by_least for r in exact] == pytest.approx([-0.1, 0.1, 0.1])
    assert [r.behind for r in compare_with_best(values[1:])] == [False, False]
    rounding = compare_with_best(np.array([[0.1 + 0.2] * 3, [0.3] * 3]))
    assert [r.behind for r in rounding] == [False, False]
    two = compare_with_best(values[:2, :2])  # of two runs equal differences prove nothing
    assert [(r.behind, r.parts) for r in two] == [(None, ()), (None, ())]
    assert compare_with_best(values[:2, :2], variances[:2, :2], 50)[1].behind


def test_one_seed_leaves_the_test_sample_alone() -> None:
    values = np.array([[0.7], [0.6]])
    variances = np.array([[0.001, 0.0004], [0.0004, 0.001]])
    row = compare_with_best(values, variances, 100)[1]
    assert row.parts == ("test sample",)
    assert row.n == 1
    assert row.behind_by_least == pytest.approx(0.1 - stats.t.isf(0.025, 99) * 0.02)
    for unknown in (compare_with_best(values), compare_with_best(values, variances, 1)):
        assert [r.behind for r in unknown] == [None, None]
        assert [r.rank for r in unknown] == [1, 2]
        assert unknown[1].behind_by == pytest.approx(0.1)


def test_rows_without_common_seeds_and_without_values() -> None:
    values = np.array(
        [[0.9, 0.8, NAN, NAN], [NAN, NAN, 0.1, 0.2], [0.5, 0.41, 0.4, 0.52], [NAN] * 4]
    )
    first, second, third, lost = compare_with_best(values)
    assert (lost.behind, lost.rank, lost.ranks, lost.against) == (None, None, None, None)
    assert math.isnan(lost.mean)
    assert (third.n, third.against) == (2, 0)
    assert second.against == 2  # the first has no seed in common with it
    assert second.behind_by == pytest.approx(0.31)
    assert first.behind is False
    assert (second.rank, second.ranks) == (3, (2, 3))  # the row without a value has no rank
    assert len(compare_with_best(values[:1])) == 1
    alone = compare_with_best(values[:1])[0]
    assert (alone.behind, alone.rank, alone.ranks) == (None, 1, (1, 1))


@pytest.mark.parametrize("bests", [1, 2, 9])
def test_the_best_is_rarely_behind_and_20_points_are_seen(bests: int) -> None:
    """2,000 tables of nine learners and five seeds: 5 % and three Monte-Carlo errors."""
    rng = np.random.default_rng(bests)
    spread = 2.0 * np.geomspace(1, 6, 9)[:, None]  # the best has the smallest
    x = spread * rng.standard_normal((2000, 9, 5))
    x[:, bests:] -= 20
    behind = (subtract_rows(x).behind_by_least() > 0).any(axis=-1)
    assert behind[:, 0].mean() <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2000)
    if bests < 9:
        assert behind[:, bests].mean() > 0.9  # the row with the smallest variance of the others
