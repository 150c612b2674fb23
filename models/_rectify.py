"""Feature rectification: the modules of all layers, computed together, and their losses."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import (
    cosine_similarity,
    cross_entropy,
    gelu,
    kl_div,
    layer_norm,
    smooth_l1_loss,
)

from embedbench.errors import UserError, unknown
from embedbench.streams.stream import StreamSpec


class _Linear(nn.Module):
    """L linear maps at once, x (L, n, inputs) to (L, n, outputs); PyTorch's initialisation."""

    def __init__(self, layers: int, inputs: int, outputs: int) -> None:
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.empty(layers, inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(layers, 1, outputs).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, x, self.weight)


class _Perceptron(nn.Module):
    """FC → GELU → LayerNorm → FC, for L layers at once."""

    def __init__(self, layers: int, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.enter = _Linear(layers, inputs, hidden)
        self.gain = nn.Parameter(torch.ones(layers, 1, hidden))
        self.shift = nn.Parameter(torch.zeros(layers, 1, hidden))
        self.leave = _Linear(layers, hidden, outputs)

    def forward(self, x: Tensor) -> Tensor:
        h = layer_norm(gelu(self.enter(x)), self.gain.shape[-1:], eps=1e-6)
        out: Tensor = self.leave(h * self.gain + self.shift)
        return out


class Rectifier(nn.Module):
    """X_FR = M_mix(cat(M_I(X_l), M_F(X))), one module for each of L layers.

    M_F and M_I are d → hidden → d, M_mix is 2d → 2d → d.

    Parameters
    ----------
    layers : int
        L.
    width : int
        d.
    seed : int
        Seed of the initial weights.
    """

    def __init__(self, layers: int, width: int, hidden: int, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.final = _Perceptron(layers, width, hidden, width)
            self.intermediate = _Perceptron(layers, width, hidden, width)
            self.mix = _Perceptron(layers, 2 * width, 2 * width, width)

    def forward(self, final: Tensor, layers: Tensor) -> Tensor:
        """Rectified features (L, n, d) of final (n, d) and intermediate ones (L, n, d)."""
        both = torch.cat([self.intermediate(layers), self.final(final.expand_as(layers))], dim=-1)
        out: Tensor = self.mix(both)
        return out


def cosine_constraint(rectified: Tensor, final: Tensor) -> Tensor:
    """Mean of 1 - cos(X_FR, X), (L,); rectified (L, n, d), final (n, d)."""
    return (1 - cosine_similarity(rectified, final, dim=-1)).mean(-1)


def novel_entropy(logits: Tensor, y: Tensor, novel: Tensor) -> Tensor:
    """Cross-entropy of the novel samples, a mean over them, (L,); 0 where there are none.

    Parameters
    ----------
    logits : Tensor
        (L, n, C) over all classes seen.
    y : Tensor
        (n,) indices of the labels among the classes seen.
    novel : Tensor
        (n,) bool, whether a sample is of a novel class.
    """
    if not novel.any():
        return logits.new_zeros(len(logits))
    chosen = logits[:, novel]
    each = cross_entropy(chosen.transpose(1, 2), y[novel].expand(len(chosen), -1), reduction="none")
    return each.mean(-1)


def class_relation(logits: Tensor, targets: Tensor) -> Tensor:
    """KL(softmax(targets) ‖ softmax(logits)), mean over samples, (L,); both (L, n, C).

    The targets get no gradient.
    """
    mine, aim = logits.log_softmax(-1), targets.detach().log_softmax(-1)
    return kl_div(mine, aim, reduction="none", log_target=True).sum(-1).mean(-1)


def instance_relation(rectified: Tensor, layers: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Smooth L1 between the pairwise distances of X_FR and those of X_l.

    Returns two means (L,): over pairs (i, j) of the same class (with i = j), and over pairs of
    different classes. A mean over no pairs is 0.

    Parameters
    ----------
    rectified, layers : Tensor
        (L, n, d); `layers` gets no gradient.
    y : Tensor
        (n,) labels.
    """
    with torch.no_grad():
        targets = _distances(layers)
    each = smooth_l1_loss(_distances(rectified), targets, reduction="none")  # (L, n, n)
    alike = (y[:, None] == y).to(each.dtype)
    total, same = each.sum((1, 2)), (each * alike).sum((1, 2))
    pairs = alike.sum()
    return same / pairs, (total - same) / (alike.numel() - pairs).clamp(min=1)


def _distances(x: Tensor) -> Tensor:
    """Euclidean distances within x (L, n, d), (L, n, n); the gradient at 0 is 0."""
    squares = x.square().sum(-1)
    below = torch.baddbmm(squares[:, None], x, x.mT, alpha=-2) + squares[:, :, None]
    off = 1 - torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    return (below * off).clamp(min=1e-12).sqrt()


def slices(spec: StreamSpec, names: str) -> list[tuple[int, int]]:
    """Columns of the final embedding, then of the layers in `names`; all have the same width."""
    if not spec.layers:
        raise UserError(
            "fr needs intermediate embeddings, and this stream has none: make a file that has them "
            "with embedbench extract … --layers last4"
        )
    listed = spec.layers if names == "all" else names.replace(" ", "").split(",")
    chosen = list(dict.fromkeys(listed))
    for name in chosen:
        if name not in spec.layers:
            raise unknown("layer", name, spec.layers)
    width = min(first for first, _ in spec.layers.values())
    for name in chosen:
        first, end = spec.layers[name]
        if end - first != width:
            raise UserError(
                f"fr needs layers as wide as the final embedding, {width} columns, and {name} has "
                f"{end - first}; choose others with --set fr.layers=…"
            )
    return [(0, width), *(spec.layers[name] for name in chosen)]
