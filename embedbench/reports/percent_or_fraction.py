"""Whether numbers of other people are percent or fractions: by what they say, or by their size."""

from collections.abc import Sequence
from dataclasses import dataclass

from embedbench.errors import UserError, unknown

PERCENT, FRACTION = "%", "fraction"
UNITS = {"%": PERCENT, "percent": PERCENT, "points": PERCENT, "fraction": FRACTION}
REMEDY = "write all in one unit, or say in a column unit which is meant, % or fraction"


@dataclass(frozen=True)
class Number:
    """A number, where it stands, and the cell `unit` of its line; "" where there is none."""

    value: float
    at: str
    unit: str = ""


def find_divisors(numbers: Sequence[Number], what: str) -> list[float]:
    """(n,) 100 for each number in percent, 1 for each fraction.

    Where no unit is said, numbers beyond 1 are percent, and those within are fractions; numbers of
    one column (`what`) that are some of each are refused. 0 and 1 may be either.
    """
    unsaid = [number for number in numbers if not number.unit]
    beyond = [number for number in unsaid if abs(number.value) > 1]
    within = [number for number in unsaid if 0 < abs(number.value) < 1]
    if beyond and within:
        high = beyond[0]
        low = within[0]
        raise UserError(
            f"{what} is {high.value:g} in {high.at}, as in percent, and {low.value:g} in {low.at}, "
            "as a fraction",
            REMEDY,
        )
    inferred = PERCENT if beyond else FRACTION
    return [100.0 if _unit(number, inferred) == PERCENT else 1.0 for number in numbers]


def _unit(number: Number, inferred: str) -> str:
    if not number.unit:
        return inferred
    if number.unit.lower() not in UNITS:
        raise unknown("unit", number.unit, (PERCENT, FRACTION), at=number.at)
    return UNITS[number.unit.lower()]


def check_share(value: float, what: str, at: str) -> None:
    """Refuse an accuracy, as a fraction, that is none; NaN is undefined."""
    if value < 0 or value > 1:
        raise UserError(
            f"{what} in {at}", expected="0 to 100 %, or 0 to 1", got=f"{100 * value:g} %"
        )
