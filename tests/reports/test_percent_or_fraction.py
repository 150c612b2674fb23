"""Whether numbers of others are percent: by their unit, or by their size."""

import pytest

from embedbench.errors import UserError
from embedbench.reports.percent_or_fraction import Number, check_share, find_divisors


def numbers(*values: float | tuple[float, str]) -> list[Number]:
    """Numbers, each alone or with its unit, in lines 2, 3, …"""
    pairs = [value if isinstance(value, tuple) else (value, "") for value in values]
    return [Number(value, f"line {n}", unit) for n, (value, unit) in enumerate(pairs, 2)]


@pytest.mark.parametrize(
    ("given", "divisors"),
    [
        (numbers(0.5, 0.25), [1, 1]),
        (numbers(50, 1), [100, 100]),
        (numbers(0, 1), [1, 1]),  # either, which are fractions
        (numbers(0.5, 1), [1, 1]),
        (numbers(-50, 0), [100, 100]),
        (numbers(0.5, (0.5, "%")), [1, 100]),
        (numbers(50, (0.5, "fraction"), (0.5, "Points")), [100, 1, 100]),
        (numbers((50, "percent")), [100]),
        ([], []),
    ],
)
def test_what_a_number_is_divided_by(given: list[Number], divisors: list[float]) -> None:
    assert find_divisors(given, "accuracy") == divisors


def test_percent_and_fractions_in_one_column_are_refused() -> None:
    said = r"^accuracy is 50 in line 2, as in percent, and 0\.5 in line 3, as a fraction; write all"
    with pytest.raises(UserError, match=said):
        find_divisors(numbers(50, 0.5), "accuracy")


def test_a_unit_that_is_none_is_refused() -> None:
    with pytest.raises(UserError, match=r"^line 2: unknown unit 'km'"):
        find_divisors(numbers((50, "km")), "accuracy")


@pytest.mark.parametrize("value", [0.0, 1.0, float("nan")])
def test_a_share_is_from_0_to_1(value: float) -> None:
    check_share(value, "accuracy", "line 2")


@pytest.mark.parametrize(("value", "text"), [(-0.01, "-1 %"), (1.01, "101 %")])
def test_what_is_no_share_is_refused(value: float, text: str) -> None:
    with pytest.raises(UserError, match=f"^accuracy in line 2 must be 0 to 100 .*, got '{text}'"):
        check_share(value, "accuracy", "line 2")
