"""Measured bytes: a footprint is what a learner's state dict holds, to the byte."""

from typing import Any

import pytest
from toy import class_stream

from embedbench.checks.learner_check_tools import state_bytes
from embedbench.config.run_seeds import Seeds
from embedbench.learning.exemplars import Memory
from embedbench.learning.stopping import Stop
from embedbench.runs.learner_and_protocol_names import learner_class
from embedbench.runs.stream_runner import run_stream

BRIEF: dict[str, Any] = {"units": 8, "stop": Stop(rule="epochs", epochs=1)}
LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "slda": ("slda", {}),
    "ranpac": ("ranpac", {"projections": 30}),
    "fecam": ("fecam", {}),
    "fecam-base": ("fecam", {"covariance": "base"}),
    "joint": ("joint", BRIEF),
    "si": ("si", BRIEF),
    "mas": ("mas", BRIEF),
    "lwf": ("lwf", BRIEF),
    "lwf-exemplars": ("lwf", {**BRIEF, "memory": Memory(total=9)}),
    "bic": ("bic", BRIEF),
    "lucir": ("lucir", BRIEF),
}


@pytest.mark.parametrize("case", LEARNERS)
def test_the_footprint_is_the_state(case: str) -> None:
    name, settings = LEARNERS[case]
    learner = learner_class(name)(**settings)
    _, logs = run_stream(class_stream([[0, 1], [2], [3]]), learner, Seeds.of(0))
    total = learner.footprint().total
    assert total == state_bytes(learner.state_dict()) == sum(logs[-1].footprint.values())
