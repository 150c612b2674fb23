"""Every few-shot learner learns a small stream, and its bytes are counted."""

from typing import Any

import pytest
from few_shot import GROUPS, few_shot_stream

from embedbench.checks.learner_check_tools import state_bytes
from embedbench.learning import Seeds
from embedbench.learning.base_session_prototypes import Classifier
from embedbench.learning.learner import Learner
from embedbench.models.alice import ALICE
from embedbench.models.c_fscil import CFSCIL
from embedbench.models.fr import FR
from embedbench.models.nc_fscil import NCFSCIL
from embedbench.models.prototype import Prototype
from embedbench.models.teen import TEEN
from embedbench.runs.stream_runner import run_stream

FR_SHORT: dict[str, Any] = {"epochs": 8, "epoch_samples": 64, "optimiser": "adam", "lr": 3e-3}

FR_SHORT |= {"batch_classes": 4, "batch_samples": 16}


@pytest.mark.parametrize(
    ("learner", "held"),
    [
        (Prototype(), {}),
        (Prototype(Classifier("trained")), {}),
        (TEEN(), {}),
        (NCFSCIL(units=64), {"means": 7 * (16 * 8 + 8 + 1)}),  # float64 sums, counts, a flag
        (ALICE(units=32), {"parameters": 4 * (16 * 32 + 32 + 32 * 32 + 32)}),  # no head is kept
        (ALICE(layers=0), {"parameters": 0}),
        (CFSCIL(units=64), {"parameters": 4 * (16 * 64 + 64), "means": 7 * (16 * 8 + 8 + 1)}),
        (FR(**FR_SHORT), {"covariances": 4 * 3 * 16 * 16 * 4 + 7 * 2 * 3 * 8 + 7}),
    ],
)
def test_classes_are_learned_and_bytes_counted(learner: Learner, held: dict[str, int]) -> None:
    stream = few_shot_stream(GROUPS, width=16, layers=2 * learner.tags.needs_layers)
    found, logs = run_stream(stream, learner, Seeds.of(0))
    right = found.answer[-1] == found.y
    assert right[found.y < 4].mean() > 0.9
    assert right[found.y >= 4].mean() > 0.9
    footprint = learner.footprint()
    assert footprint.total == state_bytes(learner.state_dict())
    assert {kind: footprint[kind] for kind in held} == held
    assert logs[0].footprint == logs[-1].footprint  # nothing grows with the sessions
