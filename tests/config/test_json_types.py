"""Typed values: what is written is read back, and what is wrong is one sentence with its key."""

import json
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from embedbench.config.json_records import ABSENT, UNWRITTEN, JsonRecord, plain
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


def test_what_does_not_fit_is_one_sentence() -> None:
    for change, sentence in (
        ({"name": 1}, "name must be a text, got 1"),
        ({"count": 1.5}, "count must be an integer, got 1.5"),
        ({"count": True}, "count must be an integer, got true"),
        ({"count": 2**63}, f"count must be an integer of 64 bits, got {2**63}"),
        ({"count": -(2**63) - 1}, f"count must be an integer of 64 bits, got {-(2**63) - 1}"),
        ({"right": 1}, "right must be true or false, got 1"),
        ({"rows": {}}, "rows must be a list, got an object"),
        ({"rows": [[0.5], 1]}, "rows[1] must be a list, got 1"),
        ({"rows": [[0.5, "x"]]}, "rows[0][1] must be a number, got 'x'"),
        ({"rows": [[False]]}, "rows[0][0] must be a number, got false"),
        ({"parts": []}, "parts must be an object, got a list"),
        ({"parts": {"x": 1}}, "parts.x must be an object, got 1"),
        ({"parts": {"x": {}}}, "the key parts.x.width is missing"),
        ({"level": "high"}, "level must be a number or a list, got 'high'"),
        ({"level": ["high"]}, "level[0] must be a number, got 'high'"),
        ({"kind": 3}, "kind must be null or a text, got 3"),
        ({"later": "soon"}, "later must be a number, got 'soon'"),
        ({"name": [1]}, "name must be a text, got a list"),
        ({"name": None}, "name must be a text, got null"),
        ({"open": nested(103)}, f"open{51 * '.k'} must be at most 100 levels deep, got an object"),
        ({"open": {"any": [2**63]}}, f"open.any must be an integer of 64 bits, got {2**63}"),
        ({"open": {"any": {1}}}, "open.any must be a value of JSON, got {1}"),
        ({"open": {"\ud800": 1}}, "open must be a text of whole characters, got \"'\\\\ud800'\""),
        ({"count": "\x1b" + 70 * "n"}, "count must be an integer, got '\\x1b" + 54 * "n" + "…"),
    ):
        with pytest.raises(UserError) as e:
            Outer.from_json(DATA | change, "some/file.json")
        assert str(e.value) == f"some/file.json: {sentence}"


def test_what_is_no_object_is_refused() -> None:
    for data, shown in (([], "a list"), (None, "null"), (3, "3"), ("x", "'x'")):
        with pytest.raises(UserError, match=f"^the data: .*object, .*{shown}$"):
            Outer.from_json(data)
    with pytest.raises(UserError, match=r"^the data: .*key name "):
        Outer.from_json({})


def test_plain_values() -> None:
    some = (np.int64(3), -math.inf)
    values = {1: np.float32(0.5), "b": np.array([[1, np.nan]]), "c": some, "d": Inner(1.0, 2.0)}
    read = {"1": 0.5, "b": [[1.0, None]], "c": [3, "-inf"], "d": {"width": 1.0, "half_95": 2.0}}
    assert plain(values) == read
