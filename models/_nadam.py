"""Nadam in two passes over memory a step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

BETA1, BETA2, DECAY = 0.9, 0.999, 0.004


class NAdam(torch.optim.Adam):
    """The updates of `torch.optim.NAdam`, equal up to rounding; that takes nine passes a step.

    A step is θ ← θ - lr (c_g g + c_m m) / (√v̂ + ε) with m = β₁ m' + (1 - β₁) g, where m' is the m
    of the step before. Both m and the numerator are mixtures of m' and g. So PyTorch's fused Adam
    is given the numerator's share of m', b, instead of β₁, and a rate that undoes its bias
    correction; then m is had from what it left, n = b m' + (1 - b) g, as g + β₁/b (n - g).

    **Source**: Dozat (2016), "Incorporating Nesterov momentum into Adam", with its schedule
    μ_t = β₁ (1 - 0.96^(0.004 t) / 2).

    Parameters
    ----------
    params : of a network
    lr : learning rate
    weight_decay : times θ is added to the gradient
    """

    def __init__(
        self, params: Iterable[nn.Parameter], *, lr: float, weight_decay: float = 0.0
    ) -> None:
        each = [{"params": [p]} for p in params]  # a group each: they may not all train every step
        super().__init__(each, lr=lr, betas=(BETA1, BETA2), fused=True)
        for group in self.param_groups:
            group |= {"decay": weight_decay, "taken": 0, "product": 1.0}

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # closures are not used
        """Take one step of the parameters that have a gradient."""
        groups = [(g, g["params"][0]) for g in self.param_groups]
        trained = [(g, p, g["lr"]) for g, p in groups if p.grad is not None]
        for group, p, rate in trained:
            t = group["taken"] = group["taken"] + 1
            mu, following = (BETA1 * (1 - 0.5 * 0.96 ** (k * DECAY)) for k in (t, t + 1))
            product = group["product"] = group["product"] * mu
            c_g, c_m = (1 - mu) / (1 - product), following / (1 - product * following)
            b = BETA1 * c_m / (c_g + c_m)
            group["betas"] = (b, BETA2)
            group["lr"] = rate * (c_g + c_m) * (1 - b**t)
            if group["decay"]:
                p.grad.add_(p, alpha=group["decay"])  # the fused pass keeps its sum to itself
        super().step()
        for group, p, rate in trained:
            group["lr"] = rate  # as schedulers have set it
            self.state[p]["exp_avg"].lerp_(p.grad, 1 - BETA1 / group["betas"][0])
