"""Cells on workers of other machines, which must see the runs directory."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from small_grid import answers, check_same, expected, open_cells, small_grid

from embedbench.engines.engine import Engine
from embedbench.errors import UserError
from embedbench.runs import grid_scheduler, run_one
from embedbench.runs.grid_scheduler import run_grid
from embedbench.runs.run_dirs import run_at
from embedbench.runs.run_task import Task, make_task
from embedbench.runs.stream_cache import StreamCache
from embedbench.scores import record_files
from embedbench.storage import leases, user_cache


class Far(Executor):
    """Makes tasks here, each as it arrives; it stands for a machine elsewhere."""

    def arrive(self, task: Task) -> Task:
        return task

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(self.arrive(*args), **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Blind(Far):
    def arrive(self, task: Task) -> Task:
        return replace(task, root=task.root / "elsewhere")


class OtherNumbers(Far):
    """Its worker has another number for the device of the runs directory."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        here = user_cache.identity
        other = mock.patch.object(user_cache, "identity", lambda path: f"9{here(path)}")
        return super().submit(other(fn), *args, **kwargs)


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


@pytest.fixture
def task(tmp_path: Path) -> Task:
    (cell, *_) = small_grid(tmp_path, [0])
    (tmp_path / "runs").mkdir()
    return make_task(cell, tmp_path / "runs", StreamCache())


def looks(monkeypatch: pytest.MonkeyPatch, *seen: bool) -> list[bool]:
    """What each look at a run tells; returns those that are left."""
    left = list(seen)
    monkeypatch.setattr(Task, "is_done", lambda _: left.pop(0))
    monkeypatch.setattr(leases, "POLL", 0.0)
    return left


def test_a_run_that_is_seen_late_is_waited_for(task: Task, monkeypatch: Any) -> None:
    left = looks(monkeypatch, False, False, True)
    grid_scheduler.wait_until_seen(task)
    assert left == []


def test_a_run_that_is_never_seen_is_a_failure(task: Task, monkeypatch: Any) -> None:
    looks(monkeypatch, False)
    monkeypatch.setattr(grid_scheduler, "SEEN", -1.0)
    with pytest.raises(UserError, match=r"seed-0, .* seen here"):
        grid_scheduler.wait_until_seen(task)


def test_a_worker_hands_back_its_sentences(
    use: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = run_one.execute

    def talks(task: Task, notify: Any, *rest: Any) -> None:
        notify(f"{task.label} begins")
        execute(task, notify, *rest)

    monkeypatch.setattr(run_one, "execute", talks)
    said = list[str]()
    cells = open_cells(tmp_path, seeds=[0])
    run_grid(cells, tmp_path / "runs", engine=use(Far), notify=said.append)
    assert sorted(said) == ["chance seed 0 begins", "ncm seed 0 begins"]


def test_a_worker_that_finds_another_file_makes_nothing(task: Task) -> None:
    moved = replace(task, place=task.place.with_name("seed-7"))
    with pytest.raises(UserError, match=r"e\.h5: .* not the one"):
        run_one.run_away(moved)
    assert not answers(task.root)


def test_a_run_that_has_not_begun_has_saved_nothing(task: Task) -> None:
    assert task.progress() == 0


def test_a_run_grows_as_it_is_saved(task: Task) -> None:
    task.checkpoint.mkdir(parents=True)
    (task.checkpoint / "sessions").write_bytes(b"")
    assert task.progress() > 0


@pytest.mark.parametrize(("became", "waits"), [("made", True), ("there", True), ("held", False)])
def test_a_run_that_another_process_holds_is_not_waited_for(
    became: Any, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, seen = list[str](), list[Any]()
    task: Any = object()
    monkeypatch.setattr(grid_scheduler, "wait_until_seen", seen.append)
    grid: Any = SimpleNamespace(notify=said.append)
    assert grid_scheduler._Grid._take_answer(grid, task, became, ["a", "b"]) == became
    assert (said, seen) == (["a", "b"], [task] * waits)
