"""MAS: sensitivities against autograd a sample at a time, their sum over sessions, the penalty."""

from typing import Any

import pytest
import torch
from torch import Tensor
from toy import class_stream, context

from embedbench.config.run_seeds import Seeds, generator
from embedbench.errors import UserError
from embedbench.learning.learner import learn_session
from embedbench.learning.network import mlp_net
from embedbench.learning.stopping import Stop
from embedbench.models import mas
from embedbench.models.mas import MAS, sensitivity
from embedbench.streams.stream import Stream

SMALL: dict[str, Any] = {
    "units": 6,
    "batch_size": 8,
    "lr": 0.02,
    "optimiser": "sgd",
    "stop": Stop(rule="epochs", epochs=3),
}


def brute_force(net: torch.nn.Module, x: Tensor) -> list[Tensor]:
    """Mean over samples of |∂‖f(x)‖²/∂θ|, a sample at a time."""
    ps = list(net.parameters())
    total = [torch.zeros_like(p) for p in ps]
    for row in x:
        gradient = torch.autograd.grad(net(row[None]).square().sum(), ps)
        total = [t + g.abs() for t, g in zip(total, gradient, strict=True)]
    return [t / len(x) for t in total]


@pytest.mark.parametrize("layers", [0, 1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_sensitivity_is_the_sum_of_absolute_gradients(seed: int, layers: int) -> None:
    net = mlp_net(4, 5, layers, 3, seed)
    x = torch.randn(9, 4, generator=torch.Generator().manual_seed(seed))
    for found, expected in zip(sensitivity(net, x), brute_force(net, x), strict=True):
        assert float(expected.max()) > 1e-3
        torch.testing.assert_close(found / 9, expected, rtol=1e-4, atol=1e-6)


def plain(stream: Stream, seed: int, lam: float) -> tuple[Any, list[Tensor]]:
    """The whole algorithm by autograd on the penalised loss; returns the net and Ω."""
    seeds = Seeds.of(seed)
    net = mlp_net(6, 6, 2, 3, seeds.init)
    ps = list(net.parameters())
    importance = [torch.zeros_like(p) for p in ps]
    for t, part in enumerate(stream.sessions):
        x, y = part.x.tensor(), torch.tensor(part.y)
        anchor = [p.detach().clone() for p in ps]
        step = torch.optim.SGD(ps, lr=0.02, momentum=0.9)
        draw = generator(seeds.batches, t)
        for _ in range(3):
            for b in torch.randperm(len(x), generator=draw).split(8):
                step.zero_grad()
                total = torch.nn.functional.cross_entropy(net(x[b]), y[b])
                for p, o, a in zip(ps, importance, anchor, strict=True):
                    total = total + lam * (o * (p - a) ** 2).sum()
                total.backward()
                step.step()
        new = brute_force(net, x)
        importance = [o + n for o, n in zip(importance, new, strict=True)]
    return net, importance


@pytest.mark.parametrize("seed", range(3))
def test_importance_and_weights_are_those_of_a_naive_loop(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mas, "BLOCK", 7)  # the sums go over several blocks
    stream = class_stream([[0, 1], [2]], seed=seed)
    learner = MAS(**SMALL, lam=0.5)
    learner.start(stream.spec, Seeds.of(seed), "cpu")
    for part in stream.sessions:
        learn_session(learner, part, context())
    net, importance = plain(stream, seed, 0.5)
    for found, expected in zip(learner.importance, importance, strict=True):
        assert float(expected.max()) > 1e-3
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)
    for p, q in zip(learner.net.parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-5)


def test_between_sessions_only_importance_is_held() -> None:
    stream = class_stream([[0, 1], [2]])
    learner = MAS(**SMALL)
    learner.start(stream.spec, Seeds.of(0), "cpu")
    learn_session(learner, stream.sessions[0], context())
    size = sum(p.numel() * 4 for p in learner.net.parameters())
    assert learner.footprint() == {"parameters": size, "importance": size}


def test_bad_settings_are_refused() -> None:
    with pytest.raises(UserError, match=r"mas.lam must be at least 0, got -1.0"):
        MAS(lam=-1.0)
