"""Optimisers by name, and the bytes of their states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .learner import tensor_bytes
from .nadam import NAdam

OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "nadam": NAdam,
    "adam": lambda params, **kw: torch.optim.Adam(params, fused=True, **kw),
    "sgd": lambda params, **kw: torch.optim.SGD(params, momentum=0.9, fused=True, **kw),
    "plain-sgd": lambda params, **kw: torch.optim.SGD(params, fused=True, **kw),
}


def make_optimiser(
    name: str, net: nn.Module, *, lr: float, weight_decay: float
) -> torch.optim.Optimizer:
    """An optimiser by name: "nadam", "adam", "sgd" (momentum 0.9), "plain-sgd"."""
    return OPTIMISERS[name](trainable_parameters(net), lr=lr, weight_decay=weight_decay)


def trainable_parameters(net: nn.Module) -> list[nn.Parameter]:
    """The parameters of a net that are trained, in the order of the net."""
    return [p for p in net.parameters() if p.requires_grad]


def fresh_optimiser(learner: Any, net: nn.Module) -> torch.optim.Optimizer:
    """A fresh optimiser for a net, with a learner's settings."""
    return make_optimiser(learner.optimiser, net, lr=learner.lr, weight_decay=learner.weight_decay)


def optimiser_bytes(optimiser: torch.optim.Optimizer) -> int:
    """Bytes of an optimiser's moments, for one that is kept between sessions."""
    moments = (v for s in optimiser.state.values() for v in s.values() if isinstance(v, Tensor))
    return tensor_bytes(*moments)
