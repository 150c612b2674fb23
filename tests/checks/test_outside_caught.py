"""The checks of backbones, sources, engines and trackers catch what is wrong."""

import io
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from faults import failures
from PIL import Image

from embedbench.checks import plugin_contracts
from embedbench.checks.conformance_suite import check
from embedbench.errors import UserError
from embedbench.extract.backbone import Backbone
from embedbench.extract.source import Source
from embedbench.reports.load_results import Run
from embedbench.reports.trackers import Session

HERE = __name__


class Plain(Backbone):
    """Small grey images as rows."""

    def __init__(self) -> None:
        self.backbone = {"name": "plain", "layer": "grey", "pooling": "none"}
        self.preprocessing = {"resize": "8 x 8"}

    def prepare(self, content: Any) -> Any:
        return np.asarray(content.convert("L").resize((8, 8)))

    def forward(self, batch: Any) -> dict[str, torch.Tensor]:
        return {"features": torch.from_numpy(batch).float().flatten(1)}


class SaysNothing(Plain):
    def __init__(self) -> None:
        super().__init__()
        del self.backbone["layer"]


class NoNumber(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.preprocessing["mean"] = float("nan")  # no value of JSON


class ManyShapes(Plain):
    def prepare(self, content: Any) -> Any:
        return np.asarray(content.convert("L"))


class Changed(Plain):
    """Changes the rows by `change`."""

    def change(self, rows: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def forward(self, batch: Any) -> dict[str, torch.Tensor]:
        return {"features": self.change(super().forward(batch)["features"])}


class Infinite(Changed):
    def change(self, rows: torch.Tensor) -> torch.Tensor:
        return rows / 0


class Drawn(Changed):
    def change(self, rows: torch.Tensor) -> torch.Tensor:
        return rows + torch.rand(rows.shape)


class Centred(Changed):
    def change(self, rows: torch.Tensor) -> torch.Tensor:
        return rows - rows.mean(0)


class Shared(Changed):
    """Depends on what other threads do."""

    def change(self, rows: torch.Tensor) -> torch.Tensor:
        return rows * float(threading.active_count())


class Changing(Plain):
    def forward(self, batch: Any) -> dict[str, torch.Tensor]:
        batch[:] = 0
        return super().forward(batch)


class Paints(Plain):
    """Blackens a corner of what it is given, which changes no row made anew."""

    def prepare(self, content: Any) -> Any:
        content.paste(0, (0, 0, 4, 4))
        return super().prepare(content)


class Odd(Plain):
    """Its tables are what `made` says."""

    made: Any = None

    def forward(self, batch: Any) -> dict[str, torch.Tensor]:
        tables: dict[str, torch.Tensor] = Odd.made(super().forward(batch)["features"])
        return tables


@pytest.mark.parametrize(
    "made",
    [
        lambda rows: {"layers/a": rows},
        lambda rows: {"features": rows, "odd": rows},
        *(lambda rows, f=f: {"features": f(rows)} for f in (torch.Tensor.int, lambda x: x[1:])),
        *(lambda rows, i=i: {"features": rows[:, i]} for i in (None, slice(0))),
    ],
)
def test_tables_that_are_none(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Odd, "made", made)
    assert "rows are finite" in failures(plugin_contracts.BACKBONE_CHECKS, f"{HERE}:Odd")


@pytest.mark.parametrize(
    ("name", "caught"),
    [
        ("Plain", None),
        ("Paints", "rows depend on their samples alone"),
        ("SaysNothing", "says what it is"),
        ("NoNumber", "says what it is"),
        ("ManyShapes", "rows are finite"),
        ("Infinite", "rows are finite"),
        ("Drawn", "rows depend on their samples alone"),
        ("Centred", "rows depend on their samples alone"),
        ("Changing", "rows depend on their samples alone"),
        ("Shared", "rows depend on their samples alone"),
    ],
)
def test_a_faulty_backbone(name: str, caught: str | None) -> None:
    said = failures(plugin_contracts.BACKBONE_CHECKS, f"{HERE}:{name}")
    assert (caught in said) if caught else not said


def _source(text: str = "") -> Source:
    """Four grey squares in two classes."""
    file = io.BytesIO()
    Image.new("L", (4, 4), 9).save(file, "PNG")
    return Source(
        name="squares",
        ids=("a/0", "a/1", "b/0", "b/1"),
        labels=np.array([0, 0, 1, 1]),
        classes=("a", "b"),
        parents=np.full(2, -1),
        read=lambda i: file.getvalue(),
    )


def twice(text: str) -> Source:
    return replace(_source(), ids=("a/0", "a/0", "b/0", "b/1"))


def nameless(text: str) -> Source:
    return replace(_source(), name="")


def turned(text: str, count: list[int] = []) -> Source:  # noqa: B006  (it is meant to change)
    count.append(1)
    return replace(_source(), ids=_source().ids[:: (-1) ** len(count)])


CHANGES: dict[str, Callable[[int], dict[str, Any]]] = {  # by how often it was opened
    "smells": lambda n: {"holds": "smells", "read": lambda i: Image.new("L", (4, 4))},
    "deep": lambda n: {"ids": ("a/0", "a/1", "b/0", "b/" * 40)},
    "relabelled": lambda n: {"labels": np.array([0, 1, 1, n % 2])},
    "renamed": lambda n: {"classes": ("a", f"b{n}")},
    "words": lambda n: {"holds": "texts", "read": lambda i: b"no image"},
    "silent": lambda n: {"holds": "sounds"},
    "last": lambda n: {"read": lambda i: b"no image" if i == 3 else _source().read(i)},
}


def changed(text: str, count: list[int] = []) -> Source:  # noqa: B006  (it is meant to change)
    count.append(1)
    return replace(_source(), **CHANGES[text](len(count)))


@pytest.mark.parametrize("text", CHANGES)
def test_a_source_with_one_fault(text: str) -> None:
    caught = "samples can be read" if text in ("silent", "last") else "samples form a data set"
    said = failures(plugin_contracts.SOURCE_CHECKS, f"{HERE}:changed@{text}")
    assert [*said] == ([] if text == "words" else [caught])


def unreadable(text: str) -> Source:
    return replace(_source(), read=lambda i: b"no image")


def one_thread(text: str) -> Source:
    mine = threading.get_ident()
    right = _source().read(0)
    return replace(_source(), read=lambda i: right if threading.get_ident() == mine else b"")


@pytest.mark.parametrize(
    ("name", "caught"),
    [
        ("_source", None),
        ("twice", "samples form a data set"),
        ("nameless", "samples form a data set"),
        ("turned", "samples form a data set"),
        ("unreadable", "samples can be read"),
        ("one_thread", "samples can be read"),
    ],
)
def test_a_faulty_source(name: str, caught: str | None) -> None:
    said = failures(plugin_contracts.SOURCE_CHECKS, f"{HERE}:{name}@text")
    assert [*said] == ([caught] if caught else [])


def honest(tasks: int, resources: Any, settings: dict[str, str]) -> Executor:
    return ThreadPoolExecutor(2)


class _Wrong(ThreadPoolExecutor):
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(lambda: fn(*args, **kwargs) + 1)


class _Quiet(ThreadPoolExecutor):
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        def task() -> Any:
            try:
                return fn(*args, **kwargs)
            except ValueError:
                return None

        return super().submit(task)


class _Garbled(ThreadPoolExecutor):
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        return (
            super().submit(int, "x") if fn is plugin_contracts.fail else super().submit(fn, *args)
        )


class _Endless(ThreadPoolExecutor):
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        pass


def wrong(*_: Any) -> Executor:
    """Adds 1 to every result."""
    return _Wrong(2)


def quiet(*_: Any) -> Executor:
    """Swallows errors."""
    return _Quiet(2)


def garbled(*_: Any) -> Executor:
    """Its errors say nothing."""
    return _Garbled(2)


def endless(*_: Any) -> Executor:
    """Goes on after its end."""
    return _Endless(2)


@pytest.mark.parametrize(
    ("name", "caught"),
    [
        ("honest", None),
        ("wrong", "tasks are run"),
        ("quiet", "tasks are run"),
        ("garbled", "tasks are run"),
        ("endless", "tasks are run"),
    ],
)
def test_a_faulty_engine(name: str, caught: str | None) -> None:
    said = failures(plugin_contracts.ENGINE_CHECKS, f"{HERE}:{name}")
    assert (caught in said) if caught else not said


class Counts:
    """A tracker that does nothing."""

    def __init__(self, target: str) -> None:
        self.target = target

    def add_run(self, run: Run, sessions: Sequence[Session]) -> None:
        pass


class Fails(Counts):
    def add_run(self, run: Run, sessions: Sequence[Session]) -> None:
        raise KeyError("no such run")


class Takes(Counts):
    def add_run(self, run: Run, sessions: Sequence[Session]) -> None:
        sessions[-1].log.clear()


class OnlyNumbers(Counts):
    def add_run(self, run: Run, sessions: Sequence[Session]) -> None:
        float(sessions[0].log["text"])


class Edits(Counts):
    def add_run(self, run: Run, sessions: Sequence[Session]) -> None:
        run.record.metrics.clear()


@pytest.mark.parametrize(
    ("name", "caught"),
    [
        ("Counts", None),
        ("Fails", "values stay untouched"),
        ("Takes", "values stay untouched"),
        ("OnlyNumbers", "values stay untouched"),
        ("Edits", "values stay untouched"),
    ],
)
def test_a_faulty_tracker(name: str, caught: str | None) -> None:
    said = failures(plugin_contracts.TRACKER_CHECKS, f"{HERE}:{name}")
    assert (caught in said) if caught else not said


def _said(name: str, kind: str | None) -> str:
    """The error of `check`, or what its failed checks say."""
    try:
        return "; ".join(r.message for r in check(name, kind=kind))
    except UserError as error:
        return str(error)


def test_what_cannot_be_told_apart_is_asked_for() -> None:
    for name, kind, sentence in (
        (f"{HERE}:twice", None, "say by --kind what"),
        (f"{HERE}:twice", "metricks", "unknown kind 'metricks'. Did you mean 'metrics'"),
        ("mosiac", None, "unknown name 'mosiac'"),
        (f"{HERE}:twice", "backbones", "is not a subclass of embedbench's Backbone"),
    ):
        assert sentence in _said(name, kind)
    with pytest.raises(UserError, match="leave out --device cuda"):
        check("worst_class_accuracy", "cuda")
