"""The covariance that all classes share: scatter, shrinkage, and linear discriminants."""

import torch
from torch import Tensor

from embedbench.learning import UNSEEN


def deviations(x: Tensor, y: Tensor, sums: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """x - μ_y, where μ_y is the mean of the class's earlier samples, those of the batch included.

    With n_c earlier samples, Σ n_c/(n_c + 1) (x - μ_y)(x - μ_y)ᵀ is the scatter within the classes,
    in whatever order the samples come. x (b, D) float64 and y (b,) are in order; `sums` (C, D) and
    `counts` (C,) are of the samples before the batch. Returns the deviations (b, D), where a
    class's first sample has x itself; and n_c (b,).
    """
    earlier = (y[:, None] == y).tril(-1).double()  # (b, b): earlier samples of the class
    before = counts[y] + earlier.sum(1)  # n_c
    so_far = torch.addmm(sums[y], earlier, x)  # (b, b) @ (b, D)
    return x - so_far / before.clamp(min=1)[:, None], before


def oas(sigma: Tensor, n: int) -> tuple[float, float]:
    """Oracle approximating shrinkage of a covariance (D, D) of n samples, Chen et al. (2010).

    Returns ρ and m, the mean variance: the shrunk covariance is (1 - ρ) Σ + ρ m I.
    """
    width = len(sigma)
    mean = float(sigma.trace()) / width
    alpha = float(sigma.square().mean())
    below = (n + 1) * (alpha - mean**2 / width)
    return (1.0 if below <= 0 else min(1.0, (alpha + mean**2) / below)), mean


def discriminants(sigma: Tensor, means: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Linear discriminants of equal priors: w_c = Σ⁻¹ μ_c (C, D), b_c = -½ μ_c·w_c (C,).

    A class without samples has the bias `UNSEEN`.
    """
    weights = torch.cholesky_solve(means.T, torch.linalg.cholesky(sigma)).T
    return weights, (means * weights).sum(1).mul(-0.5).masked_fill(counts == 0, UNSEEN)
