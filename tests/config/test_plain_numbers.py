"""Numbers in text: how long they may be, and bounds of whole ones."""

import pytest
from file_helpers import says

from embedbench.config.plain_numbers import plain_number, read_whole
from embedbench.errors import UserError


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0" * 399 + "7", 7),
        ("0" * 400 + "7", None),
        ("+1.", 1.0),
        (".5", 0.5),
        (".", None),
        ("1e", None),
        ("1E+2", 100.0),
        ("-1e999", None),
        ("1,5", None),
    ],
)
def test_a_text_as_a_number(text: str, number: float | None) -> None:
    assert plain_number(text) == number


def test_a_whole_number_is_an_integer() -> None:
    assert type(plain_number("12")) is int
    assert type(plain_number("12.0")) is float


@pytest.mark.parametrize("text", ["2", "20"])
def test_both_bounds_of_a_whole_number_are_taken(text: str) -> None:
    assert read_whole(text, "--seed", 2, 20) == int(text)


@pytest.mark.parametrize("text", ["1", "1001", "-2", "2.0", ""])
def test_a_whole_number_beyond_its_bounds_is_refused(text: str) -> None:
    expected = "a whole number from 2 to 1,000"
    with pytest.raises(UserError, check=says(what="--seed", expected=expected, got=text)):
        read_whole(text, "--seed", 2, 1000)
