"""Cosines between the gradients of single samples and mean gradients."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from embedbench.learning.loss import among
from embedbench.learning.per_sample import BLOCK, gradients, is_mlp

Samples = tuple[Tensor, Tensor]  # x (n, D) or (n, C, H, W), y (n,)


@torch.no_grad()
def most_alike(
    net: nn.Module, new: Samples, old: Samples, averaged: int, classes: Tensor | None
) -> Tensor:
    """The largest cosine of each new sample's gradient with mean gradients of old ones, (b,).

    The gradients are those of the cross-entropy over `classes` (k,), or all if None, by every
    trained parameter. In a layer a → a Wᵀ + b of a ReLU MLP the gradient of one sample is the outer
    product of δ and (a, 1). So the dot product of two gradients is (δ·δ')(a·a' + 1), and they are
    never formed. For other networks they are formed, block by block. Sums are taken in place of
    means: their cosines are the same. The cosine with a gradient of
    length 0 is 0.

    Parameters
    ----------
    net : nn.Module
        The network, in evaluation mode.
    new, old : Samples
        b and m samples, and their classes.
    averaged : int
        Old samples of each mean, in their order; the last mean may be of fewer.
    """
    group = torch.arange(len(old[1]), device=old[1].device) // averaged
    share = (group == torch.unique(group)[:, None]).float()  # (means, m)
    of = _dots_of_mlp if is_mlp(net) else _dots_of_any
    dots, new_squares, mean_squares = of(net, new, old, share, classes)
    size = new_squares.clamp(min=0).sqrt()[:, None] * mean_squares.clamp(min=0).sqrt()  # (b, means)
    return (dots / size.clamp(min=torch.finfo(size.dtype).tiny)).clamp(-1, 1).amax(1)


def _dots_of_mlp(
    net: nn.Module, new: Samples, old: Samples, share: Tensor, classes: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Dot products with the means (b, means), and squared lengths (b,) and (means,)."""
    dots = squares = among_old = torch.zeros((), device=share.device)
    for (d, a), (e, b) in zip(_parts(net, *new, classes), _parts(net, *old, classes), strict=True):
        dots = dots + (d @ e.T) * (a @ b.T + 1)
        squares = squares + d.square().sum(1) * (a.square().sum(1) + 1)
        among_old = among_old + (e @ e.T) * (b @ b.T + 1)
    return dots @ share.T, squares, (share @ among_old * share).sum(1)


def _parts(
    net: nn.Module, x: Tensor, y: Tensor, classes: Tensor | None
) -> list[tuple[Tensor, Tensor]]:
    """δ (n, out) and a (n, in) of every layer of an MLP, the last layer first."""
    linears = [m for m in net.modules() if isinstance(m, nn.Linear)]
    inputs = [x.flatten(1)]
    for layer in linears[:-1]:
        inputs.append(torch.relu(layer(inputs[-1])))
    p = among(linears[-1](inputs[-1]), classes).softmax(1)
    delta = p.scatter_add(1, y[:, None], p.new_full((len(y), 1), -1.0))  # p - e_y
    parts = [(delta, inputs[-1])]
    for k in range(len(linears) - 1, 0, -1):
        delta = (delta @ linears[k].weight) * (inputs[k] > 0)
        parts.append((delta, inputs[k - 1]))
    return parts


def _dots_of_any(
    net: nn.Module, new: Samples, old: Samples, share: Tensor, classes: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The same from the gradients themselves."""

    def loss(logits: Tensor, label: Tensor) -> Tensor:
        return cross_entropy(among(logits[None], classes), label[None])

    def of(x: Tensor, y: Tensor) -> Tensor:
        return torch.cat([g.flatten(1) for g in gradients(net, loss, x, y)], 1)

    shares = torch.split(share, BLOCK, 1)
    means = torch.zeros((), device=share.device)  # (means, parameters)
    for part, (x, y) in zip(shares, _blocks(*old), strict=True):
        means = means + part @ of(x, y)
    dots, squares = [], []
    for x, y in _blocks(*new):
        g = of(x, y)
        dots.append(g @ means.T)
        squares.append(g.square().sum(1))
    return torch.cat(dots), torch.cat(squares), means.square().sum(1)


def _blocks(x: Tensor, y: Tensor) -> list[Samples]:
    return list(zip(torch.split(x, BLOCK), torch.split(y, BLOCK), strict=True))
