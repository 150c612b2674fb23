"""Cells on workers of other machines, which must see the runs directory."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from small_grid import answers, check_same, expected, open_cells, small_grid

from embedbench.engines.engine import Engine
from embedbench.runs import grid_scheduler
from embedbench.runs.grid_scheduler import run_grid
from embedbench.runs.run_dirs import run_at
from embedbench.runs.run_task import Task, make_task
from embedbench.runs.stream_cache import StreamCache
from embedbench.scores import record_files
from embedbench.storage import user_cache


class Far(Executor):
    """Runs calls here, after `before`; it stands for a machine elsewhere."""

    def before(self, call: Any) -> Any:
        return call

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(self.before(fn)(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Blind(Far):
    def before(self, call: Any) -> Any:
        return replace(call, task=replace(call.task, root=call.task.root / "elsewhere"))


class OtherNumbers(Far):
    """Its worker has another number for the device of the runs directory."""

    def before(self, call: Any) -> Any:
        here = user_cache.identity
        return mock.patch.object(user_cache, "identity", lambda path: f"9{here(path)}")(call)


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Far]], Engine]:
    def made(kind: type[Far]) -> Engine:
        monkeypatch.setattr("embedbench.plugins.load", lambda *_: lambda *_: kind())
        monkeypatch.setattr(Engine, "kind", "far")
        monkeypatch.setattr(Engine, "is_local", False)
        return Engine("tests:far")

    return made


def test_workers_give_the_same_bytes(use: Any, tmp_path: Path) -> None:
    engine, cells = use(Far), small_grid(tmp_path, [0, 1])
    good = expected(cells, tmp_path / "good")
    root = tmp_path / "runs"
    outcome = run_grid(cells, root, engine=engine)
    check_same(outcome, cells, root, good)
    sources = [record_files.load(place).reference.source for place in outcome.run_dirs]
    assert sources == ["runs"] * 4  # references lie with the driver


def test_a_worker_that_does_not_see_the_directory_makes_nothing(use: Any, tmp_path: Path) -> None:
    cells = small_grid(tmp_path, [0])
    outcome = run_grid(cells, tmp_path / "runs", engine=use(Blind))
    assert len(outcome.failed) == 4
    assert outcome.bad_input
    assert "take an --out that all machines see" in outcome.failed[0][1]
    assert not answers(tmp_path)


def test_overwrite_on_another_machine_makes_the_runs_again(tmp_path: Path, use: Any) -> None:
    engine, cells = use(OtherNumbers), open_cells(tmp_path, seeds=[0])
    before = run_grid(cells, tmp_path / "runs", engine=engine)
    runs = {place: run_at(place) for place in before.run_dirs}
    after = run_grid(cells, tmp_path / "runs", engine=engine, overwrite=True)
    assert after.run_dirs == before.run_dirs
    assert all(run_at(place) not in (None, run) for place, run in runs.items())


def test_a_run_that_is_seen_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cell, *_) = small_grid(tmp_path, [0])
    (tmp_path / "runs").mkdir()
    task = make_task(cell, tmp_path / "runs", StreamCache())
    looks = iter([False, False, True])
    monkeypatch.setattr(Task, "is_done", lambda _: next(looks))
    monkeypatch.setattr(grid_scheduler.leases, "POLL", 0.0)
    assert not task.run_dir.parent.exists()
    assert grid_scheduler.take_reply(task, grid_scheduler.Reply(True, True, ()), print)
    monkeypatch.setattr(grid_scheduler, "SEEN", -1.0)
    looks = iter([False])
    with pytest.raises(grid_scheduler.UserError, match=r"seed-0, .* seen here"):
        grid_scheduler.take_reply(task, grid_scheduler.Reply(True, True, ()), print)
    monkeypatch.undo()
    said: list[str] = []
    reply = grid_scheduler.Reply(False, False, ("a", "b"))
    assert not grid_scheduler.take_reply(task, reply, said.append)
    assert said == ["a", "b"]


def test_a_file_that_is_another_where_the_worker_is(tmp_path: Path) -> None:
    (cell, *_) = small_grid(tmp_path, [0])
    (tmp_path / "a").mkdir()
    task = make_task(cell, tmp_path / "a", StreamCache())
    moved = replace(task, run_dir=task.run_dir.with_name("seed-7"))
    assert grid_scheduler.RemoteCall(task, 1).progress() == 0  # nothing is saved
    with pytest.raises(grid_scheduler.UserError, match=r"e\.h5: .* not the one"):
        grid_scheduler.RemoteCall(moved, 1)()
    assert not answers(tmp_path)
