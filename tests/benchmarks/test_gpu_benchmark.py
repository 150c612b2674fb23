"""`benchmarks/gpu.py` at toy size on the CPU: stopped, killed, broken, and taken up again."""

import sys
import time
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import gpu  # noqa: E402  (the path is set above)
from gpu_parts.machine import describe, without  # noqa: E402  (the path is set above)
from gpu_parts.state import State  # noqa: E402  (the path is set above)
from gpu_parts.step import Bench, Figure, Step, there  # noqa: E402  (the path is set above)
from gpu_parts.table import markdown  # noqa: E402  (the path is set above)

NOTHING: Any = lambda bench: []  # noqa: E731
DONE = {"figures": [], "seconds": 1.0}


class Puppet:
    """A worker that answers as it is told: an answer, or what it is, a step."""

    def __init__(self, answers: dict[str, dict[str, Any]], asked: list[str]) -> None:
        self.answers, self.asked, self.alive = answers, asked, True

    def ask(self, step: Step, seconds: float) -> dict[str, Any]:
        self.asked.append(step.name)
        answer = dict(self.answers.get(step.name, DONE))
        self.alive = not (answer.get("late") or answer.pop("dies", False))
        return answer

    def end(self) -> None:
        self.alive = False


def state_in(out: Path) -> State:
    state = State(out, "cpu", False)
    state.begin({"date": "today", "card": "cpu"})
    return state


def driven(
    plan: list[Step], state: State, seconds: float, answers: dict[str, dict[str, Any]] | None = None
) -> tuple[list[str], list[str]]:
    """The steps that were asked, and the parts for which a process was started."""
    asked: list[str] = []
    started: list[str] = []

    def start(part: str) -> Any:
        started.append(part)
        return Puppet(answers or {}, asked)

    end = time.monotonic() + seconds
    gpu.drive(plan, state, end, start, lambda: state.save(0.0))
    return asked, started


def test_what_does_not_fit_waits_for_the_next_call(tmp_path: Path) -> None:
    plan = [Step("a/1", 10, NOTHING), Step("a/2", 1000, NOTHING), Step("b/1", 5, NOTHING)]
    state = state_in(tmp_path)
    assert driven(plan, state, 100) == (["a/1", "b/1"], ["a", "b"])
    assert state.missing == {
        "a/2": "time is up: about 1000 s are needed, 100 were left",
    }
    again = state_in(tmp_path)
    assert driven(plan, again, 2000) == (["a/2"], ["a"])
    assert again.missing == {}
    assert {name: step["call"] for name, step in again.steps.items()} == {
        "a/1": 1, "b/1": 1, "a/2": 2,
    }  # fmt: skip
    assert driven(plan, state_in(tmp_path), 2000) == ([], [])


def test_a_step_that_breaks_or_dies_is_a_line_and_the_others_go_on(tmp_path: Path) -> None:
    plan = [Step(f"a/{i}", 1, NOTHING) for i in range(4)]
    broken = {"a/1": {"error": "ValueError: x", "seconds": 1.0},
              "a/2": {"error": "signal 11", "seconds": 1.0, "dies": True}}  # fmt: skip
    state = state_in(tmp_path)
    assert driven(plan, state, 1000, broken) == (["a/0", "a/1", "a/2", "a/3"], ["a", "a"])
    assert [name for name, step in state.steps.items() if "error" in step] == ["a/1", "a/2"]
    assert driven(plan, state_in(tmp_path), 1000) == ([], [])  # not again unasked


def test_what_is_cut_off_is_missing(tmp_path: Path) -> None:
    step = Step("a/1", 50, NOTHING)
    state = state_in(tmp_path)
    driven([step], state, 100, {"a/1": {"late": True, "seconds": 100.0}})
    assert "a/1" not in state.steps
    assert state.missing["a/1"] == "time is up: cut off after 100 s"
    assert driven([step], state_in(tmp_path), 100)[0] == ["a/1"]


