"""er, agem, derpp, er-ace, gdumb: each against the plain algorithm, a step or epoch at a time."""

import math
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from teaching import (
    ONLINE,
    SGD,
    assert_same_weights,
    batches_of,
    check_online_steps,
    descend,
    start,
    teach,
    weights,
)
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss
from toy import class_stream

from embedbench.learning import Memory, Seeds, Stop, StreamSpec
from embedbench.learning.network import mlp_net
from embedbench.models import gdumb
from embedbench.models.agem import AGEM, project
from embedbench.models.derpp import DERpp
from embedbench.models.er import ER
from embedbench.models.er_ace import ERACE
from embedbench.models.gdumb import GDumb
from embedbench.streams.stream import Stream

SEEDS = Seeds.of(0)
SMALL: dict[str, Any] = {**ONLINE, "batch_size": 6}
NEVER_FULL = Memory(total=1000, select="reservoir")


def stream_of(n_train: int = 12) -> Stream:
    return class_stream([[0, 1], [2], [3]], n_train=n_train, spread=1.0)


def taught(learner: Any, stream: Stream, size: int) -> Any:
    start(learner, stream.spec)
    for x, y in batches_of(stream, size):
        learner.observe(x, y)
    return learner


def moved(a: Any, b: Any) -> float:
    return max(float((p - q).abs().max()) for p, q in zip(weights(a), weights(b), strict=True))


def test_er_trains_on_the_batch_and_a_draw_of_all_before_it() -> None:
    def gradients(net: Any, new: Any, old: Any, draw: Any) -> None:
        chosen = draw(6)
        x, y = (torch.cat([a, b[chosen]]) for a, b in zip(new, old, strict=True))
        cross_entropy(net(x), y).backward()

    check_online_steps(ER(memory=NEVER_FULL, **SMALL), batches_of(stream_of(), 5), gradients)


def test_projection_by_hand() -> None:
    r = torch.tensor([0.0, 2.0])
    assert project(torch.tensor([3.0, -1.0]), r).tolist() == [3.0, 0.0]
    assert project(torch.tensor([3.0, 1.0]), r).tolist() == [3.0, 1.0]
    assert project(torch.tensor([3.0, -1.0]), torch.zeros(2)).tolist() == [3.0, -1.0]
    assert project(torch.tensor([3.0, -1.0]), 1e-25 * r).tolist() == [3.0, 0.0]


def test_agem_steps_along_the_projected_gradient() -> None:
    signs = []

    def gradients(net: Any, new: Any, old: Any, draw: Any) -> None:
        cross_entropy(net(new[0]), new[1]).backward()
        if not len(old[1]):
            return
        chosen, parameters = draw(6), list(net.parameters())
        loss = cross_entropy(net(old[0][chosen]), old[1][chosen])
        reference = torch.autograd.grad(loss, parameters)
        pairs = list(zip(parameters, reference, strict=True))
        dot = sum(float((p.grad * r).sum()) for p, r in pairs)
        size = sum(float(r.square().sum()) for r in reference)
        signs.append(dot < 0)
        for p, r in pairs if dot < 0 else []:
            p.grad = p.grad - dot / size * r

    check_online_steps(AGEM(memory=NEVER_FULL, **SMALL), batches_of(stream_of(), 5), gradients)
    assert {*signs} == {True, False}


def test_agem_projects_in_every_step_of_later_sessions_of_the_same_classes() -> None:
    with mock.patch.object(AGEM, "_constrain") as projected:
        teach(AGEM(**SGD), class_stream([[0, 1], [0, 1]]))  # three epochs of 40 samples by 8
    assert [len(call.args[0]) for call in projected.call_args_list] == [8] * 15


@pytest.mark.parametrize("seen_alone", [False, True])
@pytest.mark.parametrize(("alpha", "beta"), [(0.4, 0.0), (0.4, 0.7), (0.0, 0.7)])
def test_derpp_is_its_equation(alpha: float, beta: float, seen_alone: bool) -> None:
    """At β = 0 it is DER. Over the classes seen, a class's stored logits count once it has come."""
    stored = []

    def gradients(net: Any, new: Any, old: Any, draw: Any) -> None:
        n = max(*new[1].tolist(), *old[1].tolist()) + 1 if seen_alone else 4
        z = net(new[0])
        loss = cross_entropy(z[:, :n], new[1])
        if stored:
            first = draw(6)
            loss = loss + alpha * mse_loss(net(old[0][first])[:, :n], torch.cat(stored)[first, :n])
            if beta:
                second = draw(6)
                loss = loss + beta * cross_entropy(net(old[0][second])[:, :n], old[1][second])
        loss.backward()
        stored.append(z.detach())

    learner = DERpp(memory=NEVER_FULL, alpha=alpha, beta=beta, **SMALL)
    check_online_steps(learner, batches_of(stream_of(), 5), gradients, loss_over_seen=seen_alone)
    kept = learner.exemplars.state_dict()["logits"]
    torch.testing.assert_close(kept, torch.cat(stored), rtol=1e-4, atol=1e-5)


