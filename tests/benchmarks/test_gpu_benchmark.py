"""`benchmarks/gpu.py` at toy size: stopped, killed, broken, and taken up again."""

import importlib
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gpu
import pytest
from gpu_parts.machine import describe
from gpu_parts.state import State
from gpu_parts.step import Bench, Step
from gpu_parts.worker import Worker
from pretend_card import pretended_card

NOTHING: Any = lambda bench: []  # noqa: E731
DONE = {"figures": [], "seconds": 1.0}


def state_in(out: Path) -> State:
    state = State(out, "cpu", False)
    state.begin({"date": "today", "card": "cpu"})
    return state


def driven(
    plan: list[Step], state: State, seconds: float, answers: dict[str, dict[str, Any]] | None = None
) -> tuple[list[str], list[str]]:
    """The steps that were asked, and the parts for which a process was started.

    Its worker answers as `answers` say: an answer, or what it is, a step.
    """
    asked: list[str] = []
    started: list[str] = []

    def start(part: str) -> Any:
        def ask(step: Step, seconds: float) -> dict[str, Any]:
            asked.append(step.name)
            answer = {**(answers or {}).get(step.name, DONE)}
            worker.alive = not (answer.get("late") or answer.pop("dies", False))
            return answer

        started.append(part)
        worker = SimpleNamespace(ask=ask, alive=True, end=lambda: None)
        return worker

    end = time.monotonic() + seconds
    gpu.drive(plan, state, end, start, lambda: state.save(0.0))
    return asked, started


def test_what_does_not_fit_waits_for_the_next_call(tmp_path: Path) -> None:
    plan = [Step("a/1", 10, NOTHING), Step("a/2", 1000, NOTHING), Step("b/1", 5, NOTHING)]
    state = state_in(tmp_path)
    assert driven(plan, state, 100) == (["a/1", "b/1"], ["a", "b"])
    assert state.missing == {"a/2": "time is up: about 1000 s are needed, 100 were left"}
    again = state_in(tmp_path)
    assert driven(plan, again, 2000) == (["a/2"], ["a"])
    assert again.missing == {}
    assert {n: step["call"] for n, step in again.steps.items()} == {"a/1": 1, "b/1": 1, "a/2": 2}
    assert driven(plan, state_in(tmp_path), 2000) == ([], [])


def test_a_step_that_breaks_or_dies_is_a_line_and_the_others_go_on(tmp_path: Path) -> None:
    plan = [Step(f"a/{i}", 1, NOTHING) for i in range(4)]
    broken = {"a/1": {"error": "ValueError: x", "seconds": 1.0},
              "a/2": {"error": "signal 11", "seconds": 1.0, "dies": True}}  # fmt: skip
    state = state_in(tmp_path)
    assert driven(plan, state, 1000, broken) == (["a/0", "a/1", "a/2", "a/3"], ["a", "a"])
    assert [name for name, step in state.steps.items() if "error" in step] == ["a/1", "a/2"]
    assert driven(plan, state_in(tmp_path), 1000) == ([], [])  # not again unasked


def test_what_is_cut_off_is_missing_and_what_hangs_is_not_repeated(tmp_path: Path) -> None:
    plan = [Step("a/1", 50, NOTHING)]
    state = state_in(tmp_path)
    driven(plan, state, 100, {"a/1": {"late": True, "seconds": 100.0}})
    assert state.steps == {}
    assert state.missing == {"a/1": "time is up: cut off after 100 s"}
    again = state_in(tmp_path)
    driven(plan, again, 5000, {"a/1": {"late": True, "seconds": 165.0}})
    assert again.steps["a/1"]["error"] == "hung: killed after 165 s"


def test_another_kind_of_measurement_is_refused(tmp_path: Path) -> None:
    state_in(tmp_path).save(0.0)
    for device, toy in (("cuda", False), ("cpu", True)):
        with pytest.raises(SystemExit, match="was made with --device cpu; give another --out"):
            State(tmp_path, device, toy)


# Left out: steps that start processes or compile, which a pretended card cannot follow.
STEPS = {step.name: step for part in gpu.PARTS for step in gpu.steps_of(part)}
ELSEWHERE = {"extraction/kill", "images/resnet32/all", *(f"runs/cells/{n}" for n in (2, 4, 8))}
OFTEN = {"answers/embeddings/ncm", "conformance/ncm", "runs/permuted/epochs"}


@pytest.mark.parametrize(
    "name",
    [
        n if n in OFTEN else pytest.param(n, marks=pytest.mark.long)
        for n in STEPS
        if n not in ELSEWHERE and "compile" not in n
    ],
)
def test_a_step_runs_at_toy_size_on_a_pretended_card(name: str, tmp_path: Path) -> None:
    with pretended_card():
        assert describe("cuda")["card"] == "a pretended card"
        figures = STEPS[name].run(Bench("cuda", True, tmp_path))
    assert figures
    assert all(f.what and f.figure and ((f.holds is None) or f.aim) for f in figures)
    if name.startswith("answers"):
        assert figures[0].values["equal"] == 1
        assert figures[0].values["repeats"]


SHORT = (
    "answers/label-sets/mlp",
    "extraction/resnet50/bits",
    "runs/cells/1",
    "images/resnet32/plain",
)


@pytest.mark.parametrize("name", SHORT)
def test_a_step_of_every_part_runs_on_the_cpu(name: str, tmp_path: Path) -> None:
    figures = STEPS[name].run(Bench("cpu", True, tmp_path))
    assert figures
    assert not name.startswith("answers") or all(f.holds for f in figures)  # as the CPU does


SCRIPT = """
import os, time
from gpu_parts.step import Figure, Step

def prints(bench):
    os.system("echo noise")
    return [Figure("a thing", "1 s", "2 s", True)]

def breaks(bench):
    raise ValueError("too bad\\nreally")

def poisons(bench):
    raise RuntimeError("CUDA error: an illegal memory access was encountered")

def dies(bench):
    os.kill(os.getpid(), 9)

def hangs(bench):
    time.sleep(1000)

def steps():
    return [Step(f.__name__, 1, f) for f in (prints, breaks, poisons, dies, hangs)]
"""


def test_a_worker_answers_in_any_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "strange_steps.py").write_text(SCRIPT)
    monkeypatch.syspath_prepend(str(tmp_path))
    steps = {step.name: step for step in importlib.import_module("strange_steps").steps()}
    one, two, three = (Worker(Bench("cpu", True, tmp_path)) for _ in range(3))
    assert one.ask(steps["prints"], 20)["figures"][0]["figure"] == "1 s"
    assert one.ask(steps["breaks"], 20)["error"].startswith("ValueError: too bad (strange_steps.py")
    assert one.alive
    assert one.ask(steps["poisons"], 20)["error"].startswith("RuntimeError: CUDA error: an illegal")
    assert not one.alive  # a broken context is left behind
    assert two.ask(steps["dies"], 20)["error"] == "the process ended"
    assert three.ask(steps["hangs"], 1)["late"]
