"""Gaussians for classes whose samples are not stored: means, covariances, discriminants."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from embedbench.errors import UserError
from embedbench.learning.prototypes import UNSEEN


def factor(x: Tensor, epsilon: float) -> Tensor:
    """Lower triangular F with F Fᵀ = Σ + εI, (T, d, d) float32, for T tables x (T, n, d).

    Σ is the sample covariance of a table; for a single sample it is 0.

    Raises
    ------
    UserError
        ε is so small, or x so large, that Σ + εI is not positive definite in float64.
    """
    away = x.double() - x.double().mean(1, keepdim=True)
    sigma = away.mT @ away / max(x.shape[1] - 1, 1)
    sigma.diagonal(dim1=1, dim2=2).add_(epsilon)
    lower, failed = torch.linalg.cholesky_ex(sigma)
    if failed.any():
        raise UserError(
            f"fr.epsilon={epsilon:g} is too small for these features; give a larger one"
        )
    factor: Tensor = lower.float()
    return factor


def most_alike(means: Tensor, base: Tensor, k: int) -> Tensor:
    """The `k` base classes whose means have the largest cosines, for each table, (m, k, T).

    Parameters
    ----------
    means : Tensor
        (m, T, d) means of the classes that need a covariance.
    base : Tensor
        (B, T, d) means of the base classes.
    """
    likeness = torch.einsum("mtd,btd->mbt", normalize(means, dim=-1), normalize(base, dim=-1))
    return likeness.topk(min(k, len(base)), dim=1).indices


def draw(
    means: Tensor, factors: Tensor, donors: Tensor, n: int, generator: torch.Generator
) -> Tensor:
    """Draw `n` features for each of P classes, for T tables independently: (T, P·n, d), by class.

    A class's covariance is the mean covariance of its K donors. Σ_k F_k z_k / √K has exactly this
    covariance, so the mean needs no factor of its own.

    Parameters
    ----------
    means : Tensor
        (P, T, d) means of the classes.
    factors : Tensor
        (B, T, d, d) lower triangular factors of the base classes.
    donors : Tensor
        (P, K, T) indices of the donors in `factors`.
    """
    tables, k = torch.arange(means.shape[1], device=means.device), donors.shape[1]
    z = torch.randn(
        (*donors.shape, n, means.shape[2]), generator=generator, device=means.device
    )  # (P, K, T, n, d)
    # class by class: indexing all factors at once would copy P·K·T·d² numbers
    noise = [(part @ factors[at, tables].mT).sum(0) for part, at in zip(z, donors, strict=True)]
    drawn: Tensor = means[:, :, None] + torch.stack(noise) / k**0.5  # (P, T, n, d)
    return drawn.transpose(0, 1).flatten(1, 2)


def deviations(x: Tensor, y: Tensor, sums: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """x - μ_y, where μ_y is the mean of the class's earlier samples, those of the batch included.

    With n_c earlier samples, Σ n_c/(n_c + 1) (x - μ_y)(x - μ_y)ᵀ is the scatter within the classes,
    in whatever order the samples come.

    Parameters
    ----------
    x : Tensor
        (b, D) samples in order, float64.
    y : Tensor
        (b,) their classes.
    sums, counts : Tensor
        (C, D) and (C,) of the samples before the batch.

    Returns
    -------
    tuple
        The deviations (b, D), where a class's first sample has x itself; and n_c (b,).
    """
    earlier = (y[:, None] == y).tril(-1).double()  # (b, b): earlier samples of the class
    before = counts[y] + earlier.sum(1)  # n_c
    so_far = torch.addmm(sums[y], earlier, x)  # (b, b) @ (b, D)
    return x - so_far / before.clamp(min=1)[:, None], before


def oas(sigma: Tensor, n: int) -> tuple[float, float]:
    """Oracle approximating shrinkage of a covariance (D, D) of n samples, Chen et al. (2010).

    Returns
    -------
    tuple
        ρ and m, the mean variance: the shrunk covariance is (1 - ρ) Σ + ρ m I.
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
