"""What is said of a directory of runs: from finished runs, leases, checkpoints and plans."""

import json
import math
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_grid import before_each_run, open_cells, tree

from embedbench.cli.runs_commands import fitted_text, live, status_parts, summary
from embedbench.runs import runs_status
from embedbench.runs.grid_scheduler import run_grid
from embedbench.runs.run_dirs import checkpoint_path
from embedbench.runs.run_spec import RunSpec
from embedbench.runs.run_task import Task
from embedbench.runs.runs_status import AbandonedRun, FailedRun, Running, Status, Watcher
from embedbench.scores.run_record import Costs
from embedbench.storage import leases
from embedbench.text.terminal_text import render_text


@pytest.fixture
def cells(tmp_path: Path) -> list[RunSpec]:
    return open_cells(tmp_path)


def test_finished_running_and_abandoned_runs(tmp_path: Path) -> None:
    """Each by hand: a lease of this process, one of a process that has ended, one that is stale."""
    place = {n: tmp_path / "stream-1" / "mlp-2" / f"seed-{n}" for n in range(5)}
    for n in (0, 1):
        place[n].mkdir(parents=True)
        (place[n] / "record.json").write_text("{}")
    (place[0] / "predictions.h5").write_text("")  # only this one is whole
    held = leases.take(leases.lease_path(place[2]))
    assert held is not None
    held.note("session 2/5")
    held.beat()
    held.beat()
    ended = replace(held._holder, pid=2**22 + 1)
    leases.lease_path(place[3]).write_text(json.dumps(ended.to_json()))
    elsewhere = replace(held._holder, machine="another", host="north", doing=None)
    leases.lease_path(place[4]).write_text(json.dumps(elsewhere.to_json()))
    for n in (2, 3, 4):
        checkpoint_path(place[n]).mkdir()
        os.utime(checkpoint_path(place[n]), (0, time.time() - 500))
    before = tree(tmp_path)
    now = runs_status.status(tmp_path)
    assert now.finished == 1
    first, second = now.running
    assert (first.run, first.pid) == ("stream-1/mlp-2/seed-2", os.getpid())
    assert (first.session, first.sessions) == (3, 5)  # two are done
    assert 10 <= first.seconds <= 15  # two moves of the counter
    assert (second.host, second.session) == ("north", None)
    (left,) = now.abandoned
    assert (left.run, left.seconds) == ("stream-1/mlp-2/seed-3", pytest.approx(500, abs=60))
    assert (now.planned, now.waiting, now.seconds_left) == (None, None, None)
    stale = time.time() - leases.PATIENCE - 5
    os.utime(leases.lease_path(place[4]), (stale, stale))
    assert [a.run[-6:] for a in runs_status.status(tmp_path).abandoned] == ["seed-3", "seed-4"]
    assert tree(tmp_path) == before
    held.release()


@pytest.mark.parametrize("counter", ["9" * 400, "-000000001", "\u0663" * 10])
def test_a_counter_that_no_process_writes(counter: str, tmp_path: Path) -> None:
    lease = leases.Lease(tmp_path / ".seed-0.lease")
    elsewhere = replace(lease._holder, machine="another", counter=counter)
    lease.path.write_text(json.dumps(elsewhere.to_json()))
    (running,) = runs_status.status(tmp_path).running
    assert running.seconds <= leases.BEAT


def test_a_damaged_lease_and_a_damaged_plan_are_nobody(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".seed-0.lease").write_text("{")
    (tmp_path / ".plan-ab.json").write_text("[")
    lease = leases.take(tmp_path / ".plan-ab.lease")
    assert runs_status.status(tmp_path) == Status(finished=0)
    assert lease is not None
    lease.release()


