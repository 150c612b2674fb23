"""LwF: distillation by hand, and the whole algorithm by autograd, with and without exemplars."""

import copy
import math
from typing import Any

import pytest
import torch
from teaching import SGD, assert_same_weights, descend, minibatches, teach
from toy import class_stream

from embedbench.learning import Memory, Seeds, generator
from embedbench.learning.loss import distillation
from embedbench.learning.network import mlp_net
from embedbench.models.lwf import LwF
from embedbench.streams.stream import Stream


def test_distillation_by_hand() -> None:
    # T = 2: softmax([0, 2 ln 3]/2) = (1/4, 3/4); softmax([2 ln 2, 0]/2) = (2/3, 1/3)
    new, old = torch.tensor([[2 * math.log(2), 0.0]]), torch.tensor([[0.0, 2 * math.log(3)]])
    expected = -(1 / 4 * math.log(2 / 3) + 3 / 4 * math.log(1 / 3))
    assert float(distillation(new, old, 2.0)) == pytest.approx(expected)


def plain(stream: Stream, lam: float, t: float, stored: bool) -> Any:
    """The whole algorithm with its losses written out; returns the net."""
    seeds = Seeds.of(0)
    net = mlp_net(6, 6, 2, 5, seeds.init)
    kept: list[tuple[Any, Any]] = []  # exemplars, class by class
    seen: list[int] = []
    for number, part in enumerate(stream.sessions):
        own = list(zip(part.x.tensor(), part.y.tolist(), strict=True))
        data = own + sorted(kept, key=lambda pair: pair[1])
        present = sorted(set(part.y.tolist()))
        among = present + [c for c in seen if stored or len(present) == 1]
        old_net = copy.deepcopy(net)
        sgd = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
        for batch in minibatches(len(data), generator(seeds.batches, number)):
            total = torch.zeros(())
            for i in batch.tolist():
                xi, yi = data[i]
                z = net(xi)
                total = total - z[yi] + torch.logsumexp(z[among], 0)
                if seen:
                    p = torch.softmax(old_net(xi).detach()[seen] / t, 0)
                    total = total - lam * (p * torch.log_softmax(z[seen] / t, 0)).sum()
            descend(sgd, total / len(batch))
        seen += present
        if stored:
            kept += own
    return net


@pytest.mark.parametrize("stored", [False, True])
def test_weights_are_those_of_the_plain_algorithm(stored: bool) -> None:
    stream = class_stream([[0, 1], [2, 3], [4]], n_train=6)
    memory = Memory(select="all") if stored else Memory(per_class=0)
    t = 3.0 if stored else 2.0
    learner, _ = teach(LwF(**SGD, lam=1.5, temperature=t, memory=memory), stream)
    assert_same_weights(learner, plain(stream, 1.5, t, stored), rtol=1e-3, atol=1e-5)
    assert len(learner.exemplars) == (30 if stored else 0)
