"""Nadam: the updates of PyTorch's own, and closer to exact arithmetic."""

import pytest
import torch
from torch import nn

from embedbench.learning.optimisers import NAdam

SHAPES = ((5, 3), (5,), (2, 5))


def parameters(seed: int, dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    draw = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(s, generator=draw).to(dtype)) for s in SHAPES]


def step(optimiser: torch.optim.Optimizer, params: list[nn.Parameter], number: int) -> None:
    """A step with the gradients that its number draws."""
    draw = torch.Generator().manual_seed(number)
    for p in params:
        p.grad = torch.randn(p.shape, generator=draw).to(p.dtype)
    optimiser.step()


def distance(a: list[nn.Parameter], b: list[nn.Parameter]) -> float:
    return max(float((p - q).detach().abs().max()) for p, q in zip(a, b, strict=True))


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("n_steps", [1, 2, 100])
def test_the_updates_are_pytorchs(n_steps: int, weight_decay: float) -> None:
    ours, theirs, exact = parameters(0), parameters(0), parameters(0, torch.float64)
    for params, kind in ((ours, NAdam), (theirs, torch.optim.NAdam), (exact, torch.optim.NAdam)):
        optimiser = kind(params, lr=0.01, weight_decay=weight_decay)
        for number in range(n_steps):
            step(optimiser, params, number)
            optimiser.param_groups[0]["lr"] *= 0.99  # as on a plateau
    assert distance(parameters(0), theirs) > 0.009  # they went somewhere
    assert distance(ours, exact) < 3e-6
    assert distance(ours, theirs) < 3e-6


def test_parameters_train_when_they_have_a_gradient() -> None:
    ours, theirs = parameters(0), parameters(0)
    for params, kind in ((ours, NAdam), (theirs, torch.optim.NAdam)):
        optimiser = kind(params, lr=0.01, weight_decay=0.1)
        for number in range(20):
            draw = torch.Generator().manual_seed(number)
            for p in params:
                p.grad = torch.randn(p.shape, generator=draw)
            params[number % 3].grad = None
            before = params[number % 3].detach().clone()
            optimiser.step()
            assert torch.equal(params[number % 3], before)
    assert distance(ours, theirs) < 3e-6
    assert distance(ours, parameters(0)) > 0.05
