"""Which values fit a hint of the Python API, and what an error says that a hint allows."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from file_helpers import says

from embedbench.array_types import Bools, Floats, Ints, Strings
from embedbench.config.typed_calls import check_arguments, fits, words
from embedbench.errors import UserError

Two = tuple[int, str]
FITS: list[tuple[Any, list[Any], list[Any]]] = [  # a hint, values that fit it, and others
    (int, [0, -1, np.int8(3)], [1.0, True, np.True_, "1", None, np.array([1])]),
    (float, [0.5, 1, np.float32(1), np.uint8(2)], [False, "1", 1j, np.array([1.0])]),
    (bool, [True, np.False_], [0, "true", np.array([True])]),
    (str, ["", "a", "größe", "\udc80"], ["a\0", "\ud800", b"a", 1]),
    (Path, [Path("a")], ["a", Path("a\0")]),
    (None, [None], [0, ""]),
    (Any, [None, object()], []),
    (int | None, [1, None], [1.5]),
    (Annotated[int, "many"], [1], [1.5]),
    (Literal["a", 1], ["a", 1], ["b", True, 1.0]),
    (Sequence[int], [[1], (), range(3), np.array([1, 2])], ["12", b"12", [1.5], {1}, np.eye(2)]),
    (Sequence[str], [["a"], np.array(["a"])], ["ab", [1], np.array([1])]),
    (list[int], [[1], []], [(1,), ["1"]]),
    (tuple[int, ...], [(), (1, 2)], [[1], (1, "a")]),
    (Two, [(1, "a")], [(1,), (1, "a", "b"), ("a", 1), [1, "a"]]),
    (dict[str, int], [{}, {"a": 1}], [{"a": "b"}, {1: 1}, [("a", 1)]]),
    (Mapping[str, Sequence[int]], [{"a": [1]}], [{"a": "1"}, {"a": [None]}]),
    (Callable[..., Any], [print, int], ["print", None]),
    (Floats, [np.zeros(2), np.zeros(2, int)], [np.zeros(2, bool), np.array(["a"]), [1.0]]),
    (Ints, [np.zeros(2, np.uint8)], [np.zeros(2), np.zeros(2, bool)]),
    (Bools, [np.zeros((2, 2), bool)], [np.zeros(2, int)]),
    (Strings, [np.array(["a"])], [np.array([b"a"]), np.array([1])]),
    (np.ndarray[Any, Any], [np.zeros(2), np.array(["a"])], [np.array([None]), 1]),
]
CASES = [
    (hint, value, says_so)
    for hint, good, bad in FITS
    for says_so, values in ((True, good), (False, bad))
    for value in values
]


@pytest.mark.parametrize(("hint", "value", "says_so"), CASES)
def test_what_fits_a_hint(hint: Any, value: Any, says_so: bool) -> None:
    assert fits(value, hint) is says_so


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (int, "a whole number"),
        (float | None, "a number or None"),
        (str | int | None, "a text, a whole number or None"),
        (Sequence[int] | Sequence[str], "a list"),
        (Annotated[bool, "a switch"], "True or False"),
        (Literal["a", 1], "'a' or 1"),
        (Floats, "an array"),
        (dict[str, int], "a dict"),
        (Callable[..., Any], "a function"),
        (tuple[int, ...], "a tuple"),
        (UserError, "a UserError"),
    ],
)
def test_what_a_hint_allows_in_words(hint: Any, text: str) -> None:
    assert words(hint) == text


@check_arguments
def total(first: int, *others: int, scale: float = 1.0, **named: int) -> float:
    return scale * (first + sum(others) + sum(named.values()))


def test_arguments_that_fit_go_on() -> None:
    assert total(1, 2, np.int64(3), scale=2, four=4) == 20


@pytest.mark.parametrize(
    ("values", "named", "what"),
    [
        (("1",), {}, "first of total"),
        ((1, 2, "3"), {}, "others of total"),
        ((1,), {"scale": "2"}, "scale of total"),
        ((1,), {"four": "4"}, "named of total"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(
    values: tuple[Any, ...], named: dict[str, Any], what: str
) -> None:
    with pytest.raises(UserError, check=says(what=what)):
        total(*values, **named)
