"""Cells as submitit's jobs, by its local executor: jobs outlive the process that submitted them."""

import re
import time
from pathlib import Path

import pytest
from engine_tasks import die, write_late

from embedbench.engines.engine import Engine
from embedbench.engines.engine_tasks import LostTaskError
from embedbench.storage import user_cache

pytest.importorskip("submitit")
pytestmark = pytest.mark.long


def test_jobs_answer_fail_are_lost_and_go_on(tmp_path: Path) -> None:
    said: list[str] = []
    jobs = Engine.parse("slurm", None, ["cluster=local"]).executor(3, said.append)
    with pytest.raises(KeyboardInterrupt), jobs as executor:  # noqa: PT012
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
    folders = (user_cache.directory() / "slurm").iterdir()
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}
