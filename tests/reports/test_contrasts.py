"""Numbers of claims: paired, apart, printed; by hand."""

import math

import numpy as np
import pytest

from embedbench.reports.contrasts import Number, mean_of, spread_of

T2 = 4.302652729911275  # t(0.975, 2)
T9 = 2.2621571628540993  # t(0.975, 9)
LEVEL = 0.025
ALONE = T2 / math.sqrt(3)  # half-width of sd 1 over three runs


def runs(*values: float, seeds: tuple[int, ...] = (0, 1, 2), block: str = "") -> Number:
    return Number.of_runs("a", seeds[: len(values)], np.array(values), block)


def numbers_of(number: Number) -> tuple[float, float, int]:
    return float(number.mean), float(number.half(LEVEL)), number.runs


def test_a_number_of_three_runs() -> None:
    assert numbers_of(runs(1, 2, 3)) == pytest.approx((2, ALONE, 3))


def test_runs_of_one_stream_are_subtracted_by_seed() -> None:
    gap = runs(1, 2, 4) - runs(0, 1, 2)  # 1, 1, 2
    assert numbers_of(gap) == pytest.approx((4 / 3, ALONE / math.sqrt(3), 3))


def test_only_common_seeds_are_paired() -> None:
    gap = runs(1, 5, seeds=(0, 1)) - runs(4, 0, seeds=(1, 2))
    assert numbers_of(gap) == pytest.approx((1, math.nan, 1), nan_ok=True)


def test_runs_of_other_orders_are_independent() -> None:
    gap = runs(1, 2, 3, block="x") - runs(0, 1, 2, block="y")
    assert numbers_of(gap) == pytest.approx((1, ALONE * math.sqrt(2), 3))


def test_runs_without_common_seeds_are_independent() -> None:
    gap = runs(1, 2, 3) - runs(0, 1, 2, seeds=(5, 6, 7))
    assert numbers_of(gap) == pytest.approx((1, ALONE * math.sqrt(2), 3))


def test_a_factor_widens_the_interval() -> None:
    gap = runs(1, 2, 3, block="x") - 2 * runs(0, 1, 2, block="y")
    assert numbers_of(gap) == pytest.approx((0, ALONE * math.sqrt(5), 3))


def test_a_difference_that_three_seeds_do_not_change_has_no_width() -> None:
    assert numbers_of(runs(1, 2, 3) - runs(0, 1, 2)) == (1, 0, 3)


def test_a_difference_that_two_seeds_do_not_change_has_an_unknown_width() -> None:
    assert math.isnan((runs(1, 2) - runs(0, 1)).half(LEVEL))


def test_one_run_has_an_unknown_width() -> None:
    assert math.isnan(runs(1).half(LEVEL))


def test_an_exact_number_has_no_width() -> None:
    assert runs(1).exact.half(LEVEL) == 0


def test_a_printed_mean_has_the_width_of_its_spread() -> None:
    number = Number.printed("a", 5.0, 2.0, 10, "row")
    assert numbers_of(number) == pytest.approx((5, T9 * 2 / math.sqrt(10), 10))


def test_a_printed_mean_without_a_spread_has_an_unknown_width() -> None:
    assert math.isnan(Number.printed("a", 5.0, math.nan, 1, "row").half(LEVEL))


def test_printed_means_of_other_rows_are_independent() -> None:
    gap = Number.printed("a", 5.0, 3.0, 10, "row") - Number.printed("b", 4.0, 4.0, 10, "other")
    assert numbers_of(gap) == pytest.approx((1, T9 * 5 / math.sqrt(10), 10))


def test_printed_means_of_one_row_move_together() -> None:
    both = [Number.printed("a", mean, 2.0, 10, "row") for mean in (4.0, 6.0)]
    assert numbers_of(mean_of("m", both)) == pytest.approx((5, T9 * 2 / math.sqrt(10), 10))


def test_a_mean_is_taken_by_seed() -> None:
    number = mean_of("m", [runs(1, 2, 3), runs(3, 2, 1)])
    assert number.values.tolist() == [2, 2, 2]


def test_a_spread_is_taken_by_seed() -> None:
    spread = spread_of("s", [runs(1, 2, 3, block="x"), runs(3, 2, 5, block="y")])
    assert spread.values == pytest.approx(np.array([math.sqrt(2), 0, math.sqrt(2)]))


def test_a_spread_of_printed_means_has_an_unknown_width() -> None:
    each = [Number.printed("a", mean, 1.0, 10, mean) for mean in (1.0, 3.0)]
    assert numbers_of(spread_of("s", each)) == pytest.approx(
        (math.sqrt(2), math.nan, 10), nan_ok=True
    )


def test_a_contrast_has_a_margin_in_its_direction() -> None:
    assert runs(1, 2, 3).below(5).margin == 3


def test_within_is_two_contrasts() -> None:
    margins = [float(contrast.margin) for contrast in runs(1, 2, 3).within(0.5, of=1.75)]
    assert margins == [0.75, 0.25]


def test_a_rounding_error_is_a_tie() -> None:
    assert runs(0.1 + 0.2, 0.3, 0.3).above(0.3).margin == 0


def test_many_tables_at_once() -> None:
    values = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]])
    number = Number.of_runs("a", (0, 1, 2), values, "")
    assert number.half(LEVEL) == pytest.approx(np.array([ALONE, 2 * ALONE]))
