"""FR of Tang et al. (2024) once more, one layer at a time, from its equations; in float64.

What the equations leave open follows the authors' code (iSEE-Laboratory/Revisting_FSCIL, c25bfd9;
facts only, every line here is ours): the order of the parts of a block and of the two features, the
norm's ε, s = 16, the sign of the cosine term, what is averaged, final prototypes in both softmaxes,
pairs of a sample with itself, and gAcc's value at α = 0 of the base session.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

SCALE = 16.0


class Block(nn.Module):
    """FC, GELU, LayerNorm, FC."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(inputs, hidden, dtype=torch.float64)
        self.norm = nn.LayerNorm(hidden, eps=1e-6, dtype=torch.float64)
        self.fc2 = nn.Linear(hidden, outputs, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc2(self.norm(nn.functional.gelu(self.fc1(x))))
        return out


class Module(nn.Module):
    """Eq. 7: X_FR = M_mix(cat(M_I(X_l), M_F(X)))."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.intermediate = Block(width, hidden, width)
        self.final = Block(width, hidden, width)
        self.mix = Block(2 * width, 2 * width, width)

    def forward(self, layer: Tensor, final: Tensor) -> Tensor:
        out: Tensor = self.mix(torch.cat([self.intermediate(layer), self.final(final)], dim=1))
        return out


@dataclass(frozen=True)
class Batch:
    """Final features (n, d), those of one layer, labels (n,), and prototypes P (C, d)."""

    final: Tensor
    layer: Tensor
    y: Tensor
    prototypes: Tensor
    n_base: int  # classes below are base classes

    def logits(self, x: Tensor) -> Tensor:
        """Logits s cos(x, P), (n, C)."""
        lengths = x.norm(dim=1)[:, None] * self.prototypes.norm(dim=1)
        return SCALE * (x @ self.prototypes.T) / lengths


def five(rectified: Tensor, batch: Batch) -> list[Tensor]:
    """The five losses of one layer, Eqs. 8 to 11; each without its weight."""
    n = len(rectified)
    cosine = (rectified * batch.final).sum(1) / rectified.norm(dim=1) / batch.final.norm(dim=1)
    log_p = torch.log_softmax(batch.logits(rectified), dim=1)
    novel = batch.y >= batch.n_base
    picked = log_p[torch.arange(n), batch.y][novel]
    entropy = -picked.mean() if novel.any() else rectified.new_zeros(())
    target = torch.softmax(batch.logits(batch.layer), dim=1).detach()
    divergence = (target * (target.log() - log_p)).sum() / n
    i, j = torch.triu_indices(n, n, offset=1)
    off = distances(rectified, i, j) - distances(batch.layer.detach(), i, j)
    each = torch.where(off.abs() < 1, off.square() / 2, off.abs() - 0.5)
    alike = batch.y[i] == batch.y[j]
    # a pair counts in both directions; a sample and itself are at distance 0 in both spaces
    same = 2 * each[alike].sum() / (2 * alike.sum() + n)
    different = each[~alike].mean() if (~alike).any() else rectified.new_zeros(())
    return [(1 - cosine).mean(), entropy, divergence, same, different]


def distances(x: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """Euclidean distances of the rows i and j."""
    return (x[i] - x[j]).norm(dim=1)


def gacc(accuracies: Sequence[Sequence[float]], ratio: int) -> float:
    """The one number of the paper: first means over sessions by a = α r, then their area.

    Parameters
    ----------
    accuracies : sequence of sequence of float
        Row i: the accuracies on the sessions 0 … i after session i.
    ratio : int
        r = |base|/|novel|.
    """
    means = []
    for a in range(ratio + 1):
        values = []
        for base, *novel in accuracies:
            weight = a + len(novel)
            values.append((a * base + sum(novel)) / weight if weight else 0.0)
        means.append(sum(values) / len(values))
    return (sum(means) - (means[0] + means[-1]) / 2) / ratio
