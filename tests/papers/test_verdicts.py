"""The rules of verdicts: every branch on a case worked out by hand."""

from __future__ import annotations

import math

import pytest

from embedbench.papers.published import EXACT, FIXED, Value
from embedbench.papers.verdicts import (
    IN_KIND,
    NOT,
    REPRODUCED,
    UNCHECKED,
    Verdict,
    of_row,
    of_value,
    printed_number,
)
from embedbench.scores.mean_intervals import Stat


def around(mean: float, half: float) -> Stat:
    """Three values with this mean and half-width; t(0.975, 2) = 4.302653."""
    step = half * math.sqrt(3) / 4.302652729911275
    return Stat.of([mean - step, mean, mean + step])


def test_three_values_have_the_half_width_that_they_are_made_for() -> None:
    assert around(0.5, 0.04).half == pytest.approx(0.04)


# Printed value, ours, its half-width, unit, verdict.
OWN = [
    (0.50, 0.55, 0.03, "", REPRODUCED),  # .52 to .58 touches .48 to .52
    (0.50, 0.5501, 0.03, "", NOT),
    (0.50, 0.45, 0.03, "", REPRODUCED),
    (0.50, 0.4499, 0.03, "", NOT),
    (0.50, 0.50, 0.05, "", REPRODUCED),
    (0.50, 0.50, 0.0501, "", NOT),  # right, but too uncertain
    (50.0, 55.0, 3.0, "%", REPRODUCED),  # the same in points
    (50.0, 55.1, 3.0, "%", NOT),
    (50.0, 50.0, 5.1, "%", NOT),
    (200.0, 209.9, 6.0, "minutes", REPRODUCED),  # .02 and .05 of 200: 4 and 10
    (200.0, 210.1, 6.0, "minutes", NOT),
    (200.0, 200.0, 10.1, "minutes", NOT),
    (0.50, math.nan, 0.03, "", NOT),
]


@pytest.mark.parametrize(("theirs", "mean", "half", "unit", "word"), OWN)
def test_runs_on_the_papers_data(
    theirs: float, mean: float, half: float, unit: str, word: str
) -> None:
    verdict = of_value(Value(theirs, around(mean, half)), unit, {})
    assert verdict is not None
    assert verdict.word == word


def test_three_seeds_are_needed_where_anything_is_drawn() -> None:
    two = Stat.of([0.5, 0.5])
    assert of_value(Value(0.5, two), "", {}) == Verdict(NOT, "2 of 3 seeds")
    assert of_value(Value(0.5, Stat.of([0.5])), "", {}) == Verdict(NOT, "1 of 3 seeds")
    assert of_value(Value(0.5, Stat.of([0.52]), made=FIXED), "", {}) == Verdict(REPRODUCED)
    assert of_value(Value(0.5, Stat.of([0.53]), made=FIXED), "", {}) == Verdict(NOT, "too far")
    # a learner that draws nothing, on streams that differ by seed
    assert of_value(Value(0.5, around(0.5, 0.06), made=FIXED), "", {}) == Verdict(
        NOT, "interval too wide"
    )


def test_what_was_fitted_says_so() -> None:
    fitted = Value(0.5, around(0.5, 0.01), fitted=True)
    assert of_value(fitted, "", {}) == Verdict(REPRODUCED, "fitted to it")


def test_the_printed_error_counts_where_it_is_larger() -> None:
    ours = around(0.60, 0.02)
    assert of_value(Value(0.5, ours), "", {}) == Verdict(NOT, "too far")
    assert of_value(Value(0.5, ours, sd=0.08), "", {}) == Verdict(REPRODUCED)
    assert of_value(Value(0.5, ours, sd=0.079), "", {}) == Verdict(NOT, "too far")
    assert of_value(Value(0.5, around(0.53, 0.01), sd=0.001), "", {}) == Verdict(REPRODUCED)


@pytest.mark.parametrize(
    ("theirs", "ours", "decimals", "rounding", "word"),
    [
        (4.17, 4.1667, 2, 0.0, REPRODUCED),
        (4.16, 4.1667, 2, 0.0, NOT),
        (0.5, 0.45, 1, 0.0, REPRODUCED),  # the half may be rounded either way
        (0.5, 0.5501, 1, 0.0, NOT),
        (39.64, 39.656, 2, 0.05, REPRODUCED),
        (39.64, 39.70, 2, 0.05, NOT),
        (39, 39, 0, 0.0, REPRODUCED),
    ],
)
def test_what_is_computed_must_equal_the_printed_digits(
    theirs: float, ours: float, decimals: int, rounding: float, word: str
) -> None:
    value = Value(theirs, Stat.of([ours]), decimals, made=EXACT, rounding=rounding)
    verdict = of_value(value, "%", {})
    assert verdict is not None
    assert verdict.word == word


