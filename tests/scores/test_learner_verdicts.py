"""Verdicts on rows: values by hand, loops written plainly, and the level in small."""

import itertools
import math
from dataclasses import asdict

import numpy as np
import pytest
from scipy import stats

from embedbench.array_types import Bools, Floats
from embedbench.scores.learner_verdicts import (
    Differences,
    RowVerdict,
    SampleShare,
    compare_with_best,
    judge_differences,
    subtract_rows,
)

NAN = math.nan
BOTH = ("seeds", "test sample")


def share(variances: Floats, groups: int, effective: float | None = None) -> SampleShare:
    """The test sample's share, with groups of one size."""
    return SampleShare(variances, groups, groups if effective is None else effective)


def steady(rows: int) -> Bools:
    """Rows whose answers no seed changes."""
    return np.ones((rows, rows), dtype=np.bool_)


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
        level = 0.05 / (sum(a == i for a, _ in pairs) + 1)
        square = stats.t.isf(level, groups - 1) ** 2 * variances[i, j]
        if len(d) > 1:
            square += stats.t.isf(level, len(d) - 1) ** 2 * np.var(d, ddof=1) / len(d)
        bounds[i, j] = np.mean(d) - math.sqrt(square)
    return bounds


def equals(row: RowVerdict, **expected: object) -> None:
    assert asdict(row).keys() == expected.keys()
    for name, value in expected.items():
        number = isinstance(value, float)
        value = pytest.approx(value, rel=1e-9, nan_ok=True) if number else value
        assert getattr(row, name) == value, name


def test_three_rows_by_hand() -> None:
    """Differences 10, 9, 8 · 30, 27, 30 · 20, 18, 22: s = 1, √3, 2; t(2) at .05/3 is 5.33934.

    With two degrees of freedom t(1 - p) = (1 - 2p) / √(2 p (1 - p)). The rows have s = 1, 2, 2.
    """
    p, own = 0.05 / 3, 4.302652729749464 / math.sqrt(3)
    t = (1 - 2 * p) / math.sqrt(2 * p * (1 - p))
    best, second, third = compare_with_best(np.array([[90.0, 91, 92], [80, 82, 84], [60, 64, 62]]))
    seeds = {"n": 3, "groups": 0, "effective_groups": 0.0, "parts": ("seeds",)}
    seeds["detectable_any_seeds"] = NAN
    equals(
        best, mean=91, half=own, rank=1, ranks=(1, 1), behind=False, behind_by=0, against=1,
        behind_by_least=-9 - t / math.sqrt(3), behind_by_most=-9 + t / math.sqrt(3),
        detectable=t / math.sqrt(3), above=(), **seeds,
    )  # fmt: skip
    equals(
        second, mean=82, half=2 * own, rank=2, ranks=(2, 2), behind=True, behind_by=9, against=0,
        behind_by_least=9 - t / math.sqrt(3), behind_by_most=9 + t / math.sqrt(3),
        detectable=t / math.sqrt(3), above=(0,), **seeds,
    )  # fmt: skip
    equals(
        third, mean=62, half=2 * own, rank=3, ranks=(3, 3), behind=True, behind_by=29, against=0,
        behind_by_least=29 - t, behind_by_most=29 + t, detectable=t, above=(0, 1), **seeds,
    )  # fmt: skip


