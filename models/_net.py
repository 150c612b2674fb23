"""The network of gradient learners, their optimiser, and the settings that they share."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from embedbench.errors import UserError, unknown
from embedbench.learner import Footprint, Seeds, tensor_bytes
from embedbench.stream import StreamSpec

from ._nadam import NAdam

OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "nadam": NAdam,
    "adam": lambda params, **kw: torch.optim.Adam(params, fused=True, **kw),
    "sgd": lambda params, **kw: torch.optim.SGD(params, momentum=0.9, fused=True, **kw),
}


def new_net(
    learner: Any, spec: StreamSpec, seeds: Seeds, device: str
) -> tuple[nn.Sequential, torch.optim.Optimizer]:
    """A learner's MLP as a stream begins, by the settings that gradient learners share; its
    optimiser."""
    n_inputs, n_classes = spec.input_shape[0], spec.n_classes
    net = mlp_net(n_inputs, learner.units, learner.layers, n_classes, seeds.init).to(device)
    return net, optimiser_of(learner, net)


def net_bytes(learner: Any) -> Footprint:
    """Bytes of a learner's net, and of its optimiser where that is kept between sessions.

    An online learner keeps it from its first step (`steps`) on.
    """
    held = Footprint(parameters=tensor_bytes(*learner.net.parameters()))
    online = getattr(learner, "steps", 0) > 0
    if online or getattr(learner, "optimiser_state", "kept") == "kept":
        held["optimiser"] = optimiser_bytes(learner.optimiser_)
    return held


@torch.inference_mode()
def predict(net: nn.Module, x: Tensor) -> Tensor:
    """Logits of x (n, D) in evaluation mode, (n, C)."""
    net.eval()
    out: Tensor = net(x)
    return out


def mlp_net(n_inputs: int, units: int, layers: int, n_outputs: int, seed: int) -> nn.Sequential:
    """`layers` hidden layers of `units` ReLUs and a linear head; PyTorch's default
    initialisation."""
    widths = [n_inputs, *[units] * layers]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        parts: list[nn.Module] = []
        for a, b in pairwise(widths):
            parts += [nn.Linear(a, b), nn.ReLU()]
        return nn.Sequential(*parts, nn.Linear(widths[-1], n_outputs))


def make_optimiser(
    name: str, net: nn.Module, *, lr: float, weight_decay: float
) -> torch.optim.Optimizer:
    """An optimiser by name: "nadam", "adam", "sgd" (momentum 0.9)."""
    return OPTIMISERS[name](net.parameters(), lr=lr, weight_decay=weight_decay)


def optimiser_of(learner: Any, net: nn.Module) -> torch.optim.Optimizer:
    """A fresh optimiser for a net, by a learner's settings."""
    return make_optimiser(learner.optimiser, net, lr=learner.lr, weight_decay=learner.weight_decay)


def check_training(learner: Any) -> None:
    """Refuse values of the settings that gradient learners share which no training goes on with.

    Raises `UserError` for the first of units, layers, batch_size, lr, weight_decay, optimiser and
    optimiser_state that does not fit. A learner that knows no sessions has no optimiser_state: it
    keeps its optimiser.
    """
    name = type(learner).__module__.rpartition(".")[2].replace("_", "-")
    state = getattr(learner, "optimiser_state", "kept")
    for setting, value, known in (
        ("optimiser", learner.optimiser, tuple(OPTIMISERS)),
        ("optimiser_state", state, ("fresh", "kept")),
    ):
        if value not in known:
            raise unknown(f"{name}.{setting}", value, known)
    layers = getattr(learner, "layers", 0)  # not every network has a number of them
    for setting, got, fits, expected in (
        ("units", learner.units, learner.units >= 1, "at least 1"),
        ("layers", layers, layers >= 0, "at least 0"),
        ("batch_size", learner.batch_size, learner.batch_size >= 1, "at least 1"),
        ("lr", learner.lr, 0 < learner.lr < math.inf, "finite and above 0"),
        (
            "weight_decay",
            learner.weight_decay,
            0 <= learner.weight_decay < math.inf,
            "finite and at least 0",
        ),
    ):
        if not fits:
            raise UserError(f"{name}.{setting} must be {expected}, got {got}")


def optimiser_bytes(optimiser: torch.optim.Optimizer) -> int:
    """Bytes of an optimiser's moments, where it is kept from session to session."""
    moments = (v for s in optimiser.state.values() for v in s.values() if isinstance(v, Tensor))
    return tensor_bytes(*moments)


def generator(seed: int, counter: int) -> torch.Generator:
    """A generator for the `counter`-th use of `seed`, so that a resumed run draws the same."""
    state = np.random.SeedSequence([seed, counter]).generate_state(1, dtype=np.uint64)
    return torch.Generator().manual_seed(int(state[0] >> np.uint64(1)))