def test_a_grid_says_what_is_to_come_and_what_failed(
    cells: list[RunSpec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at before each cell; each takes 100 s, and one fails."""
    root, seen = tmp_path / "runs", list[Status]()
    watcher = Watcher(root)
    monkeypatch.setattr(
        Watcher, "_seconds", lambda _, place: 100.0 if (place / "record.json").exists() else None
    )

    def look(task: Task) -> None:
        seen.append(watcher.look())
        if task.label == "ncm seed 1":
            raise ZeroDivisionError("on purpose")

    before_each_run(monkeypatch, look)
    run_grid(cells, root)
    counts = [(s.planned, s.done, len(s.running), s.waiting, len(s.failed)) for s in seen]
    assert counts == [
        *[(6, done, 1, 5 - done, 0) for done in (0, 1, 2, 3, 4)],
        (6, 4, 1, 0, 1),
    ]
    assert [s.running[0].cell for s in seen[2:4]] == ["chance seed 2", "ncm seed 0"]
    assert [(f.cell, f.reason) for f in seen[-1].failed] == [
        ("ncm seed 1", "ZeroDivisionError: on purpose")
    ]
    # nothing is finished; then one of chance, whose next two take 100 s each; of ncm none is
    assert [(s.seconds_left, s.unknown) for s in seen[:2]] == [
        (None, 6),
        (pytest.approx(200, abs=5), 3),
    ]
    assert watcher.look() == Status(finished=5)
    assert [p.name for p in root.iterdir() if p.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("seconds", "took"),
    [(2.5, 3.5), *((s, None) for s in (math.nan, math.inf, 1e308, -1e300))],
)
def test_what_no_cell_can_take_is_left_out(
    seconds: float, took: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = SimpleNamespace(seconds=Costs(seconds, 1.0))
    monkeypatch.setattr(runs_status.record_files, "load", lambda _: made)
    assert Watcher(tmp_path)._seconds(tmp_path) is None
    monkeypatch.setattr(runs_status.record_files, "is_finished", lambda _: True)
    assert Watcher(tmp_path)._seconds(tmp_path) == took


def test_the_plan_of_a_killed_grid_is_ignored_and_then_removed(
    cells: list[RunSpec], tmp_path: Path
) -> None:
    code = (
        "import os, pathlib, signal\n"
        "from embedbench.runs.run_task import Task\n"
        "from embedbench.runs.runs_status import keep_plan\n"
        "from types import SimpleNamespace as N\n"
        f"root = pathlib.Path({str(tmp_path)!r})\n"
        "spec = N(learner='ncm', seed=0)\n"
        "with keep_plan(root, [Task(spec, root / 'a' / 'seed-0', root, None)]):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    (left,) = tmp_path.glob(".plan-*.json")
    assert runs_status.status(tmp_path).planned is None
    run_grid(cells[:1], tmp_path)
    assert not left.exists()
    assert not list(tmp_path.glob(".plan-*"))


def test_with_overwrite_a_cell_is_done_when_it_is_replaced(
    cells: list[RunSpec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, seen = tmp_path / "runs", list[Status]()
    run_grid(cells, root)
    before_each_run(monkeypatch, lambda _: seen.append(runs_status.status(root)))
    run_grid(cells, root, overwrite=True)
    assert [(s.planned, s.done, s.waiting) for s in seen] == [(6, 3, 2), (6, 4, 1), (6, 5, 0)]


def test_a_grid_that_goes_on_keeps_its_total(
    cells: list[RunSpec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of three seeds, with those of chance, were made before."""
    root, seen = tmp_path / "runs", list[Status]()
    run_grid(cells[:2], root)
    before_each_run(monkeypatch, lambda _: seen.append(runs_status.status(root)))
    run_grid(cells, root)
    assert [(s.planned, s.done, s.waiting) for s in seen] == [(6, 4, 1), (6, 5, 0)]
    seen.clear()
    run_grid(cells, root)
    assert not seen  # and no plan
    assert not list(root.glob(".plan-*"))


BUSY = Status(
    finished=60,
    planned=800,
    done=412,
    waiting=377,
    running=tuple(
        Running(run="a", cell=f"ewc seed {i}", host="north.net", pid=i, seconds=60.0 * i, session=i)
        for i in range(9)
    ),
    abandoned=(AbandonedRun(run="b", cell="stream/mlp/seed-3", seconds=7200),),
    failed=(FailedRun(run="c", cell="mlp seed 4", reason="MemoryError: " + "too large " * 20),),
    seconds_left=5000.0,
    unknown=1,
)


def test_the_summary() -> None:
    assert summary(BUSY) == [
        "412 of 800 runs done · 9 running · 377 waiting · 1 failed · 1 abandoned",
        "about 1 h 23 min and 1 run of unknown length left",
    ]
    assert summary(replace(BUSY, seconds_left=0.0))[1] == "1 run of unknown length left"
    assert summary(replace(BUSY, seconds_left=None))[1] == "time left not known yet"
    assert summary(Status(finished=3)) == ["3 finished"]


@pytest.mark.parametrize(("width", "height"), [(40, 12), (60, 24), (80, 8), (120, 50)])
def test_the_view_fits_the_terminal(width: int, height: int) -> None:
    text = fitted_text(BUSY, width, height).split("\n")
    assert max(map(len, text)) <= width
    assert len(text) < height
    whole = " ".join(text)
    assert "412 of 800" in whole
    assert "ewc seed 0" in whole
    assert ("more" in whole) == (height < 14)
    whole = fitted_text(BUSY, width, 99)  # as high as the terminal, it does not fit
    assert fitted_text(BUSY, width, whole.count("\n") + 1).count("\n") < whole.count("\n")
    assert fitted_text(None, width, height) == "planning the runs"


def test_the_status_names_every_cell() -> None:
    text = render_text(status_parts(BUSY))
    assert all(f"ewc seed {i}" in text for i in range(9))
    assert "abandoned: stream/mlp/seed-3, checkpoint of 2 h ago" in text
    assert text.count("too large") == 20


def test_nothing_is_drawn_without_a_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for quiet in (False, True):
        with live(tmp_path, quiet):
            pass
    assert capfd.readouterr().err == ""


def test_a_lease_says_what_its_holder_does_and_keeps_its_length(tmp_path: Path) -> None:
    lease = leases.take(tmp_path / "a.lease")
    assert lease is not None
    size = lease.path.stat().st_size
    for text in ("session 3/11", 'long "' * 20, "Ω"):
        lease.note(text)
        lease.beat()
        assert lease.path.stat().st_size == size
        assert lease.is_mine()
    lease.release()
