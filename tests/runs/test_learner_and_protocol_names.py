"""Names to classes, and settings to dataclasses."""

import importlib.metadata
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
from file_helpers import says

from embedbench.config.make_from_settings import make
from embedbench.errors import UserError
from embedbench.learning.learner import Learner
from embedbench.models.ewc import EWC
from embedbench.models.mlp import MLP
from embedbench.runs import learner_and_protocol_names
from embedbench.runs.learner_and_protocol_names import (
    learner_class,
    learner_names,
    protocol_class,
    protocol_names,
)


def test_every_listed_name_resolves() -> None:
    assert {"mlp", "ewc", "ncm", "chance", "offline"} <= set(learner_names())
    assert not [n for n in learner_names() + protocol_names() if n.startswith(("_", "-"))]
    for name in learner_names():
        assert issubclass(learner_class(name), Learner)
    for name in protocol_names():
        assert protocol_class(name).name == protocol_class(name.replace("-", "_")).name == name
    assert learner_class("ewc") is EWC


@pytest.mark.parametrize(
    ("find", "message"),
    [
        (lambda: learner_class("ewcc"), "package.module:Name"),
        (lambda: learner_class("_sgd"), "unknown learner '_sgd'"),
        (lambda: learner_class("no_such_module:Mine"), "cannot import 'no_such_module'"),
        (lambda: learner_class("json:Mine"), "module 'json' has no 'Mine'"),
        (lambda: protocol_class("embedbench.streams.protocol:Protocol"), "has no name"),
        (lambda: learner_class("json:JSONDecoder"), "not a subclass"),
    ],
)
def test_wrong_names(find: Any, message: str) -> None:
    with pytest.raises(UserError) as caught:
        find()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("find", "name", "near"),
    [
        (learner_class, "ewcc", "ewc"),
        (protocol_class, "permutations", "permutation"),
        (protocol_class, "class-incremental", "incremental-class"),
        (protocol_class, "few-shot", "fscil"),
    ],
)
def test_the_nearest_name_is_suggested(find: Any, name: str, near: str) -> None:
    what = f"unknown {find.__name__.partition('_')[0]}"
    with pytest.raises(UserError, check=says(what=what, got=name, expected=near)):
        find(name)


def test_a_learner_of_an_installed_package(monkeypatch: pytest.MonkeyPatch) -> None:
    offline, ours = "embedbench.models.offline:Offline", "embedbench.learners"
    entry = importlib.metadata.EntryPoint("offered", offline, ours)

    def entry_points(*, group: str) -> tuple[importlib.metadata.EntryPoint, ...]:
        return (entry,) if group == ours else ()

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    assert "offered" in learner_names()
    assert learner_class("offered").__name__ == "Offline"


@dataclass
class Inner:
    depth: int = 1
    name: str = "a"


@dataclass
class Outer:
    count: int = 1
    rate: float = 0.5
    maybe: float | None = None
    flag: bool = False
    text: str = "x"
    either: int | str = 0
    number: int | float = 0
    inner: Inner = field(default_factory=Inner)

    constant: ClassVar[int] = 7


READ: dict[str, list[tuple[Any, Any]]] = {
    "count": [("12", 12), ("-3", -3)],
    "rate": [("1e-3", 1e-3), ("2", 2.0), (3, 3.0)],
    "maybe": [("None", None), ("null", None), (None, None), ("15", 15.0), (15, 15.0)],
    "flag": [("true", True), ("FALSE", False), ("1", True), ("no", False), (True, True)],
    "text": [("1", "1"), ("none", "none")],
    "either": [("7", 7), ("seven", "seven")],
    "number": [(3, 3), ("3", 3), ("2.5", 2.5)],
}


@pytest.mark.parametrize("key", READ)
def test_values_are_read_as_the_fields_type(key: str) -> None:
    for value, expected in READ[key]:
        found = getattr(make(Outer, {key: value}, name="outer"), key)
        assert found == expected
        assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        *(("count", "3.5", "int"), ("count", True, "int"), ("rate", False, "float")),
        *(("maybe", "perhaps", "float | None"), ("flag", 1, "bool"), ("text", 1, "str")),
        *(("inner", "deep", "Inner"), ("inner.depth", "deep", "int")),
    ],
)
def test_values_of_another_type_are_refused(key: str, value: Any, kind: str) -> None:
    with pytest.raises(UserError, check=says(what=f"outer.{key}", expected=kind, got=value)):
        make(Outer, {key: value}, name="outer")


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("coutn", "outer 'coutn'.* 'count'"),
        ("inner.dept", r"outer\.inner 'dept'.* 'depth'"),
        ("depth.x", r"outer 'depth'.* 'inner\.depth'"),
        ("count.depth", r"outer\.count is .* 'depth'"),
        ("constant", "outer 'constant'"),
    ],
)
def test_settings_that_are_not_there_are_refused(key: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        make(Outer, {key: 1}, name="outer")


def test_nested_settings_by_dots_by_dicts_and_as_a_value() -> None:
    for settings in (
        {"inner.depth": "2", "inner.name": "b"},
        {"inner": {"depth": 2, "name": "b"}},
        {"inner": {"depth": 2}, "inner.name": "b"},
        {"inner.name": "b", "inner": {"depth": 2}},
        {"inner": Inner(2, "b")},
        {"inner": {"depth": 5, "name": "b"}, "inner.depth": "2"},  # the later one
    ):
        assert make(Outer, settings, name="outer") == Outer(inner=Inner(depth=2, name="b"))
    assert make(Outer, {}, name="outer") == Outer()  # no setting changed the default


def test_dashes_are_underscores_at_every_level() -> None:
    made = make(MLP, {"batch-size": "16", "stop.min-steps": "5"}, name="mlp")
    assert made.batch_size == 16
    assert made.stop.min_steps == 5


def test_a_copy_without_its_links_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a zip or git on Windows leaves it: the link is a file that holds its target."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "models").write_text("../models")
    monkeypatch.setattr(learner_and_protocol_names, "__file__", str(tmp_path / "runs" / "a.py"))
    with pytest.raises(UserError, match=r"models .* link .*pip install -e"):
        learner_and_protocol_names.learner_class("ncm")


def test_a_module_holds_one_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[EWC.__module__]
    second = type("Second", (EWC,), {"__module__": module.__name__})
    monkeypatch.setattr(module, "Second", second, raising=False)
    with pytest.raises(UserError, match=r"models\.ewc .* Learner, .* 2"):
        learner_class("ewc")
