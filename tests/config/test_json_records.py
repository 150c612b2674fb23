"""Typed values: what is written is read back, and what is wrong is one sentence with its key."""

import json
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from file_helpers import says

from embedbench.config.json_records import ABSENT, UNWRITTEN, JsonRecord, parse_json, plain
from embedbench.errors import UserError


@dataclass(frozen=True)
class Inner(JsonRecord):
    width: float
    half: float = field(default=math.nan, metadata={"key": "half_95"})


@dataclass(frozen=True)
class Outer(JsonRecord):
    name: str
    count: int
    right: bool
    rows: tuple[tuple[float, ...], ...]
    parts: dict[str, Inner]
    level: float | tuple[float, ...]
    kind: str | None
    open: dict[str, Any]
    later: float | None = field(default=None, metadata=ABSENT)
    place: str = field(default="", metadata=UNWRITTEN)


DATA: dict[str, Any] = {
    "name": "a", "count": 2, "right": True, "rows": [[1.5, None, "inf", 3]],
    "parts": {"x": {"width": 1.0, "half_95": None}}, "level": [0.5, None], "kind": None,
    "open": {"any": [1, None, {"thing": "…"}]},
}  # fmt: skip


def nested(n: int) -> Any:
    """Lists within objects within lists."""
    return ({"k": nested(n - 1)} if n % 2 else [nested(n - 1)]) if n else 0


def test_what_is_read_is_written_again() -> None:
    for change in (
        {}, {"level": 0.25}, {"level": None}, {"later": None}, {"later": 1.0}, {"kind": "k"},
        {"count": 2**63 - 1}, {"count": -(2**63)}, {"open": {"any": nested(101)}},
    ):  # fmt: skip
        text = json.dumps(DATA | change)
        assert json.dumps(Outer.from_json(json.loads(text)).to_json()) == text


def test_null_is_nan_and_a_missing_key_is_none() -> None:
    read = Outer.from_json(DATA | {"place": "of no field"})
    assert read.later is None
    assert read.place == ""
    assert math.isnan(Outer.from_json(DATA | {"later": None}).later or 0.0)
    assert math.isnan(read.parts["x"].half)
    assert read.rows[0][2:] == (math.inf, 3)
    assert isinstance(read.level, tuple)


@pytest.mark.parametrize(
    ("change", "what", "expected", "got"),
    [
        ({"name": 1}, "name", "a text", 1),
        ({"count": 1.5}, "count", "an integer", 1.5),
        ({"count": True}, "count", "an integer", True),
        ({"count": 2**63}, "count", "an integer of 64 bits", 2**63),
        ({"count": -(2**63) - 1}, "count", "an integer of 64 bits", -(2**63) - 1),
        ({"right": 1}, "right", "true or false", 1),
        ({"rows": {}}, "rows", "a list", {}),
        ({"rows": [[0.5], 1]}, "rows[1]", "a list", 1),
        ({"rows": [[0.5, "x"]]}, "rows[0][1]", "a number", "x"),
        ({"rows": [[False]]}, "rows[0][0]", "a number", False),
        ({"parts": []}, "parts", "an object", []),
        ({"parts": {"x": 1}}, "parts.x", "an object", 1),
        ({"parts": {"x": {}}}, "parts.x.width", "there", ...),
        ({"level": "high"}, "level", "a number or a list", "high"),
        ({"level": ["high"]}, "level[0]", "a number", "high"),
        ({"kind": 3}, "kind", "null or a text", 3),
        ({"later": "soon"}, "later", "a number", "soon"),
        ({"name": None}, "name", "a text", None),
        ({"open": nested(103)}, "open" + 51 * ".k", "at most 100 levels deep", nested(1)),
        ({"open": {"any": [2**63]}}, "open.any", "an integer of 64 bits", 2**63),
        ({"open": {"any": {1}}}, "open.any", "a value of JSON", {1}),
        ({"open": {"\ud800": 1}}, "open", "a text of whole characters", "'\\ud800'"),
    ],
)
def test_what_does_not_fit(change: dict[str, Any], what: str, expected: str, got: Any) -> None:
    with pytest.raises(
        UserError, check=says(what=f"a.json: {what}", expected=expected, got=got)
    ) as e:
        Outer.from_json(DATA | change, "a.json")
    assert type(e.value.got) is type(got)


def test_a_text_may_be_a_hundred_levels_deep() -> None:
    assert parse_json(json.dumps(nested(100)), "a.json") == nested(100)
    with pytest.raises(UserError, match=r"^a\.json is nested deeper than 100 levels$"):
        parse_json(json.dumps(nested(101)), "a.json")


def test_the_sentence_begins_with_the_file_and_quotes_little() -> None:
    for value, shown in (
        (True, "true"), (None, "null"), ([1], "a list"), ("\x1b" + 70 * "n", f"'\\x1b{54 * 'n'}…"),
    ):  # fmt: skip
        with pytest.raises(UserError) as e:
            Outer.from_json(DATA | {"count": value}, "a.json")
        assert str(e.value) == f"a.json: count must be an integer, got {shown}"
    with pytest.raises(UserError) as e:
        Outer.from_json({}, "a.json")
    assert str(e.value) == "a.json: the key name is missing"


@pytest.mark.parametrize("data", [[], None, 3, "x"])
def test_what_is_no_object_is_refused(data: Any) -> None:
    with pytest.raises(UserError, check=says(what="the data: it", expected="an object", got=data)):
        Outer.from_json(data)


def test_plain_values() -> None:
    some = (np.int64(3), -math.inf)
    values = {1: np.float32(0.5), "b": np.array([[1, np.nan]]), "c": some, "d": Inner(1.0, 2.0)}
    read = {"1": 0.5, "b": [[1.0, None]], "c": [3, "-inf"], "d": {"width": 1.0, "half_95": 2.0}}
    assert plain(values) == read
