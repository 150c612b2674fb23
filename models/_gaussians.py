"""Gaussians of classes whose features are gone: means, and covariances of the base classes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize


def factor(x: Tensor, epsilon: float) -> Tensor:
    """Lower triangular F with F Fᵀ = Σ + εI, (T, d, d) float32, Σ the sample covariance of each
    table of x (T, n, d); 0 of a single sample."""
    away = x.double() - x.double().mean(1, keepdim=True)
    sigma = away.mT @ away / max(x.shape[1] - 1, 1)
    sigma.diagonal(dim1=1, dim2=2).add_(epsilon)
    lower: Tensor = torch.linalg.cholesky(sigma)
    return lower.float()


def most_alike(means: Tensor, base: Tensor, k: int) -> Tensor:
    """The `k` base classes whose means have the largest cosines, for each table, (m, k, T).

    Parameters
    ----------
    means : Tensor
        (m, T, d) of the classes that borrow.
    base : Tensor
        (B, T, d) of the base classes.
    """
    likeness = torch.einsum("mtd,btd->mbt", normalize(means, dim=-1), normalize(base, dim=-1))
    return likeness.topk(min(k, len(base)), dim=1).indices


def draw(
    means: Tensor, factors: Tensor, donors: Tensor, n: int, generator: torch.Generator
) -> Tensor:
    """Draw `n` features for each of P classes, for T tables independently: (T, P·n, d), by class.

    The covariance is the mean of those of the class's K donors: Σ_k F_k z_k / √K has just that, and
    no factor of a mean is ever formed.

    Parameters
    ----------
    means : Tensor
        (P, T, d).
    factors : Tensor
        (B, T, d, d) lower triangular, of the base classes.
    donors : Tensor
        (P, K, T) places in `factors`.
    """
    tables, k = torch.arange(means.shape[1], device=means.device), donors.shape[1]
    z = torch.randn(
        (*donors.shape, n, means.shape[2]), generator=generator, device=means.device
    )  # (P, K, T, n, d)
    # class by class: the factors of all would be a copy of P·K·T·d² numbers
    noise = [(part @ factors[at, tables].mT).sum(0) for part, at in zip(z, donors, strict=True)]
    drawn: Tensor = means[:, :, None] + torch.stack(noise) / k**0.5  # (P, T, n, d)
    return drawn.transpose(0, 1).flatten(1, 2)
