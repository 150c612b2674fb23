"""SI: the path integral against a naive loop, the penalty, and where a restored path ends."""

from typing import Any

import pytest
import torch
from torch import Tensor
from toy import class_stream, context

from embedbench.config.run_seeds import Seeds, generator
from embedbench.errors import UserError
from embedbench.learning.learner import learn_session
from embedbench.learning.network import mlp_net
from embedbench.learning.optimisers import make_optimiser
from embedbench.learning.stopping import Stop
from embedbench.models.mlp import MLP
from embedbench.models.si import SI
from embedbench.streams.stream import Stream

SMALL: dict[str, Any] = {
    "units": 6,
    "batch_size": 8,
    "lr": 0.02,
    "optimiser": "sgd",
    "stop": Stop(rule="epochs", epochs=3),
}


def taught(stream: Stream, seed: int = 0, **settings: Any) -> SI:
    learner = SI(**{**SMALL, **settings})
    learner.start(stream.spec, Seeds.of(seed), "cpu")
    for part in stream.sessions:
        learn_session(learner, part, context())
    return learner


def loss(net: torch.nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(net(x), y)


def plain(stream: Stream, seed: int, optimiser: str, c: float) -> tuple[Any, list[Tensor]]:
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
                gradient = torch.autograd.grad(loss(net, x[b], y[b]), ps)
                before = [p.detach().clone() for p in ps]
                step.zero_grad()
                total = loss(net, x[b], y[b])
                for p, o, a in zip(ps, importance, anchor, strict=True):
                    total = total + c * (o * (p - a) ** 2).sum()
                total.backward()
                step.step()
                for k, p in enumerate(ps):
                    earned[k] += -gradient[k] * (p.detach() - before[k])
        for k, p in enumerate(ps):
            moved = p.detach() - anchor[k]
            importance[k] += torch.relu(earned[k]) / (moved**2 + 0.1)
    return net, importance


@pytest.mark.parametrize("optimiser", ["sgd", "nadam"])
@pytest.mark.parametrize("seed", range(3))
def test_importance_and_weights_are_those_of_a_naive_loop(seed: int, optimiser: str) -> None:
    stream = class_stream([[0, 1], [2]], seed=seed)
    learner = taught(stream, seed, optimiser=optimiser, c=2.0)
    net, importance = plain(stream, seed, optimiser, 2.0)
    for found, expected in zip(learner.importance, importance, strict=True):
        assert float(expected.max()) > 1e-4
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)
    for p, q in zip(learner.net.parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-5)


def test_without_strength_it_is_the_mlp() -> None:
    stream = class_stream([[0, 1], [2]])
    learner, mlp = taught(stream, c=0.0), MLP(**SMALL)
    mlp.start(stream.spec, Seeds.of(0), "cpu")
    for part in stream.sessions:
        learn_session(mlp, part, context())
    x = stream.sessions[0].x.tensor()
    assert torch.equal(learner.scores(x), mlp.scores(x))


def test_a_strong_penalty_keeps_weights_that_mattered() -> None:
    stream = class_stream([[0, 1], [2]])
    first = SI(**SMALL)
    first.start(stream.spec, Seeds.of(0), "cpu")
    learn_session(first, stream.sessions[0], context())
    moves = []
    for c in (0.0, 100.0):
        learner = taught(stream, c=c)
        moved = [
            (p.data - q.data).abs()[o > o.quantile(0.9)].mean()
            for p, q, o in zip(
                learner.net.parameters(), first.net.parameters(), first.importance, strict=True
            )
        ]
        moves.append(float(torch.stack(moved).mean()))
    assert moves[1] < 0.5 * moves[0]


def test_a_path_ends_where_its_best_epoch_ended() -> None:
    """Restored weights come with the ω of their epoch: as if training had stopped there."""
    stream = class_stream([[0, 1], [2]], spread=2.0)
    session = stream.sessions[0]
    settings = {"lr": 0.3, "units": 16}
    learner = SI(**{**SMALL, **settings, "stop": Stop(epochs=12, min_steps=0, patience=20)})
    learner.start(stream.spec, Seeds.of(0), "cpu")
    log = learn_session(learner, session, context())
    assert log["kept_epoch"] < log["epochs"] == 12
    stopped = SI(**{**SMALL, **settings, "stop": Stop(rule="epochs", epochs=log["kept_epoch"])})
    stopped.start(stream.spec, Seeds.of(0), "cpu")
    learn_session(stopped, session, context())
    for found, expected in zip(learner.importance, stopped.importance, strict=True):
        assert torch.equal(found, expected)


def test_between_sessions_only_importance_is_held() -> None:
    learner = taught(class_stream([[0, 1], [2]]))
    size = sum(p.numel() * 4 for p in learner.net.parameters())
    assert learner.footprint() == {"parameters": size, "importance": size}
    assert not list(learner.net.buffers())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"c": -1.0}, "si.c must be at least 0, got -1.0"),
        ({"xi": 0.0}, "si.xi must be above 0, got 0.0"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        SI(**settings)
