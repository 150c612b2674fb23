"""Trackers: what they get, what is remembered; and their files, read by their owners."""

import json
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pinned_runs import CHANCE, MLP, STREAM, edit, write_references, write_runs

from embedbench.errors import UserError
from embedbench.reports import trackers
from embedbench.reports.load_results import Run
from embedbench.reports.trackers import Session
from embedbench.scores import record_files
from embedbench.scores.verified_records import fill_reference

OTHER = f"{STREAM}/mlp-1/seed-1"


class Notes:
    """A tracker that keeps its calls, by its target."""

    calls: dict[str, list[tuple[Any, ...]]] = {}  # noqa: RUF012  (the tests read it)

    def __init__(self, target: str) -> None:
        self._mine = self.calls.setdefault(target, [])

    def add_run(self, run: Run, sessions: Sequence[Session]) -> None:
        self._mine.append((run.name, sessions, run.record.metrics["final_accuracy"]))


class Broken(Notes):
    def add_run(self, run: Run, sessions: Sequence[Session]) -> None:
        raise ValueError("full\x1b disk")


def full(target: str) -> Notes:
    raise UserError(f"{target} is full")


def never(target: str) -> Notes:
    raise OSError(f"no {target}")


@pytest.fixture(autouse=True)
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`outside_tracker:Notes` is this file's class, as a module of a user."""
    monkeypatch.setattr(Notes, "calls", {})
    monkeypatch.setitem(sys.modules, "outside_tracker", sys.modules[__name__])
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_runs(tmp_path / "runs")
    return tmp_path / "runs"


def replay(root: Path, *names: str, **more: Any) -> tuple[int, list[str]]:
    told: list[str] = []
    return trackers.track(root, names, notify=told.append, **more), told


def test_every_run_is_replayed_once_to_each_tracker(root: Path) -> None:
    names = ("outside_tracker:Notes:a", "outside_tracker:Notes:b")
    assert replay(root, names[0]) == (3, [])
    assert replay(root, *names, names[1]) == (3, [])  # the second one's
    assert replay(root, *names) == (0, [])
    calls = Notes.calls["a"]
    assert Notes.calls["b"] == calls
    assert sorted(name for name, *_ in calls) == [CHANCE, MLP, OTHER]
    assert {p.name for p in root.iterdir()} == {"references", STREAM, ".tracked.json"}
    # run again with other answers: replayed again
    seen = json.loads((root / ".tracked.json").read_text())
    seen["trackers"][names[0]][MLP] = "0" * 64
    (root / ".tracked.json").write_text(json.dumps(seen))
    assert replay(root, *names) == (1, [])


def test_a_run_comes_with_its_sessions(root: Path) -> None:
    edit(root / OTHER, "metrics", "final_accuracy", value=0.99)  # in doubt, and left out
    count, (told,) = replay(root, "outside_tracker:Notes:a")
    assert count == 2
    assert "final_accuracy" in told
    made = record_files.load(root / MLP)
    ((_, sessions, final),) = (call for call in Notes.calls["a"] if call[0] == MLP)
    assert len(sessions) == len(made.n_train)
    assert final == made.metrics["final_accuracy"]
    for i, (scores, log) in enumerate(sessions):
        assert scores["class_accuracy"] == made.pooled[i]
        row = {f"R/{j}": v for j, v in enumerate(made.R[i]) if v == v}
        assert {k: v for k, v in scores.items() if k.startswith("R/")} == row
        assert all(v == v for v in scores.values())
        assert log["learn_seconds"] == 2.0
        assert log["bytes"] == 2_000_000
        assert log["stopped"] == "patience"


def test_runs_wait_for_their_references(tmp_path: Path) -> None:
    """Which hold what Ω is a share of; they come when these are finished."""
    root = tmp_path / "open"
    write_runs(root, references=False)
    count, told = replay(root, "outside_tracker:Notes:a")
    assert count == 0
    assert told == ["2 runs wait for their references; embedbench run makes them"]
    write_references(root)
    for place in (MLP, OTHER):
        assert fill_reference(root / place, root)
    assert replay(root, "outside_tracker:Notes:a") == (3, [])


