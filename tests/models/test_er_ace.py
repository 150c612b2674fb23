"""er-ace: its gradient by hand, and its equation, a step at a time."""

from typing import Any

import numpy as np
import pytest
import torch
from teaching import NEVER_FULL, SIXES, check_online_steps, start
from torch import Tensor

from embedbench.learning import StreamSpec
from embedbench.models.er_ace import ERACE


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

    learner = ERACE(memory=NEVER_FULL, **SIXES)
    check_online_steps(learner, zip(x.split(4), y.split(4), strict=True), gradients)
