"""Runs that were interrupted inside a session: they go on from their checkpoint, or begin anew."""

import signal
import time
from pathlib import Path

import pytest
from commands import start, stored
from file_helpers import flip
from small_grid import open_cells

from embedbench.checks.learner_check_tools import same
from embedbench.checks.learner_contract import CutOffError, Saboteur
from embedbench.runs import run_one
from embedbench.runs.grid_scheduler import run_grid
from embedbench.runs.run_spec import RunSpec
from embedbench.runs.run_task import make_task
from embedbench.runs.stream_cache import StreamCache
from embedbench.scores import record_files
from embedbench.system.callback_types import Notify

TWO = ["protocol.base=3", "protocol.step=3", "units=8", "stop.rule=epochs"]  # sessions


def vector_cell(folder: Path) -> RunSpec:
    return open_cells(folder, "mlp", *TWO, "stop.epochs=3", seeds=(0,))[0]


def run(cell: RunSpec, root: Path, threads: int, notify: Notify = lambda _: None) -> Path:
    task = make_task(cell, root, StreamCache())
    run_one.execute(task, threads, notify)
    return task.run_dir


def cut_off(cell: RunSpec, root: Path, threads: int = 1) -> Path:
    """Leave a cell in the middle of its second session; returns where its checkpoint lies."""
    task = make_task(cell, root, StreamCache())
    decided = run_one.checkpoint_key(task, threads)
    checkpoint = Saboteur(task.checkpoint, after=5, decided=decided)
    with pytest.raises(CutOffError):
        run_one.train_and_predict(task, threads, checkpoint)
    assert {p.name for p in task.checkpoint.iterdir()} == {"begun.json", "fit-1-0", "sessions"}
    return task.checkpoint


def test_a_cell_goes_on_and_says_so(tmp_path: Path) -> None:
    cell, told = vector_cell(tmp_path), []
    partial = cut_off(cell, tmp_path / "a", 2)
    assert record_files.find(tmp_path / "a") == []  # no run yet
    place = run(cell, tmp_path / "a", 2, told.append)
    says = "mlp seed 0 was cut off and goes on from its checkpoint, 1 of 2 sessions done"
    assert told == [says]
    assert not partial.exists()
    ours = record_files.load(place)
    assert (ours.resumed, ours.environment["threads"]) == (1, 2)
    whole = run(cell, tmp_path / "b", 2)
    assert same(stored(place), stored(whole))


@pytest.mark.parametrize(
    ("name", "threads", "reason"),
    [
        ("begun.json", 2, "it was made with another number of threads"),
        ("sessions", 1, "sessions is damaged"),
        ("fit-1-0", 1, "fit-1-0 is damaged"),
    ],
)
def test_a_cell_whose_checkpoint_cannot_be_used_begins_anew_and_says_so(
    tmp_path: Path, name: str, threads: int, reason: str
) -> None:
    cell, told = vector_cell(tmp_path), list[str]()
    partial = cut_off(cell, tmp_path / "a", threads)
    if name != "begun.json":
        flip(partial / name, -1)
    place = run(cell, tmp_path / "a", 1, told.append)
    *before, sentence = told
    assert len(before) == (name == "fit-1-0")  # it had begun to go on
    says = "mlp seed 0 begins anew, its checkpoint cannot be used: "
    assert sentence == says + reason
    ours = record_files.load(place)
    assert (ours.resumed, ours.environment["threads"]) == (0, 1)
    assert same(stored(place), stored(run(cell, tmp_path / "b", 1)))


def test_overwrite_begins_anew(tmp_path: Path) -> None:
    cell, told = vector_cell(tmp_path), []
    partial = cut_off(cell, tmp_path / "a")
    (place,) = run_grid([cell], tmp_path / "a", overwrite=True, notify=told.append).run_dirs
    assert told == []
    assert record_files.load(place).resumed == 0
    assert not partial.exists()


@pytest.mark.thorough
def test_kill_9_inside_a_session_changes_no_answer(tmp_path: Path) -> None:
    items = [*TWO, "stop.epochs=300"]
    (cell,) = open_cells(tmp_path, "mlp", *items, seeds=(0,))
    line = ["run", *cell.files, "--protocol", "incremental-class", "--learner", "mlp"]
    line += [w for item in ("references=0", *items) for w in ("--set", item)]
    line += ["--checkpoint", "0", "--jobs", "1", "--device", "cpu", "--out", str(tmp_path / "a")]
    task, told = make_task(cell, tmp_path / "a", StreamCache()), tmp_path / "told"
    place, partial = task.run_dir, task.checkpoint
    for name in ("fit-0-0", "fit-1-0"):  # twice, in the first session and in the second
        process = start(line, told)
        looked_for = [partial / "begun.json", partial / name]
        while process.is_alive() and not all(path.exists() for path in looked_for):
            time.sleep(0.002)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert (partial / name).exists()  # or the session would have ended before
    assert not place.exists()
    process = start(line, told)
    process.join()
    assert process.exitcode == 0, told.read_text()
    assert "goes on from its checkpoint, 1 of 2 sessions done\n" in told.read_text()
    assert not partial.exists()
    (whole,) = run_grid([cell], tmp_path / "b").run_dirs
    assert same(stored(place), stored(whole))
    assert record_files.load(place).resumed == 2
