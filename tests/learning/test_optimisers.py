"""Nadam: the updates of PyTorch's own, and closer to exact arithmetic."""

import copy

import pytest
import torch
from torch import nn

from embedbench.learning.optimisers import NAdam

SHAPES = ((5, 3), (5,), (2, 5))


def parameters(seed: int, dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    draw = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(s, generator=draw).to(dtype)) for s in SHAPES]


def steps(
    optimiser: torch.optim.Optimizer, params: list[nn.Parameter], first: int, last: int
) -> None:
    """Steps number `first` to `last` - 1, each with the gradients that its number draws."""
    for number in range(first, last):
        draw = torch.Generator().manual_seed(number)
        for p in params:
            p.grad = torch.randn(p.shape, generator=draw).to(p.dtype)
        optimiser.step()


def distance(a: list[nn.Parameter], b: list[nn.Parameter]) -> float:
    return max(float((p - q).detach().abs().max()) for p, q in zip(a, b, strict=True))


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("n_steps", [1, 2, 100])
@pytest.mark.parametrize("seed", range(3))
def test_the_updates_are_pytorchs(seed: int, n_steps: int, weight_decay: float) -> None:
    ours, theirs, exact = (
        parameters(seed),
        parameters(seed),
        parameters(seed, torch.float64),
    )
    steps(NAdam(ours, lr=0.01, weight_decay=weight_decay), ours, 0, n_steps)
    for params in (theirs, exact):
        optimiser = torch.optim.NAdam(params, lr=0.01, weight_decay=weight_decay)
        steps(optimiser, params, 0, n_steps)
    assert distance(parameters(seed), theirs) > 0.009  # they went somewhere
    assert distance(ours, exact) < 3e-6
    assert distance(ours, theirs) < 3e-6


def test_a_saved_state_goes_on_identically() -> None:
    whole, half = parameters(0), parameters(0)
    steps(NAdam(whole, lr=0.01), whole, 0, 20)
    first = NAdam(half, lr=0.01)
    steps(first, half, 0, 10)
    resumed = NAdam(half, lr=0.5)  # the state brings its own rate
    resumed.load_state_dict(copy.deepcopy(first.state_dict()))
    steps(resumed, half, 10, 20)
    assert distance(whole, half) == 0


def test_a_scheduler_lowers_the_rate() -> None:
    ours, theirs = parameters(0), parameters(0)
    for params, kind in ((ours, NAdam), (theirs, torch.optim.NAdam)):
        optimiser = kind(params, lr=0.01)
        schedule = torch.optim.lr_scheduler.StepLR(optimiser, step_size=1, gamma=0.1)
        for number in range(3):
            steps(optimiser, params, number, number + 1)
            schedule.step()
    assert optimiser.param_groups[0]["lr"] == pytest.approx(1e-5)
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
