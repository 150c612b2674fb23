"""Many processes in one directory of runs: nothing is lost, made twice, or fails for it."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from commands import Call, start
from small_grid import answers, before_each_run, expected, open_cells, small_grid, tree, words

from embedbench.runs import grid_scheduler, run_dirs, run_one
from embedbench.runs.checkpoint import CheckpointDirectory
from embedbench.runs.grid_scheduler import run_grid
from embedbench.runs.run_dirs import checkpoint_path
from embedbench.runs.run_spec import RunSpec
from embedbench.runs.run_task import Task, make_task
from embedbench.runs.stream_cache import StreamCache
from embedbench.scores import record_files
from embedbench.scores.run_record import SessionCosts
from embedbench.storage import leases

FILES = ("record.json", "predictions.h5")


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def run_in(place: Path, text: str = "new") -> Path:
    place.mkdir(parents=True)
    for name in FILES:
        (place / name).write_text(text)
    return place


def text_in(place: Path) -> str:
    return (place / "predictions.h5").read_text()


@pytest.mark.parametrize("there", [None, "", ".predictions.h5.x.tmp", "record.json"])
def test_a_run_gets_to_its_place(tmp_path: Path, there: str | None) -> None:
    place = tmp_path / "a" / "seed-0"
    made = run_in(tmp_path / "a" / ".made")
    if there is not None:
        place.mkdir()
    if there:
        (place / there).write_text("wreckage")
    assert run_dirs.publish(made, place, tmp_path)
    assert (names(place.parent), names(place)) == (["seed-0"], sorted(FILES))
    assert not run_dirs.publish(run_in(made, "second"), place, tmp_path)
    assert names(place.parent) == ["seed-0"]
    assert text_in(place) == "new"
    with pytest.raises(FileNotFoundError):
        run_dirs.publish(run_in(made), tmp_path / "none" / "seed-0", tmp_path)


def test_a_run_that_arrives_late_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at the wreckage and its removal another process puts its run there."""
    place = tmp_path / "seed-0"
    (place / "half").mkdir(parents=True)
    looks = record_files.is_finished

    def late(at: Path) -> bool:
        answer = looks(at)
        if at == place and not answer:
            shutil.rmtree(place, ignore_errors=True)
            run_in(place, "first")
        return answer

    monkeypatch.setattr(record_files, "is_finished", late)
    assert not run_dirs.publish(run_in(tmp_path / ".made"), place, tmp_path)
    assert names(tmp_path) == ["seed-0"]
    assert text_in(place) == "first"


def test_a_run_and_its_places_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, made = tmp_path / "a" / "b" / "seed-0", tmp_path / "a" / "b" / ".made"
    run_in(made)
    synced: list[tuple[Path, bool]] = []
    writes = run_dirs.atomic_write
    monkeypatch.setattr(writes, "sync_path", lambda p: synced.append((p, place.exists())))
    run_dirs.publish(made, place, tmp_path)
    after = [(p, True) for p in (place.parent, place.parent.parent, tmp_path)]
    assert synced == [(made, False), *after]


def test_what_ended_processes_leave_is_cleared_up(tmp_path: Path) -> None:
    place = run_in(tmp_path / "seed-1")
    litter = [".seed-1.north-1-ab.tmp", ".seed-1.partial", ".seed-1.north-1-ab.old"]
    others = [".seed-10.north-1-ab.tmp", ".seed-1-order2.partial", "seed-10"]
    for name in (*litter, *others):
        run_in(tmp_path / name, "old")
    (tmp_path / "..seed-1.lease.ab.tmp").write_text("")
    run_dirs.tidy_if_free(place, tmp_path)
    assert record_files.find(tmp_path) == [place, tmp_path / "seed-10"]
    assert (names(tmp_path), text_in(place)) == (sorted([*others, "seed-1"]), "new")


def test_a_checkpoint_is_written_only_while_the_lease_is_held(tmp_path: Path) -> None:
    said, held = list[str](), iter([True, True, False, False])
    how: Any = {"notify": said.append, "is_mine": lambda: next(held)}
    checkpoint = CheckpointDirectory(tmp_path / "partial", {}, seconds=0, **how)
    state: Any = SimpleNamespace(state_dict=lambda: {"w": 1})
    assert not checkpoint.open()
    checkpoint.begin(0)
    log = SessionCosts(0.0, 0.0, {}, {})
    checkpoint.end(state, state, [log])
    (tmp_path / "partial" / "fit-1-0").write_text("of who took over")
    before = tree(tmp_path)
    checkpoint.begin(1)
    for n in (2, 3):
        checkpoint.end(state, state, [log] * n)
    checkpoint.clear()
    assert tree(tmp_path) == before
    reason = "another process has taken the run over"
    assert said == [f"no checkpoint can be kept, the run goes on without: {reason}"]