def test_both_parts_by_hand() -> None:
    """Two rows are tested at .025: t(2) = 4.302653, t(20) = 2.085963; s² / n = 1/3, v = 4."""
    variances = np.array([[1.0, 4], [4, 2.25]])
    values = np.array([[90.0, 91, 92], [80, 82, 84]])
    seeds, sample = 4.302652729749464**2, 2.0859634472658364**2
    half = math.sqrt(seeds / 3 + sample * 4)
    equals(
        compare_with_best(values, share(variances, 21))[1],
        mean=82, half=math.sqrt(seeds * 4 / 3 + sample * 2.25), rank=2, ranks=(2, 2), behind=True,
        behind_by=9, behind_by_least=9 - half, behind_by_most=9 + half, detectable=half,
        detectable_any_seeds=NAN, against=0, above=(0,), n=3, groups=21, effective_groups=21.0,
        parts=BOTH,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_bounds_are_those_of_plain_loops_and_verdicts_agree(seed: int) -> None:
    values, variances, groups = random_table(seed)
    bounds = naive_bounds(values, variances, groups)
    found = subtract_rows(values, share(variances, groups)).behind_by_least()
    np.testing.assert_allclose(found, bounds, rtol=1e-9)
    for i, row in enumerate(compare_with_best(values, share(variances, groups))):
        if row.behind is None:
            assert math.isnan(row.behind_by_least)
            assert row.parts == ()
            continue
        assert row.behind == (row.behind_by_least > 0)
        assert row.behind_by_least == pytest.approx(np.nanmax(bounds[i]))
        assert row.behind_by_least <= row.behind_by
        if row.rank is not None and row.ranks is not None:
            assert row.ranks[0] <= row.rank <= row.ranks[1]
            assert row.behind or row.ranks[0] == 1 or row.rank == row.ranks[0]


def numbers(row: RowVerdict) -> list[float]:
    first, last = row.ranks or (0, 0)
    behind = NAN if row.behind is None else row.behind
    return [row.mean, row.half, row.behind_by, row.behind_by_least, behind, first, last]


@pytest.mark.parametrize("seed", range(3))
def test_order_of_rows_and_seeds_sign_and_shift_do_not_matter(seed: int) -> None:
    values, variances, groups = random_table(seed)
    rng = np.random.default_rng(seed)
    rows = compare_with_best(values, share(variances, groups))
    order, seeds = rng.permutation(len(values)), rng.permutation(values.shape[1])
    there = share(variances[np.ix_(order, order)], groups)
    moved = compare_with_best(values[order][:, seeds], there)
    for i, row in zip(order, moved, strict=True):
        np.testing.assert_allclose(numbers(row), numbers(rows[i]), rtol=1e-9, atol=1e-12)
    lower = compare_with_best(-values, share(variances, groups), lower=True)
    for a, b in zip(rows, lower, strict=True):
        assert b.rank == a.rank
        np.testing.assert_array_equal([-b.mean, *numbers(b)[1:]], numbers(a))
    moved_values = values + rng.normal(0, 5, values.shape[1])
    shift = compare_with_best(moved_values, share(variances, groups))
    for a, b in zip(rows, shift, strict=True):  # what a seed does to all rows
        np.testing.assert_allclose(numbers(b)[2:5], numbers(a)[2:5], rtol=1e-7, atol=1e-9)


# a learner that no seed changes, and two with other answers
VALUES = np.repeat([[0.7], [0.6], [0.6]], 5, axis=1)
VARIANCES = np.array([[0.0002, 0.0009, 0.0009], [0.0009, 0, 0], [0.0009, 0, 0]])


def test_the_interval_of_learners_that_no_seed_changes_is_that_of_the_test_sample() -> None:
    best, row, tie = compare_with_best(VALUES, share(VARIANCES, 50), alike=steady(3))
    t = stats.t.isf(0.05 / 3, 49)
    assert row.behind_by_least == pytest.approx(0.1 - t * 0.03, rel=1e-9)
    assert row.parts == BOTH
    assert best.half == pytest.approx(stats.t.isf(0.025, 49) * math.sqrt(0.0002))
    assert row.rank == tie.rank == 2


def test_three_equal_differences_of_equal_answers_are_exact_on_this_sample() -> None:
    exact = compare_with_best(VALUES[:, :3], alike=steady(3))
    assert [r.behind_by_least for r in exact] == pytest.approx([-0.1, 0.1, 0.1])
    tied = compare_with_best(VALUES[1:], alike=steady(2))
    assert [(r.behind, r.ranks) for r in tied] == [(False, (1, 2))] * 2


def test_equal_differences_of_other_answers_are_no_proof() -> None:
    """A discrete score takes few values, so that three equal ones say nothing of a fourth."""
    found = compare_with_best(VALUES)
    assert [(r.behind, r.parts, math.isnan(r.half)) for r in found] == [(None, (), True)] * 3


def test_equal_differences_of_other_answers_leave_the_test_sample_alone() -> None:
    row = compare_with_best(VALUES, share(VARIANCES, 50))[1]
    assert row.parts == ("test sample",)
    assert row.n == 5
    assert row.behind_by_least == pytest.approx(0.1 - stats.t.isf(0.05 / 3, 49) * 0.03)


def test_of_two_runs_equal_differences_prove_nothing() -> None:
    two = compare_with_best(VALUES[:2, :2], alike=steady(2))
    assert [(r.behind, r.parts) for r in two] == [(None, ())] * 2


def test_differences_that_are_alike_up_to_rounding_are_equal() -> None:
    two = compare_with_best(VALUES[:2, :2] + [[0, 1e-13], [0, 0]], alike=steady(2))
    assert [r.behind for r in two] == [None, None]


def test_differences_that_are_not_equal_are_tested() -> None:
    near = compare_with_best(VALUES[:2, :2] + [[0, 1e-7], [0, 0]])
    assert [r.behind for r in near] == [False, True]


def test_a_difference_of_rounding_is_none() -> None:
    rounding = compare_with_best(np.array([[0.1 + 0.2] * 3, [0.3] * 3]), alike=steady(2))
    assert [(r.behind, r.rank) for r in rounding] == [(False, 1), (False, 1)]


def test_means_of_three_and_of_five_equal_runs_share_a_rank() -> None:
    """The mean of three times .1 is not .1 in floating point."""
    values = np.array([[0.1, 0.1, 0.1, NAN, NAN], [0.1] * 5])
    assert values[0, :3].mean() != values[1].mean()
    assert [r.rank for r in compare_with_best(values, alike=steady(2))] == [1, 1]


def test_groups_of_unequal_size_count_as_fewer() -> None:
    """G* = 3.5: 2.5 degrees of freedom, by scipy."""
    values, variances = np.array([[0.7], [0.6]]), np.array([[0.001, 0.0004], [0.0004, 0.001]])
    row = compare_with_best(values, share(variances, 21, 3.5))[1]
    assert row.behind_by_least == pytest.approx(0.1 - stats.t.isf(0.025, 2.5) * 0.02)
    assert row.groups == 21
    assert row.effective_groups == 3.5


def test_one_group_that_is_the_whole_sample_decides_nothing() -> None:
    row = compare_with_best(np.array([[0.9], [0.1]]), share(np.full((2, 2), 1e-4), 5, 1.0))[1]
    assert row.behind is False
    assert math.isfinite(row.behind_by_most)


def test_what_any_number_of_seeds_would_leave_is_the_lasting_part() -> None:
    values = np.array([[0.70, 0.72, 0.71], [0.60, 0.61, 0.63]])
    sample = SampleShare(np.full((2, 2), 4e-4), 50, 50.0, np.full((2, 2), 1e-4))
    row = compare_with_best(values, sample)[1]
    assert row.detectable_any_seeds == pytest.approx(stats.t.isf(0.025, 49) * 0.01)
    assert row.detectable > row.detectable_any_seeds


@pytest.mark.parametrize("rows", [2, pytest.param(5, marks=pytest.mark.thorough)])
def test_the_interval_has_the_true_distance_to_the_best_in_95_of_100_tables(rows: int) -> None:
    """4,000 tables of five seeds: the error of both ends together."""
    rng = np.random.default_rng(rows)
    means = np.linspace(0, -1, rows)
    missed = 0
    for _ in range(4000):
        values = means[:, None] + rng.standard_normal((rows, 5))
        row = compare_with_best(values)[1]
        missed += not row.behind_by_least <= means[0] - means[1] <= row.behind_by_most
    assert missed / 4000 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 4000)