def loss_over(net: Any, x: Tensor, y: Tensor, classes: Tensor) -> Tensor:
    """Mean cross-entropy over some classes, sample by sample."""
    losses = []
    for one, label in zip(x, y.tolist(), strict=True):
        e = net(one[None])[0].exp()
        losses.append(-torch.log(e[label] / sum(e[c] for c in classes)))
    return torch.stack(losses).mean()


def test_gradient_of_new_samples_by_hand() -> None:
    """Logits 0 over the classes 0 and 2 of the batch: probabilities 1/2, and none for 1 and 3."""
    learner = start(ERACE(trunk="linear"), StreamSpec((2,), 4))
    torch.nn.init.zeros_(learner.net.head.weight)
    torch.nn.init.zeros_(learner.net.head.bias)
    learner.exemplars.add(torch.ones(3, 2), torch.tensor([1, 3, 0]))  # seen, and not in the batch
    loss = learner.loss(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([2, 0]), None)
    loss.backward()
    assert loss.item() == pytest.approx(np.log(2))
    expected = [[0.25, -0.5], [0.0, 0.0], [-0.25, 0.5], [0.0, 0.0]]
    assert learner.net.head.weight.grad.tolist() == expected
    assert learner.net.head.bias.grad.tolist() == [0.0] * 4


def test_er_ace_is_its_equation() -> None:
    """Class 3 is seen by neither loss before it comes, class 0 by the draw alone once it is old."""
    x = torch.randn(24, 6, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([0, 1] * 4 + [1, 2] * 4 + [2, 3] * 4)

    def gradients(net: Any, new: Any, old: Any, draw: Any) -> None:
        loss = loss_over(net, *new, new[1].unique())
        if len(old[1]):
            chosen = draw(6)
            seen = torch.cat([old[1], new[1]]).unique()
            loss = loss + loss_over(net, old[0][chosen], old[1][chosen], seen)
        loss.backward()

    learner = ERACE(memory=NEVER_FULL, **SMALL)
    check_online_steps(learner, zip(x.split(4), y.split(4), strict=True), gradients)


def test_gdumb_learns_from_the_memory_alone_and_from_scratch() -> None:
    """The network depends on what is stored, not on when or how often it was asked."""
    stop, memory = Stop(rule="epochs", epochs=4), Memory(total=20, select="balanced")
    settings: dict[str, Any] = {"units": 8, "batch_size": 6, "stop": stop, "memory": memory}
    stream = stream_of(n_train=25)
    once = taught(GDumb(**settings), stream, 6)
    once.prepare()
    often = start(GDumb(**settings), stream.spec)
    for x, y in batches_of(stream, 6):
        often.observe(x, y)
        often.prepare()
    assert moved(often, once) == 0.0
    x, y, none = once.exemplars.x, once.exemplars.y, once._session()
    assert len(none.val_x) == len(none.val_y) == 0
    net = mlp_net(6, 8, 2, 4, SEEDS.init)
    sgd = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-6)
    draw = gdumb.generator(SEEDS.batches, 100)
    for rate in (0.005, 0.05, 0.05, 0.02525):
        for index in torch.split(torch.randperm(20, generator=draw), 6):
            sgd.param_groups[0]["lr"] = rate
            descend(sgd, cross_entropy(net(x[index]), y[index]))
    assert_same_weights(once, net)


def test_gdumbs_learning_rate_by_hand() -> None:
    learner = GDumb(lr=0.05, lr_min=0.01)
    low = 0.02 * math.cos(math.pi / 4)
    expected = [0.005, 0.05, 0.05, 0.03, 0.05, 0.03 + low, 0.03, 0.03 - low, 0.05]
    assert [learner.rate(k) for k in range(9)] == pytest.approx(expected)


def test_gdumb_clips_its_gradients() -> None:
    nets = []
    for clip in (1e-6, 10.0):
        stop = Stop(rule="epochs", epochs=5)
        nets.append(taught(GDumb(units=8, clip=clip, weight_decay=0.0, stop=stop), stream_of(), 6))
        nets[-1].prepare()
    fresh = start(GDumb(units=8), stream_of().spec)
    assert moved(nets[0], fresh) < 1e-3 < 0.01 < moved(nets[1], fresh)


def test_gdumb_is_presented_what_came_since_it_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    class Noted(gdumb.Training):
        def run(self, *given: Any) -> dict[str, Any]:
            limits.append(self.presented)
            return {}

    monkeypatch.setattr(gdumb, "Training", Noted)
    learner = start(GDumb(units=8, passes=1.5), stream_of().spec)
    for n in (0, 30, 0, 10):
        learner.observe(torch.zeros(n, 6), torch.zeros(n, dtype=torch.int64))
        learner.prepare()
    assert limits == [45, 15]
