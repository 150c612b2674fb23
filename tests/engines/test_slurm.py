"""Cells as submitit's jobs, by its local executor: jobs outlive the process that submitted them."""

import re
import time
from pathlib import Path

import pytest
from engine_tasks import die, write_late
from small_grid import check_same, expected, small_grid

from embedbench.engines.engine import Engine
from embedbench.engines.engine_tasks import LostTaskError
from embedbench.runs.grid_scheduler import run_grid
from embedbench.storage import user_cache

pytest.importorskip("submitit")
pytestmark = pytest.mark.long
LOCAL = ["cluster=local"]


def test_jobs_answer_fail_are_lost_and_go_on(tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt), _jobs(said) as executor:  # noqa: PT012
        assert executor is not None
        wrong, lost = executor.submit(int, "x"), executor.submit(die)
        with pytest.raises(ValueError, match=r"^invalid literal for int\(\) with base 10: 'x'$"):
            wrong.result()
        with pytest.raises(LostTaskError, match=r"ended 2 times; .*See /"):
            lost.result()
        late = executor.submit(write_late, str(tmp_path / "late"))
        while not (tmp_path / "late.begun").exists():
            time.sleep(0.02)
        raise KeyboardInterrupt
    assert not late.done()
    assert re.fullmatch(r"1 jobs go on, and the next run takes .* with: scancel \d+", said[0])
    while not (tmp_path / "late").exists():
        time.sleep(0.05)
    assert {
        path.stat().st_mode & 0o777 for path in (user_cache.directory() / "slurm").iterdir()
    } == {0o700}


def _jobs(said: list[str]):
    return Engine.parse("slurm", None, LOCAL).executor(3, said.append)


def test_jobs_give_the_same_bytes(tmp_path: Path) -> None:
    cells = small_grid(tmp_path, [0])
    good = expected(cells, tmp_path / "good")
    outcome = run_grid(cells, tmp_path / "jobs", engine=Engine.parse("slurm", None, LOCAL))
    check_same(outcome, cells, tmp_path / "jobs", good)
