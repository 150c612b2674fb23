"""Cells on a Ray cluster of several nodes on this machine; nodes and drivers are killed."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_tasks import die
from small_grid import answers, check_same, expected, small_grid, words

from embedbench.engines.engine import Engine
from embedbench.engines.engine_tasks import LostTaskError
from embedbench.runs.grid_scheduler import run_grid
from embedbench.runs.run_spec import RunSpec

pytest.importorskip("ray")
pytestmark = pytest.mark.long
SEEDS = range(20)


def start_cluster(folder: str) -> Any:
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    Path(tempfile.gettempdir(), "ray").mkdir(exist_ok=True)  # Ray notes an address there
    node = {"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}
    return Cluster(initialize_head=True, head_node_args={**node, "temp_dir": folder})


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    folder = tempfile.mkdtemp(prefix="eb-")  # sockets lie there, whose paths are short
    made = start_cluster(folder)
    try:
        made.add_node(num_cpus=1, object_store_memory=80_000_000)
        made.wait_for_nodes()
        os.environ["RAY_ADDRESS"] = made.address
        yield made
    finally:
        os.environ.pop("RAY_ADDRESS", None)
        made.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[RunSpec]:
    return small_grid(tmp_path_factory.mktemp("file"), SEEDS)


@pytest.fixture(scope="module")
def good(cells: list[RunSpec], tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return expected(cells, tmp_path_factory.mktemp("good"))


def test_a_lost_node(cluster: Any, cells: Any, good: Any, tmp_path: Path, capfd: Any) -> None:
    third = cluster.add_node(num_cpus=1, object_store_memory=80_000_000)
    cluster.wait_for_nodes()
    killed = []

    def progress(_: str, done: int, total: int) -> None:
        if done >= total // 4 and not killed:
            killed.append(done)
            cluster.remove_node(third, allow_graceful=False)

    assert len(cells) == 40
    outcome = run_grid(cells, tmp_path, engine=Engine.parse("ray"), progress=progress)
    assert killed
    assert killed[0] < len(good)
    check_same(outcome, cells, tmp_path, good)
    assert capfd.readouterr() == ("", "")  # Ray has pages on a lost node


def test_a_driver_that_was_killed(cluster: Any, cells: Any, good: Any, tmp_path: Path) -> None:
    line = [*words(cells, "0-19", tmp_path), "--engine", "ray"]
    with (tmp_path.parent / "printed").open("w") as printed:
        line = [sys.executable, "-m", "embedbench", *line]
        driver = subprocess.Popen(line, stdout=printed, stderr=printed)
        while len(answers(tmp_path)) < 5:
            assert driver.poll() is None, (tmp_path.parent / "printed").read_text()
            time.sleep(0.01)
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    time.sleep(3)  # Ray ends the tasks of a driver that has ended
    there = answers(tmp_path)
    assert 5 <= len(there) < len(good)
    time.sleep(1)
    assert answers(tmp_path) == there
    outcome = run_grid(cells, tmp_path, engine=Engine.parse("ray"))
    assert outcome.skipped == len(there)
    check_same(outcome, cells, tmp_path, good)


def test_errors_are_those_of_this_machine_and_a_lost_task_is_named(cluster: Any) -> None:
    with Engine.parse("ray").executor(2) as executor:
        wrong, lost = executor.submit(int, "x"), executor.submit(die)
        with pytest.raises(ValueError, match=r"^invalid literal for int\(\) with base 10: 'x'$"):
            wrong.result()
        with pytest.raises(LostTaskError, match="ended 4 times"):
            lost.result()
