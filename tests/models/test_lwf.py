"""LwF: distillation by hand, and the whole algorithm by autograd, with and without exemplars."""

import copy
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from teaching import SGD, assert_same_weights, descend, minibatches, start, teach
from toy import class_stream

from embedbench.learning import Memory, Seeds, StreamSpec, generator
from embedbench.learning.loss import distillation
from embedbench.learning.network import mlp_net
from embedbench.models.lwf import LwF
from embedbench.streams.make_sessions import limit_losses
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


def seen_alone(stream: Stream, loss: str) -> Stream:
    pairs = limit_losses(list(zip(stream.sessions, stream.eval_sets, strict=True)), loss)
    spec = replace(stream.spec, loss_over_seen=loss == "seen")
    return replace(stream, spec=spec, sessions=[session for session, _ in pairs])


def test_one_softmax_for_both_terms_by_hand() -> None:
    """Old logits 0 and 2 ln 3 for classes 0 and 1, T = 2; new ones 0, 0 and ln 2 for 0, 1 and 2.

    The cross-entropy of class 2 is over p = (1, 1, 2)/4. The targets are (1/4, 3/4, 0), held
    against softmax((0, 0, ln 2)/2) = (1, 1, √2)/(2 + √2).
    """
    spec = StreamSpec((1,), 4, loss_over_seen=True)
    learner = start(LwF(trunk="linear", lam=1.0, among="stream"), spec)
    bias, weight = learner.net.head.bias.data, learner.net.head.weight.data
    weight.zero_()
    bias.copy_(torch.tensor([0.0, 2 * math.log(3), 5.0, 5.0]))
    session = class_stream([[2]]).sessions[0]
    objective = learner._over_stream([0, 1], session)
    bias.copy_(torch.tensor([0.0, 0.0, math.log(2), 5.0]))
    loss = objective(torch.zeros(1, 1), torch.tensor([2])).item()
    assert loss == pytest.approx(math.log(2) + math.log(2 + math.sqrt(2)))


@pytest.mark.parametrize("loss", ["all", "seen"])
@pytest.mark.parametrize("stored", [False, True])
def test_over_the_classes_of_the_stream_it_is_van_de_vens(loss: str, stored: bool) -> None:
    """With "all" the old net is asked for every class; with "seen" new classes have target 0."""
    stream = class_stream([[0, 1], [2, 3], [4]], n_train=6)
    net, seen = mlp_net(6, 6, 2, 5, Seeds.of(0).init), 0
    kept: list[tuple[Any, Any]] = []
    for number, part in enumerate(stream.sessions):
        own = list(zip(part.x.tensor(), part.y.tolist(), strict=True))
        data, old_net, asked = own + kept, copy.deepcopy(net), seen if loss == "seen" else 5
        n = max(part.y) + 1 if loss == "seen" else 5
        sgd = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
        for batch in minibatches(len(data), generator(Seeds.of(0).batches, number)):
            total = torch.zeros(())
            for i in batch.tolist():
                x, y = data[i]
                z = net(x)[:n]
                total = total - torch.log_softmax(z, 0)[y]
                if seen:
                    target = torch.softmax(old_net(x).detach()[:asked] / 2, 0)
                    total = total - 1.5 * (target * torch.log_softmax(z / 2, 0)[:asked]).sum()
            descend(sgd, total / len(batch))
        seen = max(part.y) + 1
        kept += own if stored else []
    memory = Memory(select="all") if stored else Memory(per_class=0)
    learner = LwF(**SGD, lam=1.5, among="stream", memory=memory)
    teach(learner, seen_alone(stream, loss))
    assert_same_weights(learner, net, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("stored", [False, True])
def test_weights_are_those_of_the_plain_algorithm(stored: bool) -> None:
    stream = class_stream([[0, 1], [2, 3], [4]], n_train=6)
    memory = Memory(select="all") if stored else Memory(per_class=0)
    t = 3.0 if stored else 2.0
    learner, _ = teach(LwF(**SGD, lam=1.5, temperature=t, memory=memory), stream)
    assert_same_weights(learner, plain(stream, 1.5, t, stored), rtol=1e-3, atol=1e-5)
    assert len(learner.exemplars) == (30 if stored else 0)
