"""What breaks, hangs, is killed or is missing while `benchmarks/gpu.py` runs: real processes."""

import importlib
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from crowd import alive
from gpu_parts.step import Bench
from gpu_parts.worker import Worker

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SCRIPT = """
import os, time
from pathlib import Path
from gpu_parts.step import Figure, Step

def prints(bench):
    print("noise")
    os.system("echo more noise")
    return [Figure("a thing", "1 s", "2 s", True)]

def breaks(bench):
    raise ValueError("too bad\\nreally")

def poisons(bench):
    raise RuntimeError("CUDA error: an illegal memory access was encountered")

def dies(bench):
    os.kill(os.getpid(), 9)

def hangs(bench):
    (bench.scratch / "pid").write_text(str(os.getpid()))
    time.sleep(1000)

def steps():
    return [Step(f.__name__, 1, f) for f in (prints, breaks, poisons, dies, hangs)]
"""


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Worker]:
    (tmp_path / "strange_steps.py").write_text(SCRIPT)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "strange_steps", raising=False)
    return lambda: Worker(Bench("cpu", True, tmp_path))


def test_a_worker_answers_whatever_happens_in_it(worker: Callable[[], Worker]) -> None:
    steps = {step.name: step for step in importlib.import_module("strange_steps").steps()}
    one = worker()
    assert one.ask(steps["prints"], 20)["figures"][0]["figure"] == "1 s"
    assert one.ask(steps["breaks"], 20)["error"].startswith("ValueError: too bad (strange_steps.py")
    assert one.alive
    assert one.ask(steps["poisons"], 20)["error"].startswith("RuntimeError: CUDA error: an illegal")
    assert not one.alive  # a broken context is left behind
    assert worker().ask(steps["dies"], 20)["error"] == "the process ended"
    assert worker().ask(steps["hangs"], 1)["late"]


@pytest.mark.usefixtures("worker")
def test_a_worker_ends_with_its_parent(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
sys.path[:0] = [{str(BENCHMARKS)!r}, {str(tmp_path)!r}]
from gpu_parts.step import Bench
from gpu_parts.worker import Worker
from strange_steps import steps
if __name__ == "__main__":
    Worker(Bench("cpu", True, Path({str(tmp_path)!r}))).ask(steps()[-1], 100)
"""
    (tmp_path / "parent.py").write_text(code)
    parent = subprocess.Popen([sys.executable, str(tmp_path / "parent.py")])
    pid = tmp_path / "pid"
    assert _soon(lambda: pid.exists() and pid.read_text())
    parent.kill()
    parent.wait()
    assert not alive([int(pid.read_text())])


def _soon(what: Callable[[], object]) -> bool:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.05)
    return False
