"""LwF: distillation by hand, and the whole algorithm by autograd, with and without exemplars."""

import copy
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from toy import class_stream, context

from embedbench.config.run_seeds import Seeds, generator
from embedbench.errors import UserError
from embedbench.learning.exemplars import Memory
from embedbench.learning.learner import learn_session
from embedbench.learning.loss import distillation, only
from embedbench.learning.network import mlp_net
from embedbench.learning.stopping import Stop
from embedbench.models.lwf import LwF
from embedbench.streams.stream import Stream

SMALL: dict[str, Any] = {
    "units": 6,
    "batch_size": 8,
    "lr": 0.02,
    "optimiser": "sgd",
    "stop": Stop(rule="epochs", epochs=3),
}


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


def taught(stream: Stream, seed: int, **settings: Any) -> LwF:
    learner = LwF(**{**SMALL, **settings})
    learner.start(stream.spec, Seeds.of(seed), "cpu")
    for part in stream.sessions:
        learn_session(learner, part, context())
    return learner


def plain(stream: Stream, seed: int, lam: float, stored: bool) -> Any:
    """The whole algorithm with its losses written out; returns the net."""
    seeds = Seeds.of(seed)
    net = mlp_net(6, 6, 2, 5, seeds.init)
    kept: list[tuple[Any, Any]] = []  # exemplars, class by class
    seen: list[int] = []
    for t, part in enumerate(stream.sessions):
        x, y = part.x.tensor(), torch.tensor(part.y)
        own = list(zip(x, y, strict=True))
        data = own + sorted(kept, key=lambda pair: int(pair[1]))
        present = sorted(set(part.y.tolist()))
        among = present + [c for c in seen if stored or len(present) == 1]
        old_net = copy.deepcopy(net)
        step = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
        draw = generator(seeds.batches, t)
        for _ in range(3):
            for batch in torch.randperm(len(data), generator=draw).split(8):
                total = torch.zeros(())
                for i in batch.tolist():
                    xi, yi = data[i]
                    z = net(xi)
                    total = total - z[yi] + torch.logsumexp(z[among], 0)
                    if seen:
                        p = torch.softmax(old_net(xi).detach()[seen] / 2, 0)
                        total = total - lam * (p * torch.log_softmax(z[seen] / 2, 0)).sum()
                step.zero_grad()
                (total / len(batch)).backward()
                step.step()
        seen += present
        if stored:
            kept += own
    return net


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_weights_are_those_of_the_plain_algorithm(seed: int, stored: bool) -> None:
    stream = class_stream([[0, 1], [2, 3], [4]], seed=seed, n_train=6)
    memory = Memory(select="all") if stored else Memory(per_class=0)
    learner = taught(stream, seed, lam=1.5, memory=memory)
    net = plain(stream, seed, 1.5, stored)
    for p, q in zip(learner.net.parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-5)
    assert len(learner.exemplars) == (30 if stored else 0)


def test_distillation_keeps_the_old_answers() -> None:
    stream = class_stream([[0, 1], [2, 3]])
    x = stream.sessions[1].x.tensor()
    longer: dict[str, Any] = {"units": 20, "stop": Stop(rule="epochs", epochs=20)}
    before = taught(replace(stream, sessions=stream.sessions[:1]), 0, **longer).scores(x)
    off = []
    for lam in (0.0, 10.0):
        after = taught(stream, 0, lam=lam, **longer).scores(x)
        change = torch.softmax(after[:, :2], 1) - torch.softmax(before[:, :2], 1)
        off.append(float(change.abs().mean()))
    assert off[1] < 0.3 * off[0]


def test_nothing_is_stored_unless_asked() -> None:
    stream = class_stream([[0, 1], [2]])
    assert taught(stream, 0).footprint()["samples"] == 0
    held = taught(stream, 0, memory=Memory(per_class=5)).footprint()["samples"]
    assert held == 15 * (6 * 4 + 8)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lam": -1.0}, "lwf.lam must be at least 0, got -1.0"),
        ({"temperature": 0.0}, "lwf.temperature must be above 0, got 0.0"),
        ({"memory": Memory(total=5, select="reservoir")}, "unknown lwf.memory.select 'reservoir'"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        LwF(**settings)
