"""mir: the samples it replays, against a copied network and a loop over the candidates."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from toy import class_stream, context

from embedbench.config.run_seeds import Seeds
from embedbench.learning.exemplars import Memory
from embedbench.learning.learner import learn_session
from embedbench.learning.network import mlp_net
from embedbench.learning.stopping import Stop
from embedbench.models.mir import MIR, growth
from embedbench.streams.stream import StreamSpec

SMALL: dict[str, Any] = {
    "units": 8, "lr": 0.1, "weight_decay": 0.01, "batch_size": 3, "updates": 1,
}  # fmt: skip
NEVER_FULL = Memory(total=1000, select="reservoir")


def samples(seed: int, n: int = 24, n_classes: int = 4) -> tuple[Tensor, Tensor]:
    draw = np.random.default_rng(seed)
    x = torch.from_numpy(draw.normal(size=(n, 6)).astype(np.float32))
    return x, torch.from_numpy(draw.integers(n_classes, size=n))


@torch.no_grad()
def interference(net: nn.Module, lr: float, x: Tensor, y: Tensor) -> list[float]:
    """How much each loss grows if a copy takes a plain step along the net's gradients."""
    copy = deepcopy(net)
    for p, q in zip(copy.parameters(), net.parameters(), strict=True):
        assert q.grad is not None
        p.sub_(lr * q.grad)
    losses = [
        [float(cross_entropy(n(one[None]), label[None])) for one, label in zip(x, y, strict=True)]
        for n in (copy, net)
    ]
    return [after - before for after, before in zip(*losses, strict=True)]


@pytest.mark.parametrize("seed", range(5))
def test_growth_is_that_of_a_copied_network(seed: int) -> None:
    net = mlp_net(6, 8, 2, 4, seed)
    (x, y), (new_x, new_y) = samples(seed), samples(seed + 100, 4)
    cross_entropy(net(new_x), new_y).backward()
    expected = torch.tensor(interference(net, 0.5, x, y))
    torch.testing.assert_close(growth(net, 0.5, x, y, None), expected, rtol=1e-4, atol=1e-5)
    assert expected.abs().max() > 0.05


def test_growth_over_some_classes_is_that_of_a_smaller_head() -> None:
    net = mlp_net(6, 8, 2, 4, 0)
    small = nn.Sequential(*deepcopy(net)[:-1], nn.Linear(8, 2))
    with torch.no_grad():
        small[-1].weight.copy_(net.head.weight[[0, 2]])
        small[-1].bias.copy_(net.head.bias[[0, 2]])
    (x, _), y = samples(0, 6), torch.tensor([0, 2, 2, 0, 0, 2])
    cross_entropy(net(x)[:, [0, 2]], y // 2).backward()
    cross_entropy(small(x), y // 2).backward()
    expected = torch.tensor(interference(small, 0.5, x, y // 2))
    found = growth(net, 0.5, x, y, torch.tensor([0, 2]))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_growth_leaves_the_network_as_it_is() -> None:
    net = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 4))
    x, y = samples(0)
    cross_entropy(net(x), y).backward()
    before = deepcopy(net.state_dict())
    slopes = [p.grad.clone() for p in net.parameters() if p.grad is not None]
    growth(net, 0.5, x, y, None)
    assert net.training
    assert all(torch.equal(v, net.state_dict()[k]) for k, v in before.items())
    for p, slope in zip(net.parameters(), slopes, strict=True):
        assert p.grad is not None
        assert torch.equal(p.grad, slope)


@pytest.mark.parametrize("seed", range(4))
def test_mir_replays_the_worst_candidates(seed: int) -> None:
    """Every step: the batch, then the 3 of 6 drawn candidates whose loss would grow most."""
    seeds, (x, y) = Seeds.of(seed), samples(seed)
    learner = MIR(memory=NEVER_FULL, candidates=2, **SMALL)
    learner.start(StreamSpec((6,), 4), seeds, "cpu")
    net = mlp_net(6, 8, 2, 4, seeds.init)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    others = 0
    for step, rows in enumerate(torch.split(torch.arange(24), 4)):
        learner.observe(x[rows], y[rows])
        sgd.zero_grad()
        cross_entropy(net(x[rows]), y[rows]).backward()
        if n := 4 * step:
            rng = np.random.default_rng([seeds.batches, step])
            drawn = rng.choice(n, min(6, n), replace=False, shuffle=False)
            grown = interference(net, 0.1, x[drawn], y[drawn])
            worst = sorted(range(len(drawn)), key=lambda i: -grown[i])[:3]
            others += worst != [0, 1, 2]
            chosen = drawn[worst]
            cross_entropy(net(x[chosen]), y[chosen]).backward()
        sgd.step()
        for p, q in zip(learner.net.parameters(), net.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-6)
    assert others >= 2


def test_a_whole_session_replays_the_worst_of_earlier_ones() -> None:
    """One step on the second session: all 16 stored samples are candidates, 8 are replayed."""
    stream = class_stream([[0, 1], [2]], n_train=8, n_val=0, spread=1.0)
    first, second = stream.sessions
    settings: dict[str, Any] = {**SMALL, "batch_size": 8, "stop": Stop(rule="epochs", epochs=1)}
    learner = MIR(memory=Memory(total=50, select="reservoir"), candidates=2, **settings)
    learner.start(stream.spec, Seeds.of(0), "cpu")
    learn_session(learner, first, context())
    net = deepcopy(learner.net).train()
    learn_session(learner, second, context())
    cross_entropy(net(second.x.tensor()), torch.from_numpy(second.y)).backward()
    x, y = first.x.tensor(), torch.from_numpy(first.y)
    grown = interference(net, 0.1, x, y)
    worst = sorted(range(16), key=lambda i: -grown[i])[:8]
    cross_entropy(net(x[worst]), y[worst]).backward()
    torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01).step()
    for p, q in zip(learner.net.parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-6)
