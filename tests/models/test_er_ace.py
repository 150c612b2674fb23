"""er-ace: its two losses by hand and written plainly, and what it forgets at a border."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from toy import class_stream, context

from embedbench.config.run_seeds import Seeds
from embedbench.learning.exemplars import Memory
from embedbench.learning.learner import learn_session
from embedbench.learning.network import mlp_net
from embedbench.learning.stopping import Stop
from embedbench.models.er import ER
from embedbench.models.er_ace import ERACE
from embedbench.streams.stream import StreamSpec

SMALL: dict[str, Any] = {
    "units": 8, "lr": 0.05, "weight_decay": 0.01, "batch_size": 6, "updates": 1,
}  # fmt: skip
EMPTY = Memory(total=0, select="reservoir")
NEVER_FULL = Memory(total=1000, select="reservoir")


def plain_loss(net: Any, x: Tensor, y: Tensor, classes: list[int]) -> Tensor:
    """Mean cross-entropy over some classes, sample by sample."""
    losses = []
    for one, label in zip(x, y.tolist(), strict=True):
        e = net(one[None])[0].exp()
        losses.append(-torch.log(e[label] / sum(e[c] for c in classes)))
    return torch.stack(losses).mean()


def weights(learner: Any) -> Tensor:
    return torch.cat([p.detach().flatten() for p in learner.net.parameters()])


def test_gradient_of_new_samples_by_hand() -> None:
    """Logits 0 over the classes 0 and 2 of the batch: probabilities 1/2, and none for 1 and 3."""
    learner = ERACE(trunk="linear")
    learner.start(StreamSpec((2,), 4), Seeds.of(0), "cpu")
    torch.nn.init.zeros_(learner.net.head.weight)
    torch.nn.init.zeros_(learner.net.head.bias)
    learner.exemplars.add(torch.ones(3, 2), torch.tensor([1, 3, 0]))  # seen, and not in the batch
    loss = learner.loss(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([2, 0]), None)
    loss.backward()
    assert loss.item() == pytest.approx(np.log(2))
    expected = [[0.25, -0.5], [0.0, 0.0], [-0.25, 0.5], [0.0, 0.0]]
    assert learner.net.head.weight.grad is not None
    assert learner.net.head.weight.grad.tolist() == expected
    assert learner.net.head.bias.grad is not None
    assert learner.net.head.bias.grad.tolist() == [0.0] * 4


@pytest.mark.parametrize("seed", range(3))
def test_er_ace_is_its_equation(seed: int) -> None:
    """Class 3 is seen by neither loss before it comes, class 0 by the draw alone once it is old."""
    seeds = Seeds.of(seed)
    draw = np.random.default_rng(seed)
    x = torch.from_numpy(draw.normal(size=(24, 6)).astype(np.float32))
    y = torch.tensor([0, 1] * 4 + [1, 2] * 4 + [2, 3] * 4)
    learner = ERACE(memory=NEVER_FULL, **SMALL)
    learner.start(StreamSpec((6,), 4), seeds, "cpu")
    net = mlp_net(6, 8, 2, 4, seeds.init)
    sgd = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    for step, rows in enumerate(torch.split(torch.arange(24), 4)):
        learner.observe(x[rows], y[rows])
        loss = plain_loss(net, x[rows], y[rows], sorted(set(y[rows].tolist())))
        if n := 4 * step:
            rng = np.random.default_rng([seeds.batches, step])
            old = rng.choice(n, min(6, n), replace=False, shuffle=False)
            seen = sorted(set(y[: n + 4].tolist()))
            loss = loss + plain_loss(net, x[old], y[old], seen)
        sgd.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        sgd.step()
        for p, q in zip(learner.net.parameters(), net.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-6)


def test_without_memory_and_with_all_classes_in_the_batch_it_is_er() -> None:
    x = torch.randn(12, 6, generator=torch.Generator().manual_seed(0))
    ends = []
    for cls in (ER, ERACE):
        learner = cls(memory=EMPTY, **SMALL)
        learner.start(StreamSpec((6,), 4), Seeds.of(0), "cpu")
        for rows in torch.split(torch.arange(12), 4):
            learner.observe(x[rows], torch.arange(4))
        ends.append(weights(learner))
    torch.testing.assert_close(ends[0], ends[1], rtol=0, atol=1e-7)


def test_a_whole_session_replays_earlier_ones_in_every_step() -> None:
    """One step on a session of class 2: alone, its loss is 0, so the draw alone moves the net."""
    stream = class_stream([[0, 1], [2]], n_train=8, n_val=0)
    first, second = stream.sessions
    memory = Memory(total=50, select="reservoir")
    settings: dict[str, Any] = {**SMALL, "batch_size": 16, "stop": Stop(rule="epochs", epochs=1)}
    learner = ERACE(memory=memory, **settings)
    learner.start(stream.spec, Seeds.of(0), "cpu")
    learn_session(learner, first, context())
    net = mlp_net(6, 8, 2, 3, 0)
    net.load_state_dict(learner.net.state_dict())
    learn_session(learner, second, context())
    sgd = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    x, y = first.x.tensor(), torch.from_numpy(first.y)
    plain_loss(net, x, y, [0, 1, 2]).backward()  # type: ignore[no-untyped-call]  # a draw of all 16
    sgd.step()
    for p, q in zip(learner.net.parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-6)
    assert len(learner.exemplars) == 24


def test_new_classes_alone_leave_the_rows_of_older_ones_where_they_are() -> None:
    """The paper's claim: er pushes them down, and so forgets right after a border."""
    x = torch.randn(8, 6, generator=torch.Generator().manual_seed(0))
    moved = {}
    for cls in (ER, ERACE):
        learner = cls(memory=EMPTY, units=8, lr=0.05, weight_decay=0.0, optimiser="plain-sgd")
        learner.start(StreamSpec((6,), 4), Seeds.of(0), "cpu")
        learner.observe(x[:4], torch.tensor([0, 1, 0, 1]))
        before = learner.net.head.bias.detach().clone()
        learner.observe(x[4:], torch.tensor([2, 3, 2, 3]))
        moved[cls] = (learner.net.head.bias.detach() - before)[:2]
    assert moved[ERACE].tolist() == [0.0, 0.0]
    assert bool((moved[ER] < -0.005).all())
