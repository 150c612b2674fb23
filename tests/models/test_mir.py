"""mir: the samples it replays, against a copied network and a loop over the candidates."""

from copy import deepcopy
from typing import Any

import torch
from teaching import ONLINE, assert_same_weights, check_online_steps, learn, samples, teach
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from toy import class_stream

from embedbench.learning import Memory, Stop
from embedbench.learning.network import mlp_net
from embedbench.models.mir import MIR, growth


@torch.no_grad()
def interference(net: nn.Module, lr: float, x: Tensor, y: Tensor) -> Tensor:
    """How much each loss grows if a copy takes a plain step along the net's gradients."""
    copy = deepcopy(net)
    for p, q in zip(copy.parameters(), net.parameters(), strict=True):
        assert q.grad is not None
        p.sub_(lr * q.grad)
    after, before = (
        [cross_entropy(n(one[None]), label[None]) for one, label in zip(x, y, strict=True)]
        for n in (copy, net)
    )
    return torch.stack(after) - torch.stack(before)


def test_growth_over_some_classes_is_that_of_a_smaller_head() -> None:
    net = mlp_net(6, 8, 2, 4, 0)
    small = nn.Sequential(*deepcopy(net)[:-1], nn.Linear(8, 2))
    with torch.no_grad():
        small[-1].weight.copy_(net.head.weight[[0, 2]])
        small[-1].bias.copy_(net.head.bias[[0, 2]])
    (x, _), y = samples(0, 6, range(4)), torch.tensor([0, 2, 2, 0, 0, 2])
    cross_entropy(net(x)[:, [0, 2]], y // 2).backward()
    cross_entropy(small(x), y // 2).backward()
    found = growth(net, 0.5, x, y, torch.tensor([0, 2]))
    torch.testing.assert_close(found, interference(small, 0.5, x, y // 2), rtol=1e-4, atol=1e-5)


def test_growth_leaves_the_network_as_it_is() -> None:
    net = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 4))
    x, y = samples(0, 24, range(4))
    cross_entropy(net(x), y).backward()
    before = deepcopy(net.state_dict())
    slopes = [p.grad.clone() for p in net.parameters()]
    growth(net, 0.5, x, y, None)
    assert net.training
    assert all(torch.equal(v, net.state_dict()[k]) for k, v in before.items())
    assert all(torch.equal(p.grad, g) for p, g in zip(net.parameters(), slopes, strict=True))


def test_mir_replays_the_worst_candidates() -> None:
    """Every step: the batch, then the 3 of 6 drawn candidates whose loss would grow most."""
    others = 0

    def gradients(net: Any, new: Any, old: Any, draw: Any) -> None:
        nonlocal others
        cross_entropy(net(new[0]), new[1]).backward()
        if len(old[1]):
            drawn = draw(6)
            worst = interference(net, 0.1, old[0][drawn], old[1][drawn]).topk(3).indices.tolist()
            others += worst != [0, 1, 2]
            cross_entropy(net(old[0][drawn[worst]]), old[1][drawn[worst]]).backward()

    memory = Memory(total=1000, select="reservoir")
    learner = MIR(memory=memory, candidates=2, batch_size=3, **{**ONLINE, "lr": 0.1})
    x, y = samples(0, 24, range(4))
    check_online_steps(learner, zip(x.split(4), y.split(4), strict=True), gradients, lr=0.1)
    assert others >= 2


def test_a_whole_session_replays_the_worst_of_earlier_ones() -> None:
    """One step on the second session: all 16 stored samples are candidates, 8 are replayed."""
    stream = class_stream([[0, 1], [2]], n_train=8, n_val=0, spread=1.0)
    first, second = stream.sessions
    once = {**ONLINE, "lr": 0.1, "batch_size": 8, "stop": Stop(rule="epochs", epochs=1)}
    memory = Memory(total=50, select="reservoir")
    learner, _ = teach(MIR(memory=memory, candidates=2, **once), stream, 1)
    net = deepcopy(learner.net).train()
    learn(learner, second)
    cross_entropy(net(second.x.tensor()), torch.from_numpy(second.y)).backward()
    x, y = first.x.tensor(), torch.from_numpy(first.y)
    worst = interference(net, 0.1, x, y).topk(8).indices
    cross_entropy(net(x[worst]), y[worst]).backward()
    torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01).step()
    assert_same_weights(learner, net)
