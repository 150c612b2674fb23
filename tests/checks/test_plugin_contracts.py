"""The checks of backbones, sources, engines and trackers catch what is wrong."""

import io
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from faults import failures
from file_helpers import says
from PIL import Image

from embedbench.checks import plugin_contracts
from embedbench.checks.conformance_suite import check, kind_of, run_checks
from embedbench.checks.metric_contract import METRIC_CHECKS
from embedbench.errors import UserError
from embedbench.extract.backbone import Backbone
from embedbench.extract.source import Source
from embedbench.reports.load_results import Run
from embedbench.reports.trackers import Session

HERE = __name__
STATES, FINITE = "says what it is", "rows are finite"
ALONE = "rows depend on their samples alone"
DATA, READ = "samples form a data set", "samples can be read"
RUN, UNTOUCHED = "tasks are run", "values stay untouched"


def _like(base: type, name: str, act: Callable[..., Any]) -> type:  # which also does something
    return type(name, (base,), {"act": staticmethod(act)})


class Plain(Backbone):
    act: Any = staticmethod(lambda made: None)

    def __init__(self) -> None:
        self.backbone = {"name": "plain", "layer": "grey", "pooling": "none"}
        self.preprocessing = {"resize": "8 x 8"}
        self.act(self)

    def prepare(self, content: Any) -> Any:
        return np.asarray(content.convert("L").resize((8, 8)))

    def forward(self, batch: Any) -> dict[str, torch.Tensor]:
        return {"features": torch.from_numpy(batch).float().flatten(1)}


SaysNothing = _like(Plain, "SaysNothing", lambda made: made.backbone.pop("layer"))
NoNumber = _like(Plain, "NoNumber", lambda made: made.preprocessing.update(mean=float("nan")))


class ManyShapes(Plain):
    def prepare(self, content: Any) -> Any:
        return np.asarray(content.convert("L"))


class ManyTypes(Plain):
    made = 0

    def prepare(self, content: Any) -> Any:
        self.made += 1
        return super().prepare(content).astype(np.uint8 if self.made % 2 else np.float32)


class Changing(Plain):
    def forward(self, batch: Any) -> dict[str, torch.Tensor]:
        batch[:] = 0
        return super().forward(batch)


class Paints(Plain):  # blackens a corner of what it is given, which changes no row made anew
    def prepare(self, content: Any) -> Any:
        content.paste(0, (0, 0, 4, 4))
        return super().prepare(content)


class Odd(Plain):  # its tables are what `made` says
    made: Any = None

    def forward(self, batch: Any) -> dict[str, torch.Tensor]:
        tables: dict[str, torch.Tensor] = Odd.made(super().forward(batch)["features"])
        return tables


@pytest.mark.parametrize("name", ["ManyShapes", "ManyTypes"])
def test_prepared_samples_of_two_kinds_are_said(name: str) -> None:
    (result,) = run_checks([plugin_contracts.rows_are_finite], f"{HERE}:{name}")
    assert result.message.startswith("expected one shape and type of prepared samples, got {")


@pytest.mark.parametrize(
    ("made", "caught"),
    [
        (lambda rows: {"layers/a": rows}, FINITE),
        (lambda rows: {"features": rows, "odd": rows}, FINITE),
        (lambda rows: {"features": rows.int()}, FINITE),
        (lambda rows: {"features": rows[1:]}, FINITE),
        (lambda rows: {"features": rows[:, None]}, FINITE),
        (lambda rows: {"features": rows[:, :0]}, FINITE),
        (lambda rows: {"features": rows / 0}, FINITE),
        (lambda rows: {"features": rows + torch.rand(rows.shape)}, ALONE),
        (lambda rows: {"features": rows - rows.mean(0)}, ALONE),
        (lambda rows: {"features": rows * float(threading.active_count())}, ALONE),
    ],
)
def test_tables_that_are_none(made: Any, caught: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Odd, "made", made)
    assert caught in failures(plugin_contracts.BACKBONE_CHECKS, f"{HERE}:Odd")


CHANGES: dict[str, Callable[[int], dict[str, Any]]] = {  # by how often it was opened
    "honest": lambda n: {},
    "words": lambda n: {"holds": "texts", "read": lambda i: b"no image"},
    "smells": lambda n: {"holds": "smells", "read": lambda i: Image.new("L", (4, 4))},
    "deep": lambda n: {"ids": ("a/0", "a/1", "b/0", "b/" * 40)},
    "twice": lambda n: {"ids": ("a/0", "a/0", "b/0", "b/1")},
    "nameless": lambda n: {"name": ""},
    "turned": lambda n: {"ids": ("a/0", "a/1", "b/0", "b/1")[:: (-1) ** n]},
    "relabelled": lambda n: {"labels": np.array([0, 1, 1, n % 2])},
    "renamed": lambda n: {"classes": ("a", f"b{n}")},
    "silent": lambda n: {"holds": "sounds"},
    "last": lambda n: {"read": lambda i: b"no image" if i == 3 else square()},
    "one thread": lambda n: {"read": of_one_thread(threading.get_ident())},
}


def square() -> bytes:
    file = io.BytesIO()
    Image.new("L", (4, 4), 9).save(file, "PNG")
    return file.getvalue()


def of_one_thread(mine: int) -> Callable[[int], bytes]:
    return lambda i: square() if threading.get_ident() == mine else b""


