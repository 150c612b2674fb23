"""Leases: one holder at a time, given up by whoever ends, taken over by one alone."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from file_helpers import failing

from embedbench.storage import leases


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """The clock of this process; it moves only by hand, and no counter moves."""
    clock = SimpleNamespace(now=0.0)
    time = SimpleNamespace(monotonic=lambda: clock.now, sleep=lambda _: None)
    monkeypatch.setattr(leases, "time", time)
    monkeypatch.setattr(leases, "_beat_all", lambda: None)
    yield clock
    leases._held.clear()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".a.lease"


def names(path: Path) -> list[str]:
    return sorted(p.name for p in path.parent.iterdir())


def elsewhere(path: Path, **changes: Any) -> dict[str, Any]:
    there = {"host": "north", "machine": "another", "pid": 7, "started": "1", "token": "t"}
    there |= {"counter": "0" * 10} | changes
    path.write_text(json.dumps(there))
    return there


def ended() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_lease_is_held_by_one_until_it_is_released(path: Path) -> None:
    with leases.take(path) as lease:
        assert leases.take(path) is None
        assert str(leases.holder(path)) == f"process {os.getpid()} on host {os.uname().nodename}"
        assert lease.is_mine()
    assert not lease.is_mine()
    assert names(path) == []
    assert lease.token not in leases._held
    lost = leases.take(path)  # one that was taken over is left alone
    there = elsewhere(path)
    lost.beat()
    lost.release()
    assert not lost.is_mine()
    assert json.loads(path.read_text()) == there


def test_a_counter_that_moves_keeps_a_lease(path: Path, clock: SimpleNamespace) -> None:
    lease = leases.take(path)
    before = (path.stat().st_size, os.listdir("/proc/self/fd"))
    for _ in range(5):
        assert leases.take(path) is None
        clock.now += leases.PATIENCE - 1
        lease.note("über\n{a/b.c-d} 0")
        lease.beat()
    assert (path.stat().st_size, os.listdir("/proc/self/fd")) == before  # no file is left open
    assert getattr(leases.holder(path), "doing", "") == f"{'?ber??a/b.c-d? 0':<32}"
    assert leases.take(path) is None


@pytest.mark.parametrize("damage", [None, b"", b"[1]", b'{"pid": "x"}', b"\xff", b"[" * 5000])
def test_one_that_does_not_move(path: Path, clock: SimpleNamespace, damage: bytes | None) -> None:
    """It is taken over by the clock of who wants it."""
    elsewhere(path)
    if damage is not None:
        path.write_bytes(damage)
    assert leases.take(path) is None
    clock.now += leases.PATIENCE - 0.1
    assert leases.take(path) is None
    clock.now += 0.1
    assert leases.take(path).is_mine()
    assert names(path) == [path.name]
    elsewhere(path, counter="12")
    assert getattr(leases.holder(path), "moves", None) == 0  # it has ten digits


def test_another_holder_is_waited_for_anew(path: Path, clock: SimpleNamespace) -> None:
    elsewhere(path)
    assert leases.take(path) is None
    clock.now += leases.PATIENCE - 1
    elsewhere(path, token="u")
    assert leases.take(path) is None
    clock.now += leases.PATIENCE - 1
    assert leases.take(path) is None
    path.unlink()
    assert leases.is_free(path)
    elsewhere(path, token="u")
    clock.now += 1
    assert leases.take(path) is None


def test_who_has_ended_holds_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere(path, machine=leases.machine_identity(), pid=ended())
    leases.take(path).release()
    # a process that was started since may have its number
    elsewhere(path, machine=leases.machine_identity(), pid=os.getpid(), started="1")
    assert leases.take(path).is_mine()
    monkeypatch.setattr(leases.os, "readlink", failing(OSError()))  # nothing tells the machine
    elsewhere(path, machine="", pid=ended())
    assert leases.machine_identity() == ""
    assert leases.take(path) is None


@pytest.mark.parametrize("pid", [0, -1, 2**62])
def test_no_process_of_that_number_can_be_seen(path: Path, pid: int) -> None:
    elsewhere(path, machine=leases.machine_identity(), pid=pid, host=f"a\x1b[2J{'b' * 99}")
    assert leases.take(path) is None
    assert str(leases.holder(path)) == f"process {pid} on host a[2J{'b' * 59}"


def test_one_of_many_takes_it_over(path: Path) -> None:
    pid = ended()
    for _ in range(50):
        elsewhere(path, machine=leases.machine_identity(), pid=pid)
        with ThreadPoolExecutor(8) as pool:
            got = [lease for lease in pool.map(lambda _: leases.take(path), range(8)) if lease]
        assert [lease.is_mine() for lease in got] == [True]
        got[0].release()
        assert not names(path)


def test_what_moved_meanwhile_is_put_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes think it abandoned; the first has it already when the second renames it."""
    elsewhere(path)
    first = []

    def abandoned(*_: Any) -> bool:
        if not first:
            first.append(None)
            first[0] = leases.take(path)
        return True

    monkeypatch.setattr(leases, "_is_abandoned", abandoned)
    assert leases.take(path) is None
    assert first[0].is_mine()
    assert names(path) == [path.name]


def test_no_beat_brings_back_what_was_renamed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken over between the look at the token and the move of the counter."""
    lost, there, writes = leases.take(path), list[Any](), os.pwrite

    def taken_over(*args: Any) -> int:
        path.rename(path.with_name("aside"))
        there.append(elsewhere(path))
        return writes(*args)

    monkeypatch.setattr(leases.os, "pwrite", taken_over)
    lost.beat()
    assert [json.loads(path.read_text())] == there


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to(path.parent)])
def test_what_is_no_file_hangs_nobody(path: Path, clock: SimpleNamespace, make: Any) -> None:
    make(path)
    assert leases.take(path) is None
    clock.now += leases.PATIENCE
    assert leases.take(path) is not None


def test_one_thread_moves_all_counters(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = iter([None])
    monkeypatch.setattr(leases, "time", SimpleNamespace(sleep=lambda _: next(turns)))
    monkeypatch.setattr(leases, "_hold", lambda lease: leases._held.update({lease.token: lease}))
    held = [leases.take(path.with_name(name)) for name in "ab"]
    with pytest.raises(StopIteration):
        leases._beat_all()
    for lease in held:
        assert getattr(leases.holder(lease.path), "moves", None) == 1
        lease.release()


def test_a_forked_process_moves_no_counter_of_its_parent(path: Path) -> None:
    with leases.take(path):
        child = os.fork()
        if child == 0:
            os._exit(len(leases._held))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_one_sentence_says_who_is_waited_for(path: Path, clock: SimpleNamespace) -> None:
    elsewhere(path)
    said: list[str] = []

    def wait(*looks: bool) -> leases.Lease | None:
        turns = iter(looks)
        return leases.wait(path, lambda: next(turns), "mlp seed 0", said.append)

    assert wait(False, False, False, True) is None
    path.unlink()
    lease = wait(False, False)
    assert lease.is_mine()
    lease.release()
    assert wait(False, True, True) is None  # it was made between a look and the lease
    assert not names(path)
    assert said == ["waiting for mlp seed 0, which process 7 on host north is making"]


def test_when_a_process_began() -> None:
    here = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    assert leases.process_start(os.getpid()) == here[19]  # field 22 of proc(5); two lie before
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert leases.process_start(process.pid) == "ended"
    process.wait()
    assert leases.process_start(process.pid) == ""