def test_what_hangs_is_killed_and_not_repeated(tmp_path: Path) -> None:
    state = state_in(tmp_path)
    driven([Step("a/1", 30, NOTHING)], state, 5000, {"a/1": {"late": True, "seconds": 105.0}})
    assert state.steps["a/1"]["error"] == "hung: killed after 105 s"


def test_what_needs_a_missing_module_is_left_out(tmp_path: Path) -> None:
    state = state_in(tmp_path)
    plan = [Step("a/1", 1, NOTHING, ("no_such_module",)), Step("a/2", 1, NOTHING, ("json",))]
    assert driven(plan, state, 1000)[0] == ["a/2"]
    assert state.missing == {"a/1": "needs no_such_module, which is missing"}
    assert there("json")
    assert not there("no_such_module.inside")


def test_another_kind_of_measurement_is_refused(tmp_path: Path) -> None:
    state_in(tmp_path).save(0.0)
    with pytest.raises(SystemExit, match="was made with --device cpu; give another --out"):
        State(tmp_path, "cuda", False)
    with pytest.raises(SystemExit):
        State(tmp_path, "cpu", True)


def test_the_page_says_what_was_measured_and_what_was_not(tmp_path: Path) -> None:
    state = State(tmp_path, "cuda", False)
    call = {**describe("cpu"), "card": "H100", "without": {"numba": "x"}}
    state.begin(call)
    figures = [
        Figure("speed|of", "3 s", "2 s", False, "slow").__dict__,
        Figure("size", "3 MB").__dict__,
    ]
    state.done("answers/a", {"figures": figures, "seconds": 2.0})
    state.done("answers/b", {"error": "ValueError: no", "seconds": 1.0})
    state.missing.update({"answers/c": "time is up", "answers/d": "time is up"})
    names = [f"answers/{x}" for x in "abcd"]
    page = markdown(state.data, names, {"answers": "Answers"})
    assert "| answers/a | speed\\|of | 3 s | 2 s | **missed** | slow | 2.0 | 1 |" in page
    assert "| answers/a | size | 3 MB |  | no aim |  | 2.0 | 1 |" in page
    assert "| answers/b |  |  |  | **broke** | ValueError: no | 1.0 | 1 |" in page
    assert "| answers/c, answers/d |  |  |  | not run | time is up |  |  |" in page
    assert "2 of 4 steps were run: 0 aims hold, 1 are missed, 1 steps broke." in page
    assert "| 1 | " in page
    assert "Without `numba`:" in page


def test_what_is_there_is_not_called_missing() -> None:
    assert not {"scipy", "numba", "pytest"} & set(without())


STEPS = (
    "answers/embeddings/ncm", "answers/layers/fr", "answers/label-sets/mlp", "answers/images/mlp",
    "extraction/resnet50/bfloat16", "extraction/resnet50/bits",
    "runs/permuted/epochs", "runs/cells/1", "images/resnet32/plain", "conformance/ncm",
)  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_a_step_of_every_part_runs_at_toy_size(name: str, tmp_path: Path) -> None:
    (step,) = (s for s in gpu.steps_of(name.partition("/")[0]) if s.name == name)
    bench = Bench("cpu", True, tmp_path)
    figures = step.run(bench)
    assert figures
    for figure in figures:
        assert figure.what
        assert figure.figure
        assert (figure.holds is None) or figure.aim
    if not name.startswith(("extraction/resnet50/b", "runs", "images")):
        assert all(f.holds for f in figures)  # the CPU answers as the CPU does


def test_every_learner_has_its_steps() -> None:
    names = {step.name for part in gpu.PARTS for step in gpu.steps_of(part)}
    assert {"answers/embeddings/geppnet", "answers/images/er", "conformance/fr"} <= names
    assert "answers/embeddings/fr" not in names  # it takes layers
    every = [step for part in gpu.PARTS for step in gpu.steps_of(part)]
    assert len(names) == len(every)
