"""Herding: which samples stand for a class."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize


def herding(features: Tensor, k: int) -> Tensor:
    """Numbers of `k` of n samples, (k,), best first, from features (n, d).

    With φ of length 1 and μ their mean, each choice brings the mean of those chosen nearest to μ.
    """
    phi = normalize(features)
    mean = phi.mean(0)
    size = phi.square().sum(1)
    total = torch.zeros_like(mean)
    taken = torch.zeros(len(phi), dtype=torch.bool, device=phi.device)
    chosen = torch.zeros(k, dtype=torch.int64, device=phi.device)
    for j in range(k):
        # ‖μ - (φ + Σ)/(j+1)‖² up to a factor and a constant: ‖φ‖² - 2 φ·((j+1) μ - Σ)
        distance = size - 2 * phi @ ((j + 1) * mean - total)
        best = distance.masked_fill(taken, torch.inf).argmin()
        chosen[j] = best
        taken[best] = True
        total += phi[best]
    return chosen
