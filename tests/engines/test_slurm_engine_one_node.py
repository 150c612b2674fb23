"""Cells as jobs of a real SLURM: its time limit, requeue, preemption and scancel; a killed driver.

It has one node, this machine, and no accounting. Several nodes, GPUs, a site's limits on arrays and
`slurmdbd` are not tried here.
"""

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from image_files import embedding_file
from one_node_slurm import missing, one_node_slurm, said
from plan_runs import plan
from slow_learner import PAUSE
from small_grid import answers, check_same, expected, small_grid

from embedbench.engines import slurm_engine
from embedbench.engines.engine import Engine
from embedbench.runs.checkpoint import saved_at
from embedbench.runs.grid_scheduler import Outcome, run_grid
from embedbench.runs.run_spec import RunSpec
from embedbench.runs.runs_status import status
from embedbench.scores import record_files
from embedbench.storage import user_cache

pytest.importorskip("submitit")
NONE = pytest.mark.skipif(bool(missing()), reason=f"a SLURM of one node: {missing()}")
pytestmark = [pytest.mark.long, NONE]
SLOW = "slow_learner:Slow"
ITEMS = (f"{SLOW}.stop.rule=epochs", f"{SLOW}.stop.epochs=20", f"{SLOW}.units=8", "references=0")


@pytest.fixture(scope="module", autouse=True)
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """SLURM, with a `sacct` that says when it is asked."""
    tools = tmp_path_factory.mktemp("tools")
    (tools / "sacct").write_text(f"#!/bin/sh\ntouch {tools}/asked\nexit 1\n")
    (tools / "sacct").chmod(stat.S_IRWXU)
    with pytest.MonkeyPatch.context() as patch, one_node_slurm():
        patch.setenv("PATH", str(tools), prepend=os.pathsep)
        patch.setattr(slurm_engine, "LOOK", 1.0)
        yield tools
    assert not (tools / "asked").exists()


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[RunSpec]:
    file = str(embedding_file(tmp_path_factory.mktemp("file")).path)
    settings = list(ITEMS)
    return plan([file], "incremental-class", [SLOW], [0, 1], settings, checkpoint=1.0)


@pytest.fixture(scope="module")
def good(cells: list[RunSpec], tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return expected(cells, tmp_path_factory.mktemp("good"))


class Running:
    def __init__(self, cells: list[RunSpec], out: Path, *settings: str) -> None:
        self.cells, self.out = cells, out
        engine = Engine.parse("slurm", None, settings)
        self._pool = ThreadPoolExecutor(1)
        self._outcome: Future[Outcome] = self._pool.submit(run_grid, cells, out, engine=engine)

    def wait(self, ready: Callable[[], bool]) -> None:
        """Wait for a moment of the run, which must come before its end."""
        wait(lambda: self._outcome.done() or ready())
        assert not self._outcome.done(), self._outcome.result()

    def saved(self) -> bool:
        """Whether there is a checkpoint of each cell."""
        partial = self.out.rglob(".*.partial")
        return len([path for path in partial if saved_at(path)]) == len(self.cells)

    def check(self, good: dict[str, bytes], resumed: int) -> None:
        """The same bytes are there, by runs that went on so often, and nothing beside them."""
        outcome = self._outcome.result(timeout=400)
        check_same(outcome, self.cells, self.out, good)
        assert min(record_files.load(place).resumed for place in outcome.run_dirs) >= resumed
        assert not list((user_cache.directory() / "slurm").iterdir())
        self._pool.shutdown()


def wait(ready: Callable[[], bool], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.1)


def jobs() -> list[str]:
    return said("squeue", "--noheader", "--array", "--format=%i").split()


def test_an_array_of_jobs_gives_the_same_bytes(tmp_path: Path) -> None:
    grid = small_grid(tmp_path, [0])
    good = expected(grid, tmp_path / "good")
    running = Running(grid, tmp_path / "jobs", "array_parallelism=2,partition=main")
    running.wait(lambda: any("_" in job for job in jobs()))
    running.check(good, 0)


def test_a_job_whose_time_is_over(cells: Any, good: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """A run takes 100 seconds and more, a job has sixty, which SLURM may stretch to ninety."""
    monkeypatch.setenv(PAUSE, "0.9")
    Running(cells, tmp_path, "time=1m").check(good, 1)


def requeue(running: Running) -> None:
    first = jobs()
    for job in first:
        said("scontrol", "requeue", job)
    running.wait(lambda: not status(running.out).running)
    assert sorted(jobs()) == sorted(first)


def preempt(running: Running) -> None:
    urgent = ("--partition=high", "--cpus-per-task=2", "--output=/dev/null", "--wrap=sleep 5")
    assert "Submitted" in said("sbatch", *urgent)
    running.wait(lambda: "RUNNING" in said("squeue", "-h", "--partition=high", "--format=%T"))
    assert not status(running.out).running


def cancel(running: Running) -> None:
    first = jobs()
    said("scancel", *first)
    running.wait(lambda: bool(jobs()) and not set(jobs()) & set(first))


@pytest.mark.parametrize("end", [requeue, preempt, cancel])
def test_end(end: Any, cells: Any, good: Any, tmp_path: Path, monkeypatch: Any, capfd: Any) -> None:
    monkeypatch.setenv(PAUSE, "0.3")
    running = Running(cells, tmp_path)
    running.wait(running.saved)
    assert len(status(tmp_path).running) == 2  # `runs status`
    end(running)
    running.check(good, 1)
    assert capfd.readouterr() == ("", "")


def test_a_driver_that_was_killed(cells: Any, good: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv(PAUSE, "0.3")
    out, printed = tmp_path / "runs", tmp_path / "printed"
    line = ["run", *cells[0].files, "--protocol", "incremental-class", "--learner", SLOW]
    line += [word for item in ITEMS for word in ("--set", item)]
    line += ["--seeds", "0-1", "--out", str(out), "--device", "cpu", "--engine", "slurm"]
    with printed.open("w") as file:
        driver = subprocess.Popen(
            [sys.executable, "-m", "embedbench", *line, "--checkpoint", "1"],
            stdout=file,
            stderr=file,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        wait(lambda: driver.poll() is not None or len(list(out.rglob("begun.json"))) == 2)
        assert driver.poll() is None, printed.read_text()
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    folder = user_cache.directory() / "slurm"
    assert len(jobs()) == 2
    outcome = run_grid(cells, out, engine=Engine.parse("slurm"))
    check_same(outcome, cells, out, good)
    assert {record_files.load(place).resumed for place in outcome.run_dirs} == {0}
    (left,) = folder.iterdir()  # that of the killed driver
    shutil.rmtree(left)
    assert answers(out) == good
