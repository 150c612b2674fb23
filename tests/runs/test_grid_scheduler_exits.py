"""What leaves a learner or a protocol is the failure of its run, whatever it is; others go on."""

from pathlib import Path
from typing import Any

import pytest
from commands import Call, quick_workers
from leaving import SAID
from plan_runs import plan
from protocol_files import make_file

from embedbench.engines.engine import Engine
from embedbench.runs.grid_scheduler import Outcome, run_grid
from embedbench.scores import record_files

NAME = "leaving:Leaves"
METHODS = ("copy", "start", "observe", "prepare", "scores", "footprint", "state_dict")


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("blobs")
    return str(make_file(folder, [8] * 4, [0] * 4, [4] * 4, apart=3.0).path)


def made(blobs: str, root: Path, how: str, where: str = "scores", **more: Any) -> Outcome:
    items = ["references=0", f"{NAME}.how={how}", f"{NAME}.where={where}"]
    specs = plan([blobs], "incremental-class", [NAME, "ncm"], [0], items, checkpoint=0.0)
    return run_grid(specs, root, **more)


def learners(outcome: Outcome) -> list[str]:
    return [record_files.load(place).learner for place in outcome.run_dirs]


@pytest.mark.parametrize("how", SAID)
@pytest.mark.parametrize("engine", ["local:1", "local:2"])
def test_whatever_leaves_a_learner_is_its_runs_failure(
    blobs: str, tmp_path: Path, how: str, engine: str
) -> None:
    with quick_workers():
        outcome = made(blobs, tmp_path, how, engine=Engine(engine))
    ((spec, reason),) = outcome.failed
    assert spec.learner.name == NAME
    assert learners(outcome) == ["ncm"]
    assert SAID[how] in reason
    assert not outcome.bad_input


@pytest.mark.parametrize("where", METHODS)
def test_from_any_method(blobs: str, tmp_path: Path, where: str) -> None:
    outcome = made(blobs, tmp_path, "exit", where)
    ((_, reason),) = outcome.failed
    assert reason.startswith("the learner ")
    assert learners(outcome) == ["ncm"]


def test_a_worker_that_ends_is_its_runs_failure(blobs: str, tmp_path: Path) -> None:
    """`os._exit` ends the process at once, with a code that says that all is well."""
    with quick_workers():
        outcome = made(blobs, tmp_path, "_exit", engine=Engine("local:2"))
    ((_, reason),) = outcome.failed
    assert "ended 2 times" in reason
    assert learners(outcome) == ["ncm"]


@pytest.mark.parametrize("how", SAID)
def test_a_protocol_that_leaves_costs_the_runs_of_its_stream(
    blobs: str, tmp_path: Path, how: str
) -> None:
    items = ["references=0", f"protocol.how={how}", "seeds.order=1"]
    bad = plan([blobs], "leaving:LeavingStream", ["ncm"], [0], items)
    good = plan([blobs], "leaving:LeavingStream", ["ncm"], [1], [*items, "seeds.order=2"])
    outcome = run_grid([*bad, *good], tmp_path)
    ((spec, reason),) = outcome.failed
    assert spec.seed == 0
    assert learners(outcome) == ["ncm"]
    assert SAID[how] in reason


def test_the_command_ends_with_an_error(blobs: str, tmp_path: Path, call: Call) -> None:
    words = ["run", blobs, "--protocol", "incremental-class", "--set", "references=0", "--quiet"]
    done = call(*words, "--learner", f"{NAME},ncm", "--out", tmp_path / "runs")
    assert done.code == 1
    assert "failed: leaving:Leaves seed 0: the learner Leaves left with SystemExit: 0" in done.err
    assert "ncm" in done.out


@pytest.mark.parametrize(
    "more", [("--tune", "leaving:Leaves.how=exit,whim"), ("--budget-mb", "0.5")], ids=["tune", "mb"]
)
def test_a_learner_that_leaves_while_it_is_tuned_or_measured(
    blobs: str, tmp_path: Path, call: Call, more: tuple[str, ...]
) -> None:
    words = ["run", blobs, "--protocol", "incremental-class", "--set", "references=0", "--quiet"]
    words += ["--learner", "leaving:LeavesWithMemory,ncm", "--out", str(tmp_path / "runs")]
    more = tuple(word.replace("Leaves.", "LeavesWithMemory.") for word in more)
    done = call(*words, *more)
    assert done.code == 1
    assert "failed: leaving:LeavesWithMemory seed 0: the learner" in done.err
    assert "left with SystemExit: 0" in done.err
    assert {p.parent.name[:3] for p in record_files.find(tmp_path / "runs")} == {"ncm", "cha"}


def test_a_stream_that_cannot_be_made_is_shown_as_a_sentence(blobs: str, call: Call) -> None:
    done = call("show", blobs, "--protocol", "leaving:LeavingStream", "--set", "seeds.order=1")
    assert done.code == 1
    assert done.out == ""
    assert "the protocol leaving:LeavingStream left with SystemExit: 0" in done.err
