"""What breaks, hangs, is killed or is missing while `benchmarks/gpu.py` runs: real processes."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    said = one.ask(steps["breaks"], 20)["error"]
    assert said.startswith("ValueError: too bad (strange_steps.py:")
    assert one.alive
    said = one.ask(steps["poisons"], 20)["error"]
    assert said.startswith("RuntimeError: CUDA error: an illegal")
    assert not one.alive  # a broken context is left behind
    two = worker()
    assert two.ask(steps["dies"], 20)["error"] == "the process ended"
    three = worker()
    assert three.ask(steps["hangs"], 1)["late"]
    assert not three.alive


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


def call(out: Path, *words: str) -> subprocess.Popen[str]:
    """Start the command as a user does, from an empty directory."""
    command = [sys.executable, str(BENCHMARKS / "gpu.py"), "--device", "cpu", "--toy"]
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    (out.parent / "empty").mkdir(exist_ok=True)
    return subprocess.Popen(
        [*command, "--out", str(out), *words], text=True, env=env, cwd=out.parent / "empty",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def done(out: Path) -> dict[str, Any]:
    file = out / "gpu.json"
    found: dict[str, Any] = json.loads(file.read_text())["steps"] if file.exists() else {}
    return found


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_killed_in_the_middle_and_taken_up_again(how: signal.Signals, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = call(out, "--parts", "answers", "runs/permuted")
    assert _soon(lambda: len(done(out)) >= 3)
    first.send_signal(how)
    first.communicate()
    before = done(out)
    second = call(out, "--parts", "answers/embeddings", "runs/permuted/epochs")
    said, _ = second.communicate()
    assert second.returncode == 0, said
    after = done(out)
    assert {name: after[name] for name in before} == before
    new = {name for name, step in after.items() if step["call"] == 2}
    assert new.isdisjoint(before)
    assert all(f"{name}: done" in said for name in new)
    assert not any(f"{name}: done" in said for name in before)
    assert "runs/permuted/epochs" in after
    assert "not chosen by --parts" in (out / "gpu.md").read_text()
