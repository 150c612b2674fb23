"""gss: cosines of gradients against autograd, and the memory against Algorithm 2 as a loop."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from teaching import ONLINE, assert_same_weights, descend, samples, start, teach
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy
from toy import class_stream

from embedbench.learning import Memory, Seeds, Stop, StreamSpec, generator
from embedbench.learning.network import Net, mlp_net
from embedbench.learning.per_sample_gradients import is_mlp
from embedbench.models.gss import GSS, most_alike, select
from embedbench.runs.stream_runner import run_stream


def slope(net: nn.Module, x: Tensor, y: Tensor, classes: list[int]) -> Tensor:
    """The gradient of the mean loss over some classes, as one vector."""
    places = torch.tensor([classes.index(c) for c in y.tolist()])
    loss = cross_entropy(net(x)[:, classes], places)
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(net.parameters()))])


@pytest.mark.parametrize("disguised", [False, True], ids=["mlp", "any net"])
@pytest.mark.parametrize("averaged", [1, 3])
def test_the_largest_cosine_is_that_of_autograd(averaged: int, disguised: bool) -> None:
    """7 old samples, so that the last of the means of 3 is one gradient."""
    net = mlp_net(6, 5, 2, 4, 0)
    net.head.bias.data[2] += 4  # of class 2 the gradients are short
    new, old = samples(0, 5, [0, 2, 3]), samples(50, 7, [0, 2, 3])
    same = Net(nn.Tanh(), *net) if disguised else net
    assert is_mlp(same) is not disguised
    for classes in ([0, 1, 2, 3], [0, 2, 3]):
        groups = torch.split(torch.arange(7), averaged)
        means = [slope(same, old[0][g], old[1][g], classes) for g in groups]
        slopes = [slope(same, x[None], y[None], classes) for x, y in zip(*new, strict=True)]
        expected = [max(float(cosine_similarity(g, m, 0)) for m in means) for g in slopes]
        limit = None if len(classes) == 4 else torch.tensor(classes)
        found = most_alike(same, new, old, averaged, limit)
        torch.testing.assert_close(found, torch.tensor(expected), rtol=1e-4, atol=1e-5)


def test_a_gradient_of_length_zero_is_like_nothing() -> None:
    net = mlp_net(6, 5, 1, 4, 0)
    new, old = samples(0, 5, [0, 2, 3]), samples(1, 4, [0, 2, 3])
    only = torch.tensor([2])  # a loss over one class is 0
    new, old = (new[0], new[1].fill_(2)), (old[0], old[1].fill_(2))
    assert most_alike(net, new, old, 2, only).tolist() == [0.0] * 5


def algorithm_2(c: list[float], held: list[float], total: int, seed: int) -> tuple[Any, Any]:
    """The paper's Algorithm 2 from the scores on: which new sample lies where, and all scores."""
    draw = np.random.default_rng(seed)
    buffer, scores = [-1] * len(held), list(held)
    for i, mine in enumerate(c):
        if len(buffer) >= total:
            if mine < 1:
                p = np.array(scores) / sum(scores)
                k = draw.choice(total, p=p)
                r = draw.uniform(0, 1)
                if r < scores[k] / (scores[k] + mine):
                    buffer[k], scores[k] = i, mine
        else:
            buffer.append(i)
            scores.append(mine)
    return {k: i for k, i in enumerate(buffer) if i >= 0}, scores


@pytest.mark.parametrize("seed", range(3))
def test_the_memory_is_that_of_algorithm_2(seed: int) -> None:
    draw = np.random.default_rng(100 + seed)
    c, held = (draw.uniform(*how).astype(np.float32) for how in ((0, 1.4, 30), (0.1, 2, 4)))
    c[9] = 1  # not below
    places, scores = select(c, held, 9, np.random.default_rng(seed))
    expected = algorithm_2(c.tolist(), held.tolist(), 9, seed)
    assert places == expected[0]
    assert scores.tolist() == expected[1]
    assert any(place < 4 for place in places)


def test_a_full_memory_takes_no_sample_that_is_like_it() -> None:
    draw = np.random.default_rng(0)
    like, old = np.array([1.0, 1.7], np.float32), np.array([1.9, 1.9], np.float32)
    places, scores = select(like, old, 2, draw)
    assert places == {}
    assert scores.tolist() == old.tolist()
    assert select(like, np.zeros(0, np.float32), 0, draw)[0] == {}
    assert select(like, old[:1], 2, draw)[0] == {1: 0}


def test_gss_takes_two_steps_and_then_offers_the_batch() -> None:
    """Twice for each batch: a step on it, a step on a draw; the memory is not full."""
    seeds, (x, y) = Seeds.of(0), samples(0, 20, [0, 2, 3])
    twice = {**ONLINE, "updates": 2, "averaged": 2, "batch_size": 3}
    learner = start(GSS(memory=Memory(total=90, select="gradients"), **twice), StreamSpec((6,), 4))
    net = mlp_net(6, 8, 2, 4, seeds.init)
    sgd = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    expected = [1.1] * 4  # nothing to be compared with
    for n, rows in enumerate(torch.split(torch.arange(20), 4)):
        learner.observe(x[rows], y[rows])
        for step in (2 * n, 2 * n + 1):
            parts = [rows]
            if n:
                rng = np.random.default_rng([seeds.batches, step])
                parts.append(torch.from_numpy(rng.choice(4 * n, 3, replace=False, shuffle=False)))
            for part in parts:
                descend(sgd, cross_entropy(net(x[part]), y[part]))
        assert_same_weights(learner, net)
        if n:
            rng = np.random.default_rng([seeds.memory, 1, n])
            old = rng.choice(4 * n, min(20, 4 * n), replace=False, shuffle=False)
            old = old[rng.permutation(len(old))]
            cosines = most_alike(net, (x[rows], y[rows]), (x[old], y[old]), 2, None)
            expected += (1 + cosines).tolist()
        assert learner.alike.tolist() == pytest.approx(expected, abs=1e-4)
    assert torch.equal(learner.exemplars.x, x)
    assert torch.equal(learner.exemplars.y, y)


@pytest.mark.parametrize("batch", [5, 0])
@pytest.mark.parametrize("total", [0, 16])
def test_the_memory_is_full_and_its_scores_are_counted(batch: int, total: int) -> None:
    stream = replace(class_stream([[0, 1], [2], [3]], spread=1.0), observe_batch=batch)
    memory, stop = Memory(total=total, select="gradients"), Stop(rule="epochs", epochs=3)
    learner = GSS(memory=memory, units=8, batch_size=3, stop=stop)
    run_stream(stream, learner, Seeds.of(0))
    assert len(learner.exemplars) == len(learner.alike) == total
    assert learner.footprint()["samples"] == total * (6 * 4 + 8 + 4)
    if total:
        assert {2, 3} <= {*learner.exemplars.y.tolist()}  # new classes replace old ones


def test_a_whole_session_is_offered_when_it_has_ended_in_random_order() -> None:
    stream = class_stream([[0, 1], [2]], n_train=12)
    made = GSS(memory=Memory(total=24, select="gradients"), units=8, batch_size=3)
    learner, _ = teach(made, stream, 1)
    order = torch.randperm(24, generator=generator(Seeds.of(0).memory, 1))
    assert torch.equal(learner.exemplars.x, stream.sessions[0].x.tensor()[order])
    assert learner.offered == 8  # batches of 3 of 24 samples