def source(text: str, count: list[int] = []) -> Source:  # noqa: B006  (it is meant to change)
    """Four grey squares in two classes, with one fault."""
    count.append(1)
    made = Source(
        name="squares",
        ids=("a/0", "a/1", "b/0", "b/1"),
        labels=np.array([0, 0, 1, 1]),
        classes=("a", "b"),
        parents=np.full(2, -1),
        read=lambda i: square(),
    )
    return replace(made, **CHANGES[text](len(count)))


@pytest.mark.parametrize("text", CHANGES)
def test_a_source_with_one_fault(text: str) -> None:
    caught = READ if text in ("silent", "last", "one thread") else DATA
    said = failures(plugin_contracts.SOURCE_CHECKS, f"{HERE}:source@{text}")
    assert [*said] == ([] if text in ("honest", "words") else [caught])


class Threads(ThreadPoolExecutor):  # an honest engine: it is its own executor
    def __init__(self, tasks: int, resources: Any, settings: dict[str, str]) -> None:
        super().__init__(2)


class AddsOne(Threads):
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(lambda: fn(*args, **kwargs) + 1)


class Swallows(Threads):
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        def task() -> Any:
            try:
                return fn(*args, **kwargs)
            except ValueError:
                return None

        return super().submit(task)


class Garbles(Threads):
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(*((int, "x") if fn is plugin_contracts.fail else (fn, *args)))


class Endless(Threads):
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        pass


class Counts:
    act: Any = staticmethod(lambda run, sessions: None)

    def __init__(self, target: str) -> None:
        self.target = target

    def add_run(self, run: Run, sessions: Sequence[Session]) -> None:
        self.act(run, sessions)


Fails = _like(Counts, "Fails", lambda run, sessions: dict[str, int]()["no such run"])
Takes = _like(Counts, "Takes", lambda run, sessions: sessions[-1].log.clear())
OnlyNumbers = _like(Counts, "OnlyNumbers", lambda run, sessions: float(sessions[0].log["text"]))
Edits = _like(Counts, "Edits", lambda run, sessions: run.record.metrics.clear())


@pytest.mark.parametrize(
    ("checks", "caught"),
    [
        (
            plugin_contracts.BACKBONE_CHECKS,
            {Plain: None, SaysNothing: STATES, NoNumber: STATES, ManyShapes: FINITE}
            | {Changing: ALONE, Paints: ALONE},
        ),
        (
            plugin_contracts.ENGINE_CHECKS,
            {Threads: None, AddsOne: RUN, Swallows: RUN, Garbles: RUN, Endless: RUN},
        ),
        (
            plugin_contracts.TRACKER_CHECKS,
            {Counts: None, **dict.fromkeys((Fails, Takes, OnlyNumbers, Edits), UNTOUCHED)},
        ),
    ],
    ids=["backbones", "engines", "trackers"],
)
def test_faults_are_caught(checks: Any, caught: dict[type, str | None]) -> None:
    said = {cls: failures(checks, f"{HERE}:{cls.__name__}") for cls in caught}
    assert [r.applies for r in check("local")] == [False]  # it does the work itself
    if checks is plugin_contracts.BACKBONE_CHECKS:  # ours are as good
        assert [failures(checks, name) for name in ("pixels", "log-mel")] == [{}, {}]
    assert [c for c, name in caught.items() if (name not in said[c] if name else said[c])] == []


def _said(name: str, kind: str | None) -> str:
    """The error of `check`, or what its failed checks say."""
    try:
        return "; ".join(r.message for r in check(name, kind=kind))
    except UserError as error:
        return str(error)


def test_what_cannot_be_told_apart_is_asked_for() -> None:
    for name, kind, sentence in (
        (f"{HERE}:square", None, "by --kind what"),
        (f"{HERE}:square", "backbones", "not a subclass"),
    ):
        assert sentence in _said(name, kind)
    for name, kind, fields in (
        (f"{HERE}:square", "metricks", {"got": "metricks", "expected": "metrics"}),
        ("mosiac", None, {"what": "unknown name", "got": "mosiac"}),
        ("ncmm", None, {"got": "ncmm", "expected": "ncm"}),
    ):
        with pytest.raises(UserError, check=says(**fields)):
            kind_of(name, kind)
    kinds = {"ncm": "learners", "incremental_class": "protocols", "bwt": "metrics"}
    kinds |= {"pixels": "backbones", "demo@8": "sources", "local:2": "engines"}
    kinds |= {f"{HERE}:Plain": "backbones", f"{HERE}:Counts": "trackers"}
    assert {name: kind_of(name, None) for name in kinds} == kinds
    for name in ("worst_class_accuracy", "incremental_class"):
        with pytest.raises(UserError, match=f"^{name} .*no device; .*--device cuda"):
            check(name, "cuda")


class Quits(Plain):
    def forward(self, batch: Any) -> dict[str, torch.Tensor]:
        raise SystemExit(0)


class Closes(Counts):
    def add_run(self, run: Run, sessions: Sequence[Session]) -> None:
        raise GeneratorExit


def test_a_check_of_what_exits_fails_and_the_others_go_on() -> None:
    said = failures(plugin_contracts.BACKBONE_CHECKS, f"{HERE}:Quits")
    assert said == dict.fromkeys((FINITE, ALONE), "raised SystemExit: 0")
    said = failures(plugin_contracts.TRACKER_CHECKS, f"{HERE}:Closes")
    assert said == {UNTOUCHED: "raised GeneratorExit"}
    (learns, *_) = [r for r in check("leaving:Leaves") if not r.passed]
    assert learns.message == "scores raised SystemExit: 0"


def test_a_metric_of_ours_is_checked_by_its_name() -> None:
    assert [result.passed for result in check("final_accuracy")] == [True] * len(METRIC_CHECKS)