def test_words() -> None:
    assert of_value(Value(words=("✓", "✓")), "", {}) == Verdict(REPRODUCED)
    assert of_value(Value(words=("✓", "✓"), stands_in=True), "", {}) == Verdict(IN_KIND)
    assert of_value(Value(words=("✓", "✗"), stands_in=True), "", {}) == Verdict(NOT, "another word")
    assert of_value(Value(words=("–", "yes")), "", {}) is None
    assert of_value(Value(words=("✓", "–")), "", {}) is None


def elsewhere(theirs: float, mean: float, half: float = 0.01) -> Value:
    return Value(theirs, around(mean, half), stands_in=True)


def test_in_kind_is_the_printed_order_with_intervals_apart() -> None:
    mine = elsewhere(0.7, 0.30)
    above, below = elsewhere(0.8, 0.33), elsewhere(0.5, 0.20)
    near = elsewhere(0.715, 0.10)  # printed within .02: any order
    rivals = {"A": above, "B": below, "C": near}
    assert of_value(mine, "", rivals) == Verdict(IN_KIND, "against 2")
    assert of_value(mine, "", {**rivals, "A": elsewhere(0.8, 0.315)}) == Verdict(
        NOT, "not against A"
    )  # intervals meet
    assert of_value(mine, "", {"A": elsewhere(0.8, 0.2), "B": elsewhere(0.5, 0.4)}) == Verdict(
        NOT, "not against A, B"
    )
    one = Value(0.8, Stat.of([0.9]), stands_in=True)
    assert of_value(mine, "", {"A": one}) == Verdict(NOT, "not against A")  # no interval
    fixed = Value(0.8, Stat.of([0.9]), stands_in=True, made=FIXED)
    assert of_value(mine, "", {"A": fixed}) == Verdict(IN_KIND, "against 1")


def test_in_kind_counts_percentages_in_points() -> None:
    mine, rival = elsewhere(50.0, 30.0, 1.0), elsewhere(51.9, 20.0, 1.0)
    assert of_value(mine, "%", {"A": rival}) is None
    assert of_value(mine, "%", {"A": elsewhere(52.1, 20.0, 1.0)}) == Verdict(NOT, "not against A")


def test_other_data_without_a_method_to_compare_with_says_nothing() -> None:
    mine = elsewhere(0.7, 0.7)
    assert of_value(mine, "", {}) is None
    assert of_value(mine, "", {"A": Value(0.2, stands_in=True)}) is None
    assert of_value(mine, "", {"A": Value(None, Stat.of([1.0]), stands_in=True)}) is None
    undefined = Value(0.2, Stat.of([math.nan]), stands_in=True)
    assert of_value(mine, "", {"A": undefined}) is None
    exact = Value(200, Stat.of([88]), 0, stands_in=True, made=EXACT)
    assert of_value(exact, "", {"A": elsewhere(100, 3)}) is None


def test_a_misprint_is_compared_with_what_it_should_read() -> None:
    wrong = Value(1.0, around(1.02, 0.01), remark="clipped", reads=1.022)
    assert printed_number(wrong) == 1.022
    assert of_value(wrong, "", {}) == Verdict(REPRODUCED)
    unknown = Value(1.0, around(1.0, 0.01), remark="wrong")
    assert printed_number(unknown) is None
    assert of_value(unknown, "", {}) is None
    mine = elsewhere(0.7, 0.3)
    rival = Value(0.5, around(0.5, 0.01), stands_in=True, remark="a misprint", reads=0.9)
    assert of_value(mine, "", {"A": rival}) == Verdict(IN_KIND, "against 1")


def test_without_ours_or_theirs_there_is_no_verdict() -> None:
    assert of_value(Value(0.5), "", {}) is None
    assert of_value(Value(None, around(0.5, 0.01)), "", {}) is None


def test_a_row_has_the_worst_verdict_of_its_values() -> None:
    good, kind, bad = Verdict(REPRODUCED), Verdict(IN_KIND, "against 2"), Verdict(NOT, "too far")
    assert of_row([good, None, good]) == good
    assert of_row([good, kind]) == kind
    assert of_row([kind, bad, good, Verdict(NOT, "too far"), Verdict(NOT, "another")]) == Verdict(
        NOT, "too far; another"
    )
    assert of_row([None, None]) == Verdict(UNCHECKED)
    assert of_row([]) == Verdict(UNCHECKED)
