"""Bars of intervals: their places on the scale of a table, by hand."""

import re

import numpy as np
import pytest

from embedbench.array_types import Floats
from embedbench.reports.interval_bars import draw_bars, scale_numbers
from embedbench.scores.learner_verdicts import RowVerdict, compare_with_best

# differences 10 9 8 and 30 27 30; by hand in tests/scores/test_learner_verdicts.py
VALUES = np.array([[90.0, 91, 92], [80, 82, 84], [60, 64, 62]])


def verdicts(values: Floats) -> list[RowVerdict]:
    return compare_with_best(values)


def ends(bar: str) -> tuple[float, float]:
    """The ends of the bar in percent of the width."""
    found = re.search(r'class="bar" style="left:([\d.]+)%;right:([\d.]+)%"', bar)
    assert found is not None
    return float(found[1]), 100 - float(found[2])


def zero(bar: str) -> float:
    found = re.search(r'class="best" style="left:([\d.]+)%"', bar)
    assert found is not None
    return float(found[1])


@pytest.mark.parametrize("seed", range(10))
def test_a_bar_begins_right_of_the_best_exactly_where_a_row_is_behind(seed: int) -> None:
    rng = np.random.default_rng(seed)
    judged = verdicts(rng.normal(0, 1, (4, 4)) - np.array([[0], [0.5], [4], [9]]))
    bars = draw_bars(judged)
    below = [i for i, row in enumerate(judged) if row.behind_by > 0]
    right = [ends(bars[i])[0] > zero(bars[i]) for i in below]
    assert right == [judged[i].behind for i in below]


def test_places_are_those_of_the_numbers() -> None:
    """The scale goes from 0 to the largest upper end, 29 + 5.339, over 94 of 100 percent."""
    judged = verdicts(VALUES)
    bars = draw_bars(judged)
    least, most = judged[2].behind_by_least, judged[2].behind_by_most
    expected = (3 + 94 * least / most, 97.0)
    assert (zero(bars[2]), *ends(bars[2])) == pytest.approx((3.0, *expected), abs=0.06)


def test_numbers_stand_at_their_places() -> None:
    """0 to 34.339: six steps of 5.72 at least are 10 apart; 30 is at 3 + 94 · 30 / 34.339."""
    first, *_, last = scale_numbers(verdicts(VALUES), factor=1.0)
    assert (first, last) == ('<i style="left:3.0%">0</i>', '<i style="left:85.1%">30</i>')


def test_no_numbers_without_intervals() -> None:
    assert scale_numbers([None, None]) == []


def test_the_best_has_its_mark_alone() -> None:
    best = draw_bars(verdicts(VALUES))[0]
    assert 'class="bar"' not in best
    assert 'class="dot"' in best


def test_an_end_beyond_the_scale_has_an_arrow() -> None:
    """Differences of .1 and 1.9: t(1) makes the interval many times as long."""
    bar = draw_bars(verdicts(np.array([[1.0, 2.0], [0.9, 0.1]])))[1]
    assert bar.count('class="arrow"') == 2


def test_an_interval_ends_at_twice_the_largest_mean() -> None:
    """1 in the mean: from -.5 to 2 it is at three fifths of 94, its arrows at 3 and 97."""
    bar = draw_bars(verdicts(np.array([[1.0, 2.0], [0.9, 0.1]])))[1]
    places = re.findall(r'class="(arrow|dot)" style="left:([\d.]+)%"', bar)
    assert places == [("arrow", "3.0"), ("arrow", "97.0"), ("dot", "59.4")]


def test_nothing_is_drawn_without_intervals() -> None:
    assert draw_bars([*verdicts(VALUES[:, :1]), None]) == [""] * 4


def test_a_long_interval_below_the_best_takes_a_fifth_of_the_scale() -> None:
    """Differences of .1 and 1.9, 1 in the mean: it ends at -.5 and 2, and 0 is at a fifth of 94."""
    bar = draw_bars(verdicts(np.array([[1.0, 2.0], [0.9, 0.1]])))[1]
    assert zero(bar) == pytest.approx(3 + 94 / 5, abs=0.06)
