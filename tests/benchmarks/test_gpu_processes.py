"""What breaks, hangs, is killed or is missing while `benchmarks/gpu.py` runs: real processes."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_parts.step import Bench
from gpu_parts.worker import Worker

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
