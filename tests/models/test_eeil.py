"""EEIL: the loss a sample at a time, the balanced set, and fine-tuning by the plain algorithm."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from teaching import (
    SGD,
    assert_same_weights,
    descend,
    distilling_loss,
    disturb,
    learn,
    minibatches,
    plain,
    teach,
)
from toy import class_stream

from embedbench.learning import Memory, Seeds, Stop, generator
from embedbench.models.eeil import BALANCED, EEIL
from embedbench.streams.stream import Stream

SMALL: dict[str, Any] = {**SGD, "units": 8, "batch_size": 16, "lr": 0.05, "finetune_epochs": 2}
SMALL |= {"memory": Memory(per_class=5)}
STREAM = class_stream([[0, 1], [2, 3], [4]])


def taught(stream: Stream, sessions: int, **settings: Any) -> tuple[EEIL, list[Any]]:
    return teach(EEIL(**{**SMALL, **settings}), stream, sessions)


@pytest.mark.parametrize("lam", [1.0, 0.3])
def test_every_old_head_is_distilled_by_itself(lam: float) -> None:
    learner, _ = taught(STREAM, 2, lam=lam)
    heads = [[0, 1], [2, 3]]
    assert learner.heads({0, 1, 2, 3}) == heads
    x, y = STREAM.sessions[2].x.tensor()[:6], torch.tensor(STREAM.sessions[2].y)[:6]
    objective = learner._objective(heads, {0, 1, 2, 3, 4})
    old = plain(learner.net(x))
    disturb(learner.net)  # the old answers stay
    expected = distilling_loss(plain(learner.net(x)), old, y, heads, (1.0, lam))
    assert objective(x, y).item() == pytest.approx(expected, rel=1e-4)
    some = torch.nn.functional.cross_entropy(learner.net(x)[:, :2], y % 2)
    torch.testing.assert_close(learner._objective([], {0, 1})(x, y % 2), some)


def test_it_is_the_loss_of_training() -> None:
    """Of one batch of all samples and exemplars, before the step."""
    once: dict[str, Any] = {"batch_size": 1000, "stop": Stop(rule="epochs", epochs=1)}
    learner, _ = taught(STREAM, 2, finetune_epochs=0, **once)
    joined = learner.exemplars.join(STREAM.sessions[2])
    objective = learner._objective([[0, 1], [2, 3]], {0, 1, 2, 3, 4})
    expected = objective(joined.x.batch(torch.arange(len(joined.y))), torch.tensor(joined.y)).item()
    assert learn(learner, STREAM.sessions[2])["train_loss"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("memory", "counts"), [(Memory(per_class=7), [7, 7]), (Memory(total=20), [5, 4])]
)
def test_the_balanced_set_is_balanced(memory: Memory, counts: list[int]) -> None:
    learner, logs = taught(STREAM, 1, memory=memory)
    assert "balanced" not in logs[0]  # nothing old to balance with
    for part, each, n_seen in zip(STREAM.sessions[1:], counts, (4, 5), strict=True):
        log = learn(learner, part)
        balanced = learner.balanced(part)
        assert np.bincount(balanced.y).tolist() == [each] * n_seen
        assert log["balanced"] == each * n_seen == len(balanced.x)
        assert (balanced.ids == -1).all()


def test_fine_tuning_is_the_plain_algorithm() -> None:
    """SGD on the balanced set at a tenth of the rate, from the weights before the fine-tuning."""
    learner, _ = taught(STREAM, 2)
    rough, (_, log) = taught(STREAM, 2, finetune_epochs=0)
    assert "finetune" not in log
    net, teacher = rough.net, copy.deepcopy(rough.net)
    x, y = rough.exemplars.x, rough.exemplars.y
    sgd = torch.optim.SGD(net.parameters(), lr=0.005, momentum=0.9)
    draw = generator(Seeds.of(0).batches, 1, BALANCED)
    for batch in minibatches(20, draw, epochs=2, size=16):
        z, before = net(x[batch])[:, :4], teacher(x[batch]).detach()
        total = torch.nn.functional.cross_entropy(z, y[batch])
        for head in ([0, 1], [2, 3]):  # the new classes, too
            p = torch.softmax(before[:, head] / 2, 1)
            total = total - (p * torch.log_softmax(z[:, head] / 2, 1)).sum(1).mean()
        descend(sgd, total)
    assert_same_weights(learner, net)


def test_a_class_that_comes_again_is_not_distilled_and_keeps_its_head() -> None:
    learner, _ = taught(class_stream([[0, 1], [1, 2], [0, 3]]), 3)
    assert learner.session_of.tolist() == [0, 0, 1, 2]
    assert learner.heads({1, 2}) == [[1], [2]]
