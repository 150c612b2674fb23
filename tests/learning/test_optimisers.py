"""Nadam: the updates of PyTorch's own, and closer to exact arithmetic."""

import pytest
import torch
from torch import nn

from embedbench.learning.optimisers import NAdam

SHAPES = ((5, 3), (5,), (2, 5))


def parameters(seed: int, dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    draw = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(s, generator=draw).to(dtype)) for s in SHAPES]


def distance(a: list[nn.Parameter], b: list[nn.Parameter]) -> float:
    return max(float((p - q).detach().abs().max()) for p, q in zip(a, b, strict=True))


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_the_updates_are_pytorchs_where_a_parameter_has_a_gradient(weight_decay: float) -> None:
    ours, theirs, exact = parameters(0), parameters(0), parameters(0, torch.float64)
    for params, kind in ((ours, NAdam), (theirs, torch.optim.NAdam), (exact, torch.optim.NAdam)):
        optimiser = kind(params, lr=0.01, weight_decay=weight_decay)
        for number in range(100):
            draw = torch.Generator().manual_seed(number)
            for p in params:
                p.grad = torch.randn(p.shape, generator=draw).to(p.dtype)
                p.grad *= 1e-8 if p.ndim == 1 else 1  # as small as ε
            params[number % 4 % 3].grad = None
            optimiser.step()
            optimiser.param_groups[0]["lr"] *= 0.99  # as on a plateau
    assert distance(parameters(0), theirs) > 0.009  # they went somewhere
    assert distance(ours, exact) < 3e-6
    assert distance(ours, theirs) < 3e-6