def test_what_is_wrong_is_a_sentence(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("wandb", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, module, None)
    for name, sentence in {
        "tensorboard": "target: tensorboard:DIR",
        "tensorbord:x": "'tensorbord'.* 'tensorboard'",
        "nothing": "tracker 'nothing'",
        "outside_tracker:None_:x": "'outside_tracker' .* 'None_'",
        "outside_tracker:never:disk": "'outside_tracker:never:disk' .* OSError: no disk",
        "outside_tracker:Broken:x": "'outside_tracker:Broken:x' .* ValueError: full disk",
        "outside_tracker:full:x": "x is full",
        "tensorboard:x": r"--to tensorboard .*\[tensorboard\]",
        "wandb:x": r"--to wandb .*\[wandb\]",
    }.items():
        with pytest.raises(UserError, match=sentence):
            replay(root, name)
        assert not (root / ".tracked.json").exists()
    (root / ".tracked.json").write_text('{"trackers": [1]}')
    with pytest.raises(UserError, match=r"tracked\.json: trackers .* object"):
        replay(root, "outside_tracker:Notes:a")
    with pytest.raises(UserError, match=r"no directory .*none"):
        replay(root / "none", "outside_tracker:Notes:a")


def test_each_run_that_a_tracker_refuses_is_named(root: Path) -> None:
    told = list[str]()
    with pytest.raises(UserError, match="full"):
        trackers.track(root, ["outside_tracker:Broken:a"], notify=told.append)
    assert sorted(line.partition(": the tracker")[0] for line in told) == [
        f"failed: {name}" for name in sorted((CHANCE, MLP, OTHER))
    ]


def test_tensorboards_files_as_it_reads_them(root: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    assert replay(root, "tensorboard:tb") == (3, [])
    assert replay(root, f"tensorboard:{Path.cwd()}/tb") == (0, [])  # the same directory
    assert not [t for t in threading.enumerate() if "AsyncWriter" in type(t).__name__]  # all closed
    made, events = record_files.load(root / MLP), EventAccumulator(str(Path("tb") / MLP)).Reload()
    pooled, seconds = map(events.Scalars, ("scores/class_accuracy", "log/learn_seconds"))
    assert [e.step for e in pooled] == list(range(len(made.n_train)))
    assert [e.value for e in pooled] == pytest.approx(made.pooled)
    assert [e.value for e in seconds] == [2.0] * len(made.n_train)
    (final,) = events.Scalars("metrics/final_accuracy")
    assert final.value == pytest.approx(made.metrics["final_accuracy"])
    about = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    given = HParamsPluginData.FromString(about).session_start_info.hparams
    values = given["learner.units"].number_value, given["learner"].string_value
    assert (*values, given["order"].string_value) == (400, "mlp", "None")
    (command,) = events.Tensors("command/text_summary")
    assert command.tensor_proto.string_val[0].decode() == made.command


def test_wandb_gets_runs_steps_and_settings(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Disabled, so that its own classes check what they are given, and write nothing."""
    wandb = pytest.importorskip("wandb")
    made: dict[str, tuple[dict[str, Any], list[dict[str, float]], Any]] = {}
    init = wandb.init

    def start(**given: Any) -> Any:
        run = init(**given)
        _, steps, _ = made[given["name"]] = (given, [], run)
        monkeypatch.setattr(run, "log", lambda values, step: steps.insert(step, values))
        return run

    monkeypatch.setenv("WANDB_MODE", "disabled")
    monkeypatch.setattr(wandb, "init", start)
    assert replay(root, "wandb:team/project") == (3, [])
    assert set(made) == {CHANCE, MLP, OTHER}
    given, steps, there = made[MLP]
    about = given["project"], given["entity"], given["group"]
    assert about == ("project", "team", f"{STREAM}/mlp-1")
    assert [len(name) for name in {run["id"] for run, *_ in made.values()}] == [16] * 3
    said = given["config"]["learner"], given["config"]["learner.units"], given["settings"].silent
    assert said == ("mlp", 400, True)
    record = record_files.load(root / MLP)
    assert [s["scores/class_accuracy"] for s in steps] == pytest.approx(record.pooled)
    known = {f"metrics/{k}": v for k, v in record.metrics.items() if v == v}
    assert dict(there.summary) == known
    assert len(known) < len(record.metrics)


class Choosy(Notes):
    """It leaves at one run."""

    def add_run(self, run: Run, sessions: Sequence[Session]) -> None:
        if run.name == OTHER:
            raise SystemExit(0)
        super().add_run(run, sessions)


def test_a_tracker_that_exits_at_a_run_gets_the_others(root: Path) -> None:
    with pytest.raises(UserError, match=r"1 replays failed, 2 did not; .*left with SystemExit: 0"):
        replay(root, "outside_tracker:Choosy:a")
    assert sorted(name for name, *_ in Notes.calls["a"]) == [CHANCE, MLP]
