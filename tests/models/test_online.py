"""The steps that online learners take on each batch: `updates` and `passes`."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from teaching import ONLINE as SMALL
from teaching import assert_same_weights, descend, start
from torch.nn.functional import cross_entropy
from toy import class_stream

from embedbench.config.fields_added_later import identity
from embedbench.config.make_from_settings import make
from embedbench.errors import UserError
from embedbench.learning import Memory, OnlineLearner, Seeds, StreamSpec
from embedbench.learning.network import mlp_net
from embedbench.models.er import ER
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
    assert len(held) == 80
    assert len(np.unique(held.x.numpy(), axis=0)) == 80
    for value in (0, 1001):
        with pytest.raises(UserError, match=rf"{name}\.updates"):
            made(name, updates=value)
    assert "updates" in identity(made(name, updates=2))
    if name != "gss":  # one step has the place of runs from before the setting
        assert "updates" not in identity(made(name, updates=1))


def test_every_step_draws_anew_from_what_came_before_the_batch() -> None:
    seeds, rng = Seeds.of(0), np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(20, 6)).astype(np.float32))
    y = torch.from_numpy(rng.integers(4, size=20))
    memory = Memory(total=100, select="reservoir")
    twice = {**SMALL, "batch_size": 3, "updates": 2, "memory": memory}
    learner = start(ER(**twice), StreamSpec((6,), 4))
    net = mlp_net(6, 8, 2, 4, seeds.init)
    sgd = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    for batch, rows in enumerate(torch.split(torch.arange(20), 5)):
        learner.observe(x[rows], y[rows])
        for step in (2 * batch, 2 * batch + 1):
            draw, n = np.random.default_rng([seeds.batches, step]), 5 * batch
            chosen = draw.choice(n, min(3, n), replace=False, shuffle=False)
            both = torch.cat([rows, torch.from_numpy(chosen)])
            descend(sgd, cross_entropy(net(x[both]), y[both]))
    assert_same_weights(learner, net)


# --- passes: samples presented for each new one ---


@pytest.mark.parametrize("passes", [1.0, 6.0])
@pytest.mark.parametrize("name", ONLINE)
def test_as_many_samples_are_presented_as_passes_say(name: str, passes: float) -> None:
    learner = made(name, units=4, passes=passes, batch_size=8)
    _, logs = run_stream(STREAM, learner, Seeds.of(0))
    presented = sum(log.log["presented"] for log in logs)
    largest = 10 + {"derpp": 2, "mir": 5}.get(name, 1) * 8  # of one step
    assert passes * 80 <= presented < passes * 80 + largest
    assert sum(log.log["steps"] for log in logs) == learner.steps > 0


def test_samples_presented_by_hand() -> None:
    # batches of 10 and 6 from memory, 2 for each new one: 20, 40, 60, 80 must be reached
    stream = replace(class_stream([[0, 1]], n_train=20), observe_batch=10)
    _, (log,) = run_stream(stream, made("er", units=4, passes=2, batch_size=6), Seeds.of(0))
    # 10 + 10 without a memory; then 16 + 16 = 52, 68 (of 60), 84 (of 80)
    assert log.log == {"steps": 6, "presented": 84}
