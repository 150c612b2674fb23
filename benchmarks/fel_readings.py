"""Readings of FEL that are no settings of `fel`: learners for `run_fel.py` alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from embedbench.config.run_seeds import Seeds, generator
from embedbench.learning.learner import Context
from embedbench.learning.training_loop import Hooks, Loop, Training, train
from embedbench.models.fel import FEL
from embedbench.streams.stream import Session, StreamSpec

MEMBERS = 3
SPARSITY = 0.1  # of the largest |Dᵀh| of a sample: the weight of the L1 norm of a code
STEPS, LAST = 25, 3  # iterations of a code; how many of them pass the gradient


@dataclass
class Plateau(FEL):
    """The rate is divided by 10 after two epochs without a smaller loss; sessions reset nothing."""

    state: ClassVar[dict[str, str]] = {**FEL.state, "plateau": "transient"}

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        super().start(spec, seeds, device)
        self.plateau = ReduceLROnPlateau(self.optimiser_, factor=0.1, patience=1)

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        draws = generator(self.seeds.batches, self.learned)
        how = Loop(self.batch_size, self.stop, draws, self.device)
        training = Training(self.net, self.optimiser_, session, how, Hooks())
        for _ in range(self.stop.epochs):
            loss = training.epoch()
            self.plateau.step(loss)
        self.net.eval()
        return {"loss": loss, "lr": self.optimiser_.param_groups[0]["lr"]}


@dataclass
class Ensemble(FEL):
    """Three networks, each with fixed weights of its own; the mean of their softmaxes answers."""

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        members = []
        for k in range(MEMBERS):
            super().start(spec, Seeds.of(seeds.init + k), device)
            members.append(self.net)
        self.net, self.seeds = _Mean(members), seeds

    def learn(self, session: Session, ctx: Context) -> dict[str, Any]:
        return train(self, session, ctx, objective=self.net.loss)


class _Mean(nn.Module):
    def __init__(self, members: list[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([m(x).log_softmax(1) for m in self.members]).logsumexp(0)

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Each member learns by itself: the sum of their losses."""
        return torch.stack([nn.functional.cross_entropy(m(x), y) for m in self.members]).sum()


@dataclass
class Codes(FEL):
    """The version of 2013: a sparse code of the first layer's output over the fixed weights.

    The code s minimises |h - D s|²/2 + γ|s|₁, as feature-sign search does. Here proximal gradient
    steps find it: the problem is convex, so the solver does not decide where it ends. The gradient
    passes through the last steps.
    """

    def start(self, spec: StreamSpec, seeds: Seeds, device: str) -> None:
        super().start(spec, seeds, device)
        self.net = _Code(self.net)


class _Code(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.hidden, self.head = net.hidden, net.head
        self.register_buffer("atoms", net.expand)  # (h, F)
        self.bound = float(torch.linalg.matrix_norm(net.expand, 2)) ** 2

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.hidden(x))
        correlation = h.detach() @ self.atoms  # (n, F)
        least = SPARSITY * correlation.abs().amax(1, keepdim=True)
        code = momentum = torch.zeros_like(correlation)
        t = 1.0
        with torch.no_grad():
            for _ in range(STEPS - LAST):
                new = self._step(momentum, h, least)
                t_new = (1 + (1 + 4 * t * t) ** 0.5) / 2
                momentum, code, t = new + (t - 1) / t_new * (new - code), new, t_new
        for _ in range(LAST):
            code = self._step(code, h, least)
        return self.head(code)

    def _step(self, code: Tensor, h: Tensor, least: Tensor) -> Tensor:
        moved = code + (h - code @ self.atoms.T) @ self.atoms / self.bound
        return (moved.abs() - least / self.bound).clamp_min(0) * moved.sign()
