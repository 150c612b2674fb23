"""iCaRL: its targets, its loss, and the nearest mean of exemplars."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from teaching import SGD, assert_same_weights, descend, disturb, learn, minibatches, start, teach
from torch import Tensor
from toy import class_stream, session

from embedbench.config.make_from_settings import make
from embedbench.learning import Memory, Seeds, StreamSpec, generator
from embedbench.learning.network import mlp_net
from embedbench.models.icarl import NO_EXEMPLARS, ICaRL

SEEDS = Seeds.of(0)
SMALL: dict[str, Any] = {**SGD, "units": 8}


def plain_loss(net: Any, teacher: Any, x: Tensor, y: Tensor, new: Any, old: Any) -> Tensor:
    """Binary cross-entropy, a sample and a class at a time."""
    total = torch.zeros(())
    for v, label in zip(x, y, strict=True):
        p = torch.sigmoid(net(v))
        q = torch.sigmoid(teacher(v)).detach()
        for c in new:
            total = total - torch.log(p[c] if c == int(label) else 1 - p[c])
        for c in old:
            total = total - q[c] * torch.log(p[c]) - (1 - q[c]) * torch.log(1 - p[c])
    return total / len(x)


def test_old_classes_have_the_old_networks_sigmoids_as_targets() -> None:
    """Also for exemplars, whose label is one of the old classes; class 4 is not there at all."""
    learner = start(ICaRL(**SMALL), StreamSpec((6,), 5))
    teacher = copy.deepcopy(learner.net)
    objective = learner._objective([2, 3], [0, 1])
    disturb(learner.net)
    x = torch.randn(12, 6, generator=generator(2, 0))
    y = torch.arange(12) % 4
    found = objective(x, y)
    torch.testing.assert_close(found, plain_loss(learner.net, teacher, x, y, [2, 3], [0, 1]))
    assert torch.equal(found, objective(x, torch.where(y == 1, 0, y)))  # old labels do not matter
    found.backward()
    head = learner.net[-1].weight.grad
    assert (head[4] == 0).all()
    assert (head[:4].abs().sum(1) > 0).all()


def test_the_scale_of_a_cosine_head_begins_at_1_in_every_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = class_stream([[0, 1], [2]])
    learner = start(ICaRL(head="cosine", memory=Memory(per_class=2), **SMALL), stream.spec)
    train, begun = learner.train_with_exemplars, list[float]()

    def noted(*args: Any, **more: Any) -> Any:
        begun.append(learner.net.eta.item())
        return train(*args, **more)

    monkeypatch.setattr(learner, "train_with_exemplars", noted)
    for each in stream.sessions:
        learn(learner, each)
        assert learner.net.eta.item() != 1
    assert begun == [1, 1]


def mean_direction(features: Tensor) -> Tensor:
    """The mean of the features, each of length 1."""
    return torch.stack([f / f.norm() for f in features.detach()]).mean(0)


def test_the_whole_algorithm_written_plainly() -> None:
    stream = class_stream([[0, 1], [2], [3, 4]], n_train=10, n_val=0, spread=1.0)
    learner = start(ICaRL(memory=Memory(per_class=3), **SMALL), stream.spec)
    net = mlp_net(6, 8, 2, 5, SEEDS.init)
    old: list[int] = []
    kept_x, kept_y = torch.zeros(0, 6), torch.zeros(0, dtype=torch.int64)
    for number, s in enumerate(stream.sessions):
        learn(learner, s)
        new = sorted(set(s.y.tolist()))
        teacher = copy.deepcopy(net)
        x = torch.cat([s.x.tensor(), kept_x])
        y = torch.cat([torch.from_numpy(s.y), kept_y])
        sgd = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
        for index in minibatches(len(y), generator(SEEDS.batches, number)):
            descend(sgd, plain_loss(net, teacher, x[index], y[index], new, old))
        for c in new:
            own = s.x.tensor()[torch.from_numpy(s.y) == c]
            phi = net[:-1](own)
            mean = mean_direction(phi)
            chosen: list[int] = []
            for _ in range(3):
                far = {
                    i: float((mean - mean_direction(phi[[*chosen, i]])).norm())
                    for i in range(len(own))
                    if i not in chosen
                }
                chosen.append(min(far, key=lambda i: far[i]))
            kept_x = torch.cat([kept_x, own[chosen]])
            kept_y = torch.cat([kept_y, torch.full((3,), c)])
        old += new
        assert_same_weights(learner, net, rtol=1e-3, atol=1e-5)
        assert torch.equal(learner.exemplars.x, kept_x)
        assert torch.equal(learner.exemplars.y, kept_y)
        test = torch.cat([e.x.tensor() for e in stream.eval_sets])
        means = [mean_direction(net[:-1](kept_x[kept_y == c])) for c in old]
        for v, found in zip(test, learner.scores(test), strict=True):
            f = mean_direction(net[:-1](v)[None])
            distances = [float((f - mean / mean.norm()).norm()) for mean in means]
            assert int(found.argmax()) == old[int(np.argmin(distances))]


def test_nearest_mean_of_exemplars_by_hand() -> None:
    """No hidden layer: φ is x. Directions 0° and 90° have their mean at 45° whatever their lengths,
    180° and 180° at 180°; 110° is 65° from the first and 70° from the second.
    """
    learner = ICaRL(**{**SMALL, "layers": 0, "memory": Memory(select="all")})
    start(learner, StreamSpec((2,), 3))
    learn(learner, session(np.array([[9, 0], [0, 1], [-1, 0], [-5, 0]], np.float32), [0, 0, 2, 2]))
    angle = torch.deg2rad(torch.tensor([110.0, 115.0, 45.0]))
    scores = learner.scores(4 * torch.stack([angle.cos(), angle.sin()], 1))
    cosine = torch.cos(torch.deg2rad(torch.tensor([[65.0, 70.0], [70.0, 65.0], [0.0, 135.0]])))
    torch.testing.assert_close(scores[:, [0, 2]], cosine)
    assert (scores[:, 1] == NO_EXEMPLARS).all()


def test_answers_by_logits_need_no_exemplars() -> None:
    made = make(ICaRL, {"memory.per_class": "0", "answer": "logits"}, name="icarl")
    stream = class_stream([[0], [1]])
    learner, _ = teach(made, stream)
    assert len(learner.exemplars) == 0
    x = stream.eval_sets[0].x.tensor()
    assert torch.equal(learner.scores(x), learner.net(x))
