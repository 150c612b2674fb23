"""The toy of `benchmarks/gpu.py` on a pretended card, one step of each kind in this process.

Left out: steps that start processes (`runs/cells/2` and more, `extraction/kill`) or compile, which
a pretended card cannot follow.
"""

import sys
from pathlib import Path

import pytest
from pretend_card import pretended_card

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import gpu  # noqa: E402  (the path is set above)
from gpu_parts.machine import describe  # noqa: E402  (the path is set above)
from gpu_parts.step import Bench  # noqa: E402  (the path is set above)

OFTEN = {"answers/embeddings/ncm", "conformance/ncm", "runs/permuted/epochs"}
STEPS = {step.name: step for part in gpu.PARTS for step in gpu.steps_of(part)}
ELSEWHERE = {"extraction/kill", "runs/cells/2", "runs/cells/4", "runs/cells/8"}


def steps() -> list[object]:
    names = [
        n for n in STEPS if n not in ELSEWHERE and "compile" not in n and n != "images/resnet32/all"
    ]
    return [n if n in OFTEN else pytest.param(n, marks=pytest.mark.long) for n in names]


@pytest.mark.parametrize("name", steps())
def test_a_step_runs(name: str, tmp_path: Path) -> None:
    with pretended_card():
        assert describe("cuda")["card"] == "a pretended card"
        figures = STEPS[name].run(Bench("cuda", True, tmp_path))
    assert figures
    if name.startswith("answers"):
        assert figures[0].values["equal"] == 1
        assert figures[0].values["repeats"]
