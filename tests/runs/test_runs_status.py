"""What is said of a directory of runs: from finished runs, leases and checkpoints."""

import csv
import io
import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from commands import Call
from small_grid import tree

from embedbench.cli.runs_commands import status_parts
from embedbench.runs import runs_status
from embedbench.runs.run_dirs import checkpoint_path
from embedbench.runs.runs_status import AbandonedRun, Running, Status
from embedbench.storage import leases
from embedbench.text.terminal_text import render_text


def test_finished_running_and_abandoned_runs(tmp_path: Path) -> None:
    place = {n: tmp_path / "stream-1" / "mlp-2" / f"seed-{n}" for n in range(5)}
    for n in (0, 1):
        place[n].mkdir(parents=True)
        (place[n] / "record.json").write_text("{}")
    (place[0] / "predictions.h5").write_text("")  # only this one is whole
    held = leases.take(leases.lease_path(place[2]))
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
    assert first.run == "stream-1/mlp-2/seed-2"
    assert first.pid == os.getpid()
    assert first.session == 3  # two are done
    assert first.sessions == 5
    assert 10 <= first.seconds <= 15  # two moves of the counter
    assert second.host == "north"
    assert second.session is None
    (left,) = now.abandoned
    assert left.run == "stream-1/mlp-2/seed-3"
    assert left.seconds == pytest.approx(500, abs=60)
    stale = time.time() - leases.PATIENCE - 5
    os.utime(leases.lease_path(place[4]), (stale, stale))
    os.utime(checkpoint_path(place[3]), (0, time.time() + 500))  # by the clock of a server
    left, stale_one = runs_status.status(tmp_path).abandoned
    assert left.run[-6:] == "seed-3"
    assert left.seconds == 0.0
    assert stale_one.run[-6:] == "seed-4"
    assert tree(tmp_path) == before
    held.note("session 5/5")
    held.beat()
    assert runs_status.status(tmp_path).running[0].session == 5  # it is at its end
    held.release()


@pytest.mark.parametrize("counter", ["9" * 400, "-000000001", "\u0663" * 10])
def test_a_counter_that_no_process_writes(counter: str, tmp_path: Path) -> None:
    lease = leases.Lease(tmp_path / ".seed-0.lease")
    elsewhere = replace(lease._holder, machine="another", counter=counter)
    lease.path.write_text(json.dumps(elsewhere.to_json()))
    (running,) = runs_status.status(tmp_path).running
    assert running.seconds <= leases.BEAT


def test_the_status_names_every_run() -> None:
    running = [
        Running(run=f"s/ewc/seed-{i}", host="north.net", pid=i, seconds=60.0 * i, session=i or None)
        for i in range(9)
    ]
    running[3] = replace(running[3], sessions=9)
    left = AbandonedRun(run="s/mlp/seed-3", seconds=7200)
    text = render_text(status_parts(Status(finished=60, running=tuple(running), abandoned=(left,))))
    assert text.startswith("60 finished · 9 running · 1 abandoned")
    rows = [" ".join(row.split()) for row in text.splitlines()[2:]]
    assert rows[0] == "s/ewc/seed-0 – 0:00:00 0 on north"
    assert rows[3] == "s/ewc/seed-3 3 of 9 0:03:00 3 on north"
    assert all(run.run in text for run in running)
    assert "abandoned: s/mlp/seed-3, checkpoint of 2:00:00 ago" in text
    assert render_text(status_parts(Status(finished=3))).strip() == "3 finished"


def test_a_lease_says_what_its_holder_does_and_keeps_its_length(tmp_path: Path) -> None:
    lease = leases.take(tmp_path / "a.lease")
    size = lease.path.stat().st_size
    for text in ("session 3/11", 'long "' * 20, "Ω"):
        lease.note(text)
        lease.beat()
        assert lease.path.stat().st_size == size
        assert lease.is_mine()
    lease.release()


def _search(root: Path, doing: str) -> leases.Lease:
    """A search at work, as `tune` holds it."""
    (root / "tuning").mkdir()
    held = leases.take(root / "tuning" / ".ewc-1a2b3c4d.json.lease")
    assert held is not None
    held.note(doing)
    held.beat()
    return held


def test_a_search_at_work_and_its_trials(tmp_path: Path) -> None:
    with _search(tmp_path, "trials 3/36"):
        (running,) = runs_status.status(tmp_path).running
    trials = running.trials_done, running.trials
    assert (running.run, *trials) == ("tuning/ewc-1a2b3c4d.json", 3, 36)


def test_the_status_names_a_search(tmp_path: Path) -> None:
    with _search(tmp_path, "trials 3/36"):
        text = render_text(status_parts(runs_status.status(tmp_path)))
    assert "3 of 36 trials done" in text


def test_a_search_that_was_cut_off_is_abandoned(tmp_path: Path) -> None:
    (tmp_path / "tuning").mkdir()
    (tmp_path / "tuning" / ".ewc-1a2b3c4d.json.scores").write_text("{}")
    (left,) = runs_status.status(tmp_path).abandoned
    assert left.run == "tuning/ewc-1a2b3c4d.json"


def test_a_finished_search_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "tuning").mkdir()
    (tmp_path / "tuning" / "ewc-1a2b3c4d.json").write_text("{}")
    assert runs_status.status(tmp_path) == Status(finished=0)


def test_a_run_that_is_no_search_keeps_its_keys() -> None:
    run = Running(run="s/ewc/seed-1", host="north", pid=1, seconds=1.0)
    assert {*run.to_json()} == {"run", "host", "pid", "seconds", "session", "sessions"}


def test_those_of_some_runs_that_are_at_work(tmp_path: Path) -> None:
    mine, other, ended = (tmp_path / "stream" / "mlp" / f"seed-{n}" for n in range(3))
    mine.parent.mkdir(parents=True)
    with leases.take(leases.lease_path(mine)) as held, leases.take(leases.lease_path(other)):
        held.note("session 2/5")
        held.beat()
        ((run_dir, running),) = runs_status.at_work([mine, ended, tmp_path / "none" / "seed-0"])
    assert run_dir == mine
    assert running.session == 3
    assert running.sessions == 5


def test_the_csv_has_the_trials_of_a_search_beside_runs(call: Call, tmp_path: Path) -> None:
    run_dir = tmp_path / "a" / "seed-0"
    run_dir.parent.mkdir()
    with _search(tmp_path, "trials 3/36"), leases.take(leases.lease_path(run_dir)):
        _, out, _ = call("runs", "status", str(tmp_path), "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["session"], row.get("trials_done")) for row in rows] == [("", ""), ("", "3")]