@pytest.fixture
def cells(tmp_path: Path) -> list[RunSpec]:
    return open_cells(tmp_path)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    before_each_run(monkeypatch, lambda t: names.append(f"{t.spec.learner} {t.spec.seed}"))
    return names


ALL = [f"{name} {seed}" for name in ("chance", "ncm") for seed in (0, 1, 2)]


def hold(cell: RunSpec, root: Path) -> leases.Lease:
    path = make_task(cell, root, StreamCache()).lease
    path.parent.mkdir(parents=True, exist_ok=True)
    return leases.take(path)


def at_rest(monkeypatch: pytest.MonkeyPatch, what: Callable[[], None]) -> list[None]:
    """Let something happen when the grid waits for the third time; returns how often it waits."""
    waits: list[None] = []

    def sleep(seconds: float) -> None:
        if seconds != leases.POLL:  # the thread that keeps leases
            time.sleep(seconds)
            return
        waits.append(None)
        if len(waits) == 3:
            what()

    clock = SimpleNamespace(sleep=sleep, monotonic=time.monotonic)
    monkeypatch.setattr(leases, "time", clock)
    return waits


def test_the_others_are_made_first(cells: Any, made: Any, tmp_path: Path, monkeypatch: Any) -> None:
    lease, said = hold(cells[0], tmp_path), []
    waits = at_rest(monkeypatch, lease.release)
    counts: list[int] = []
    outcome = run_grid(
        cells, tmp_path, notify=said.append, progress=lambda _, done, of: counts.append(done)
    )
    assert counts == [0, 1, 2, 3, 3, 4, 5, 6]  # of the first round 5, and then the last
    assert made == [name for name in ALL if name != "ncm 0"] + ["ncm 0"]
    me = f"process {os.getpid()} on host {os.uname().nodename}"
    assert said == [f"waiting for ncm seed 0, which {me} is making"]
    assert len(waits) == 3
    assert len(outcome.run_dirs) == 3
    assert outcome.skipped == 0
    assert outcome.elsewhere == 0


@pytest.mark.parametrize("overwrite", [False, True])
def test_finished(cells: Any, made: Any, tmp_path: Path, monkeypatch: Any, overwrite: bool) -> None:
    """With `--overwrite` it is the run that the other one makes anew, and not the one before."""
    (first, *_) = run_grid(cells, tmp_path).run_dirs
    ready = first.rename(tmp_path / "ready")
    if overwrite:
        shutil.copytree(ready, first)
    made.clear()
    lease = hold(cells[0], tmp_path)

    def finish() -> None:
        shutil.rmtree(first, ignore_errors=True)
        ready.rename(first)

    at_rest(monkeypatch, finish)
    outcome = run_grid(cells, tmp_path, overwrite=overwrite)
    lease.release()
    assert made == (["ncm 1", "ncm 2"] if overwrite else [])
    assert len(outcome.run_dirs) == 3
    assert outcome.elsewhere == 1
    assert outcome.skipped == (3 if overwrite else 5)


def test_finished_between_looks(cells: Any, made: Any, tmp_path: Path, monkeypatch: Any) -> None:
    take = leases.take

    def late(path: Path) -> leases.Lease | None:
        monkeypatch.setattr(leases, "take", take)
        run_grid(cells, tmp_path)
        return take(path)

    monkeypatch.setattr(leases, "take", late)
    counts: list[int] = []
    outcome = run_grid(cells, tmp_path, progress=lambda _, done, of: counts.append(done))
    assert (made, counts) == (ALL, [*range(7)])
    assert len(outcome.run_dirs) == 3
    assert outcome.skipped == 0
    assert outcome.elsewhere == 6


