"""The steps that online learners take on each batch: `updates` and `passes`."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from file_helpers import says
from toy import class_stream

from embedbench.config.fields_added_later import identity
from embedbench.config.make_from_settings import make
from embedbench.errors import UserError
from embedbench.learning import OnlineLearner, Seeds
from embedbench.runs.learner_and_protocol_names import ALIASES, learner_class, learner_names
from embedbench.runs.stream_runner import run_stream

OWN = [name for name in learner_names() if name not in ALIASES]
ONLINE = [name for name in OWN if issubclass(learner_class(name), OnlineLearner)]
STREAM = replace(class_stream([[0, 1], [2, 3]], n_train=20, n_test=30), observe_batch=10)


def made(name: str, **settings: Any) -> Any:
    return make(learner_class(name), settings, name=name)


def test_all_that_step_on_batches_are_here() -> None:
    assert ONLINE == ["agem", "derpp", "er", "er-ace", "gss", "mir", "remind"]


@pytest.mark.parametrize("name", ONLINE)
def test_a_batch_gets_its_steps_and_is_stored_once(name: str) -> None:
    learner = made(name, units=4, updates=3)
    _, logs = run_stream(STREAM, learner, Seeds.of(0))
    assert learner.steps == 3 * 8
    assert [log.log for log in logs] == [{"steps": 12, "epochs": 3}] * 2
    held = learner.base if name == "remind" else learner.exemplars
    assert len(held) == len(np.unique(held.x.numpy(), axis=0)) == 80
    for value in (0, 1001):
        with pytest.raises(UserError, check=says(what=f"{name}.updates", got=value)):
            made(name, updates=value)
    assert "updates" in identity(made(name, updates=2))
    if name != "gss":  # one step has the place of runs from before the setting
        assert "updates" not in identity(made(name, updates=1))


@pytest.mark.parametrize("passes", [1.0, 6.0])
@pytest.mark.parametrize("name", ONLINE)
def test_as_many_samples_are_presented_as_passes_say(name: str, passes: float) -> None:
    learner = made(name, units=4, passes=passes, batch_size=8)
    _, logs = run_stream(STREAM, learner, Seeds.of(0))
    presented = sum(log.log["presented"] for log in logs)
    largest = 10 + {"derpp": 2, "mir": 5}.get(name, 1) * 8  # of one step
    assert passes * 80 <= presented < passes * 80 + largest
    assert sum(log.log["steps"] for log in logs) == learner.steps > 0


@pytest.mark.parametrize("name", ONLINE)
def test_samples_presented_by_hand(name: str) -> None:
    # batches of 10 and 6 from memory, 2 for each new one: 20, 40, 60, 80 must be reached
    stream = replace(class_stream([[0, 1]], n_train=20), observe_batch=10)
    given = {"base_samples": 30} if name == "remind" else {}
    learner = made(name, units=4, passes=2, batch_size=6, **given)
    _, (log,) = run_stream(stream, learner, Seeds.of(0))
    # 10 + 10 without a memory; then 16 + 16 = 52, 68 (of 60), 84 (of 80)
    two = {"derpp": (5, 86), "mir": (5, 110)}  # two draws: 42, 64, 86; five times as many: 40, 70
    assert (log.log["steps"], log.log["presented"]) == two.get(name, (6, 84))
