"""Ridge regression from sums of second moments."""

import torch
from torch import Tensor


def ridge(gram: Tensor, targets: Tensor, lam: float, least: float) -> tuple[Tensor, float]:
    """W = (G + λI)⁻¹ Q (M, C), for G = Σ hhᵀ (M, M) and Q = Σ hyᵀ (M, C), float64; and the λ used.

    While G + λI is not positive definite, λ becomes ten times as large, and at least `least`.
    """
    while True:
        whole = gram.clone()
        whole.diagonal().add_(lam)
        factor, failed = torch.linalg.cholesky_ex(whole)
        if not int(failed):
            return torch.cholesky_solve(targets, factor), lam
        lam = max(10 * lam, least)


def add_moments(gram: Tensor, targets: Tensor, h: Tensor, y: Tensor) -> None:
    """Add HᵀH to `gram` (M, M) and HᵀY to `targets` (M, C), for h (b, M) float64 and y (b,)."""
    gram.addmm_(h.T, h)  # (M, b) @ (b, M)
    targets.index_add_(1, y, h.T)