def test_a_lost_lease_fails_none(cells: Any, made: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """Who took the lease over has removed what this process was about to publish."""

    def clear(task: Task) -> None:
        if not made:
            task.lease.unlink()
            made.append("lost")
            raise FileNotFoundError(2, "No such file or directory")

    before_each_run(monkeypatch, clear)
    assert not run_grid(cells, tmp_path).failed
    assert made == ["lost", *ALL[1:], ALL[0]]


def test_a_run_is_replaced(cells: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there until the new one is finished."""
    (place,) = run_grid(cells[:1], tmp_path).run_dirs
    text = (place / "record.json").read_text()
    checkpoint_path(place).mkdir()
    there: list[str] = []
    before_each_run(monkeypatch, lambda _: there.extend(names(place.parent)))
    run_grid(cells[:1], tmp_path, overwrite=True)
    assert there == [".seed-0.lease", "seed-0"]
    assert names(place.parent) == ["seed-0"]
    assert (place / "record.json").read_text() != text  # other seconds


def test_a_run_stays(cells: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the one that replaces it fails."""
    (place,) = run_grid(cells[:1], tmp_path).run_dirs
    before = tree(place.parent)
    monkeypatch.setattr(record_files, "score_answers", Mock(side_effect=ZeroDivisionError))
    outcome = run_grid(cells[:1], tmp_path, overwrite=True)
    assert len(outcome.failed) == 1
    assert outcome.run_dirs == [place]
    assert tree(place.parent) == before


def test_workers_stop(cells: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C stops the workers at once; they release nothing."""
    (place,) = run_grid(cells[:1], tmp_path).run_dirs

    def stopped(*_: Any) -> None:
        place.rename(place.with_name(".seed-0.north-1-ab.old"))
        place.with_name(".seed-0.north-1-ab.tmp").mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(grid_scheduler._Grid, "make_all", stopped)
    with pytest.raises(KeyboardInterrupt):
        run_grid(cells[:1], tmp_path, overwrite=True)
    assert names(place.parent) == ["seed-0"]
    monkeypatch.undo()
    place.rename(place.with_name(".seed-0.north-1-ab.old"))  # by a process that was killed
    outcome = run_grid(cells[:1], tmp_path)
    assert outcome.run_dirs == [place]
    assert outcome.skipped == 2
    assert names(place.parent) == ["seed-0"]


def test_sigterm_is_as_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    (file,), before = open_cells(tmp_path)[0].files, signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(run_one, "execute", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    line = ["run", file, "--protocol", "incremental-class", "--learner", "ncm", "--jobs", "1"]
    try:
        done = call(*line, "--device", "cpu", "--out", tmp_path / "runs")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert done.code == 130
    assert "interrupted; a run" in done.err
    assert not [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]


def test_two_processes_share_one_directory(tmp_path: Path) -> None:
    grid = small_grid(tmp_path, [0, 1, 2])
    line = [*words(grid, "0-2", tmp_path / "runs"), "--jobs", "1"]
    line.remove("--quiet")
    both = [start(line, tmp_path / name) for name in "ab"]
    for process in both:
        process.join()
    said = [(tmp_path / name).read_text() for name in "ab"]
    assert [process.exitcode for process in both] == [0, 0], said
    assert "failed" not in "".join(said)
    places = [p.parent for p in (tmp_path / "runs").rglob("record.json")]
    kept = re.findall(r"(\d+) (?:finished runs|runs were finished)", "".join(said))
    assert sum(map(int, kept)) == len(places) == 10  # each was made by one, and seen by the other
    assert not list((tmp_path / "runs").rglob(".*"))
    assert answers(tmp_path / "runs") == expected(grid, tmp_path / "one")


PARENT = """
import sys, time
from multiprocessing.resource_tracker import _resource_tracker
from pathlib import Path
from embedbench.engines.local_pool import local_executor

note = f"import os, time; open('{sys.argv[1]}/' + str(os.getpid()), 'w').close(); "
keeps_the_lock = "import ctypes; ctypes.PyDLL(None).sleep(600)"
with local_executor(2) as pool:
    pool.submit(exec, note + "time.sleep(600)")
    pool.submit(exec, note + (keeps_the_lock if sys.platform == "linux" else "time.sleep(600)"))
    while _resource_tracker._pid is None:  # a thread of the executor begins it
        time.sleep(0.01)
    Path(sys.argv[1], str(_resource_tracker._pid)).touch()
    time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return leases.process_start(pid) != "ended"


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    """One waits, one is in compiled code that keeps Python's lock; so does their tracker."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)])
    until(lambda: len(names(tmp_path)) == 3)
    begun = [int(name) for name in names(tmp_path)]
    assert all(map(is_alive, begun))
    parent.kill()
    parent.wait()
    try:
        until(lambda: not any(map(is_alive, begun)), 20)
    finally:
        for pid in filter(is_alive, begun):
            os.kill(pid, signal.SIGKILL)
