"""MAS and SI: the whole algorithms by autograd, MAS's sensitivities, and where SI's path ends."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from teaching import SGD, assert_same_weights, teach
from torch import Tensor
from torch.nn.functional import cross_entropy
from toy import class_stream

from embedbench.learning import Seeds, Stop, generator
from embedbench.learning.network import mlp_net
from embedbench.learning.optimisers import make_optimiser
from embedbench.models import mas
from embedbench.models.mas import MAS, sensitivity
from embedbench.models.si import SI
from embedbench.streams.stream import Stream

Rule = Callable[[Any, Tensor, list[Tensor], list[Tensor]], list[Tensor]]


def sensitivities(net: Any, x: Tensor, *_: Any, classes: Any = slice(None)) -> list[Tensor]:
    """Mean over samples of |∂‖f(x)‖²/∂θ|, a sample at a time."""
    ps = list(net.parameters())
    total = [torch.zeros_like(p) for p in ps]
    for row in x:
        gradient = torch.autograd.grad(net(row[None])[0, classes].square().sum(), ps)
        total = [t + g.abs() for t, g in zip(total, gradient, strict=True)]
    return [t / len(x) for t in total]


def shares(net: Any, _: Tensor, earned: list[Tensor], moved: list[Tensor]) -> list[Tensor]:
    """SI's ω / (Δ² + ξ)."""
    return [torch.relu(e) / (m**2 + 0.1) for e, m in zip(earned, moved, strict=True)]


def plain(stream: Stream, seed: int, optimiser: str, strength: float, rule: Rule) -> Any:
    """The whole algorithm by autograd on the penalised loss; returns the net and Ω."""
    seeds = Seeds.of(seed)
    net = mlp_net(6, 6, 2, 3, seeds.init)
    ps = list(net.parameters())
    importance = [torch.zeros_like(p) for p in ps]
    for t, part in enumerate(stream.sessions):
        x, y = part.x.tensor(), torch.tensor(part.y)
        anchor = [p.detach().clone() for p in ps]
        earned = [torch.zeros_like(p) for p in ps]
        step = make_optimiser(optimiser, net, lr=0.02, weight_decay=0.0)
        draw = generator(seeds.batches, t)
        for _ in range(3):
            for b in torch.randperm(len(x), generator=draw).split(8):
                loss = cross_entropy(net(x[b]), y[b])
                gradient = torch.autograd.grad(loss, ps, retain_graph=True)
                before = [p.detach().clone() for p in ps]
                step.zero_grad()
                for p, o, a in zip(ps, importance, anchor, strict=True):
                    loss = loss + strength * (o * (p - a) ** 2).sum()
                loss.backward()
                step.step()
                for k, p in enumerate(ps):
                    earned[k] += -gradient[k] * (p.detach() - before[k])
        moved = [p.detach() - a for p, a in zip(ps, anchor, strict=True)]
        new = rule(net, x, earned, moved)
        importance = [o + n for o, n in zip(importance, new, strict=True)]
    return net, importance


@pytest.mark.parametrize(
    ("cls", "settings", "optimiser", "rule"),
    [
        (MAS, {"lam": 0.5}, "sgd", sensitivities),
        (SI, {"c": 2.0}, "sgd", shares),
        (SI, {"c": 2.0}, "nadam", shares),
    ],
)
@pytest.mark.parametrize("seed", range(2))
def test_importance_and_weights_are_those_of_a_naive_loop(
    seed: int, cls: Any, settings: Any, optimiser: str, rule: Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mas, "BLOCK", 7)  # the sums go over several blocks
    stream = class_stream([[0, 1], [2]], seed=seed)
    learner, _ = teach(cls(**{**SGD, **settings, "optimiser": optimiser}), stream, seed=seed)
    net, importance = plain(stream, seed, optimiser, *settings.values(), rule)
    assert all(float(o.max()) > 1e-4 for o in importance)
    assert_same_weights(learner.importance, importance, rtol=1e-3, atol=1e-5)
    assert_same_weights(learner, net, rtol=1e-3, atol=1e-5)
    size = sum(p.nbytes for p in net.parameters())
    assert learner.footprint() == {"parameters": size, "importance": size}
    assert not list(learner.net.buffers())


@pytest.mark.parametrize("layers", [0, 1, 3])
@pytest.mark.parametrize("faster", [True, False], ids=["mlp", "any net"])
@pytest.mark.parametrize("classes", [None, [0, 2]])
def test_sensitivity_is_autograds(classes: list[int] | None, faster: bool, layers: int) -> None:
    net = mlp_net(4, 5, layers, 3, 0)
    x = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
    expected = sensitivities(net, x, classes=slice(None) if classes is None else classes)
    same = net if faster else torch.nn.Sequential(*net.children(), torch.nn.Identity())
    found = sensitivity(same, x, None if classes is None else torch.tensor(classes))
    assert min(float(e.max()) for e in expected) > 1e-3
    assert_same_weights([f / 9 for f in found], expected)


def test_a_path_ends_where_its_best_epoch_ended() -> None:
    """Restored weights come with the ω of their epoch: as if training had stopped there."""
    stream = class_stream([[0, 1], [2]], spread=2.0)
    settings = {**SGD, "lr": 0.3, "units": 16}
    stop = Stop(epochs=12, min_steps=0, patience=20)
    learner, (log,) = teach(SI(**{**settings, "stop": stop}), stream, 1)
    assert log["kept_epoch"] < log["epochs"] == 12
    stop = Stop(rule="epochs", epochs=log["kept_epoch"])
    stopped, _ = teach(SI(**{**settings, "stop": stop}), stream, 1)
    assert_same_weights(learner.importance, stopped.importance, rtol=0, atol=0)
