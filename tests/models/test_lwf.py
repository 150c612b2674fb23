"""LwF: distillation by hand, and the whole algorithm by autograd, with and without exemplars."""

import copy
import math
from typing import Any

import pytest
import torch
from teaching import SGD, assert_same_weights, descend, minibatches, teach
from toy import class_stream

from embedbench.learning import Memory, Seeds, generator
from embedbench.learning.loss import distillation, only
from embedbench.learning.network import mlp_net
from embedbench.models.lwf import LwF
from embedbench.streams.stream import Stream


def test_distillation_by_hand() -> None:
    # T = 2: softmax([0, 2 ln 3]/2) = (1/4, 3/4); softmax([2 ln 2, 0]/2) = (2/3, 1/3)
    new, old = torch.tensor([[2 * math.log(2), 0.0]]), torch.tensor([[0.0, 2 * math.log(3)]])
    expected = -(1 / 4 * math.log(2 / 3) + 3 / 4 * math.log(1 / 3))
    assert float(distillation(new, old, 2.0)) == pytest.approx(expected)
    both = distillation(torch.cat([new, old]), torch.cat([old, old]), 2.0)
    entropy = -(1 / 4 * math.log(1 / 4) + 3 / 4 * math.log(3 / 4))
    assert float(both) == pytest.approx((expected + entropy) / 2)
    assert float(distillation(new, old, 1.0)) == pytest.approx(
        -(1 / 10 * math.log(4 / 5) + 9 / 10 * math.log(1 / 5))
    )


def test_only_leaves_the_classes_named() -> None:
    assert only({3, 1}, 4, "cpu").tolist() == [-math.inf, 0, -math.inf, 0]


def plain(stream: Stream, lam: float, stored: bool) -> Any:
    """The whole algorithm with its losses written out; returns the net."""
    seeds = Seeds.of(0)
    net = mlp_net(6, 6, 2, 5, seeds.init)
    kept: list[tuple[Any, Any]] = []  # exemplars, class by class
    seen: list[int] = []
    for t, part in enumerate(stream.sessions):
        own = list(zip(part.x.tensor(), part.y.tolist(), strict=True))
        data = own + sorted(kept, key=lambda pair: pair[1])
        present = sorted(set(part.y.tolist()))
        among = present + [c for c in seen if stored or len(present) == 1]
        old_net = copy.deepcopy(net)
        sgd = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
        for batch in minibatches(len(data), generator(seeds.batches, t)):
            total = torch.zeros(())
            for i in batch.tolist():
                xi, yi = data[i]
                z = net(xi)
                total = total - z[yi] + torch.logsumexp(z[among], 0)
                if seen:
                    p = torch.softmax(old_net(xi).detach()[seen] / 2, 0)
                    total = total - lam * (p * torch.log_softmax(z[seen] / 2, 0)).sum()
            descend(sgd, total / len(batch))
        seen += present
        if stored:
            kept += own
    return net


@pytest.mark.parametrize("stored", [False, True])
def test_weights_are_those_of_the_plain_algorithm(stored: bool) -> None:
    stream = class_stream([[0, 1], [2, 3], [4]], n_train=6)
    memory = Memory(select="all") if stored else Memory(per_class=0)
    learner, _ = teach(LwF(**SGD, lam=1.5, memory=memory), stream)
    assert_same_weights(learner, plain(stream, 1.5, stored), rtol=1e-3, atol=1e-5)
    assert len(learner.exemplars) == (30 if stored else 0)


def test_nothing_is_stored_unless_asked() -> None:
    stream = class_stream([[0, 1], [2]])
    assert teach(LwF(**SGD), stream)[0].footprint()["samples"] == 0
    held = teach(LwF(**SGD, memory=Memory(per_class=5)), stream)[0].footprint()["samples"]
    assert held == 15 * (6 * 4 + 8)