def test_differences_made_otherwise_are_judged_by_the_same_rule() -> None:
    """Two printed means with Welch's degrees of freedom, 3.5: no seed is shared."""
    mean = np.array([[0, -0.2], [0.2, 0]])
    apart = Differences(mean, np.full((2, 2), 3), np.full((2, 2), 1e-4), np.full((2, 2), 3.5))
    row = judge_differences(apart, np.array([0.7, 0.5]), np.full(2, NAN))[1]
    assert row.behind_by_least == pytest.approx(0.2 - stats.t.isf(0.025, 3.5) * 0.01)


def test_one_seed_leaves_the_test_sample_alone() -> None:
    values = np.array([[0.7], [0.6]])
    variances = np.array([[0.001, 0.0004], [0.0004, 0.001]])
    row = compare_with_best(values, share(variances, 100))[1]
    assert row.parts == ("test sample",)
    assert row.n == 1
    assert row.groups == 100
    assert row.behind_by_least == pytest.approx(0.1 - stats.t.isf(0.025, 99) * 0.02)
    for unknown in (compare_with_best(values), compare_with_best(values, share(variances, 1))):
        equals(
            unknown[1], mean=0.6, half=NAN, rank=2, ranks=(1, 2), behind=None, behind_by=0.1,
            behind_by_least=NAN, behind_by_most=NAN, detectable=NAN, detectable_any_seeds=NAN,
            against=None, above=(), n=0, groups=0, effective_groups=0.0, parts=(),
        )  # fmt: skip
        assert unknown[0].behind is None
        assert unknown[0].rank == 1


def test_rows_without_common_seeds_and_without_values() -> None:
    values = np.array(
        [[0.9, 0.8, NAN, NAN], [NAN, NAN, 0.1, 0.2], [0.5, 0.41, 0.4, 0.52], [NAN] * 4]
    )
    first, second, third, lost = compare_with_best(values)
    nothing = {"behind": None, "behind_by_least": NAN, "behind_by_most": NAN, "against": None}
    nothing |= {
        "detectable": NAN,
        "detectable_any_seeds": NAN,
        "above": (),
        "effective_groups": 0.0,
    }
    nothing |= {"half": NAN, "behind_by": NAN, "n": 0, "groups": 0, "parts": ()}
    equals(lost, mean=NAN, rank=None, ranks=None, **nothing)
    assert third.n == 2
    assert third.against == 0
    assert second.against == 2  # the first has no seed in common with it
    assert second.behind_by == pytest.approx(0.31)
    assert first.behind is False
    assert second.rank == 3
    assert second.ranks == (2, 3)  # the row without a value has no rank
    (alone,) = compare_with_best(values[:1])
    equals(
        alone, mean=0.85, rank=1, ranks=(1, 1), **nothing | {"half": stats.t.isf(0.025, 1) * 0.05}
    )


@pytest.mark.parametrize("bests", [1, 9])
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


def test_the_distance_to_the_best_lies_in_its_interval_where_the_best_cannot_be_compared() -> None:
    """Row 0 has one run, .3 above row 2, of which nothing is known over seeds."""
    values = np.array([[0.9, NAN, NAN], [0.7, 0.75, 0.68], [0.6, 0.62, 0.61]])
    verdict = compare_with_best(values)[2]
    assert verdict.behind_by_least <= verdict.behind_by <= verdict.behind_by_most
