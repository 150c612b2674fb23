"""The diagonal of the Fisher information of a network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from embedbench.learning.optimisers import trainable_parameters
from embedbench.learning.per_sample import BLOCK, gradients, is_mlp

FISHER_BATCH = 1024  # samples; larger batches do not fit a processor's caches


@torch.no_grad()
def fisher_diagonal(
    net: nn.Module,
    x: Tensor,
    y: Tensor,
    kind: str,
    draw: torch.Generator,
    *,
    most_classes: int = 50,
    mask: Tensor | None = None,
) -> list[Tensor]:
    """Diagonal Fisher information at x (n, D) or (n, C, H, W), y (n,): one tensor per trained
    parameter.

    F_i = 1/n Σ_x E_c[(∂ log p(c|x) / ∂θ_i)²]. The expectation over c is over all classes ("exact",
    up to `most_classes`), over one draw from p ("sampled"), or the true class alone ("empirical").
    `mask`, (C,), is added to the logits, as the loss does in a session that restricts it. In a
    layer a → a Wᵀ + b of a ReLU MLP, the gradient of one sample is the outer product of δ and a. So
    Σ_x E_c[δ²] a² is one matrix product, and per-sample gradients are never formed. For other
    networks they are formed, block by block.
    """
    linears = [m for m in net.modules() if isinstance(m, nn.Linear)]
    if kind == "exact" and linears[-1].out_features > most_classes:
        kind = "sampled"
    u = torch.rand(len(x), 1, generator=draw).to(x.device)
    if not is_mlp(net):
        return _by_sample(net.eval(), x, y, u, kind, mask)
    x = x.flatten(1)
    total = [torch.zeros_like(p) for m in linears for p in (m.weight, m.bias)]
    for first in range(0, len(x), FISHER_BATCH):
        part = slice(first, first + FISHER_BATCH)
        squares, inputs = _squared_deltas(linears, x[part], y[part], u[part], kind, mask)
        for k, (square, a) in enumerate(zip(squares, inputs, strict=True)):
            total[2 * k].addmm_(square.T, a.square())  # (out, b) @ (b, in) -> (out, in)
            total[2 * k + 1].add_(square.sum(0))
    return [t / len(x) for t in total]


def _labels(p: Tensor, y: Tensor, u: Tensor, kind: str) -> list[tuple[Tensor, Tensor]]:
    """The labels (b,) whose squared gradients are added, each with its probability (b, 1)."""
    n_classes, one = p.shape[1], torch.ones_like(u)
    if kind == "exact":
        return [(torch.full_like(y, c), p[:, c : c + 1]) for c in range(n_classes)]
    if kind == "empirical":
        return [(y, one)]
    return [((p.cumsum(1) < u).sum(1).clamp(max=n_classes - 1), one)]


def _by_sample(
    net: nn.Module, x: Tensor, y: Tensor, u: Tensor, kind: str, mask: Tensor | None
) -> list[Tensor]:
    """The same from the gradient of each single sample."""
    total = [torch.zeros_like(p) for p in trainable_parameters(net)]

    def log_p(logits: Tensor, label: Tensor) -> Tensor:
        masked = logits if mask is None else logits + mask
        return masked.log_softmax(0).gather(0, label[None])[0]

    for first in range(0, len(x), BLOCK):
        part = slice(first, first + BLOCK)
        logits = net(x[part])
        p = torch.softmax(logits if mask is None else logits + mask, dim=1)
        for label, probability in _labels(p, y[part], u[part], kind):
            for sum_, g in zip(total, gradients(net, log_p, x[part], label), strict=True):
                sum_.add_((g.square().flatten(1) * probability).sum(0).view_as(sum_))
    return [t / len(x) for t in total]


def _squared_deltas(
    linears: list[nn.Linear], x: Tensor, y: Tensor, u: Tensor, kind: str, mask: Tensor | None
) -> tuple[list[Tensor], list[Tensor]]:
    """E_c[δ²] (b, out) and the input a (b, in) of every layer; u (b, 1) uniform, for the draws."""
    inputs = [x]
    for layer in linears[:-1]:
        inputs.append(torch.relu(layer(inputs[-1])))
    logits = linears[-1](inputs[-1])
    p = torch.softmax(logits if mask is None else logits + mask, dim=1)  # (b, C)
    labels, one = _labels(p, y, u, kind), torch.ones_like(u)
    squares = [p.new_zeros(len(x), m.out_features) for m in linears]
    for label, probability in labels:
        delta = (-p).scatter_add(1, label[:, None], one)  # e_c - p
        for k in range(len(linears) - 1, -1, -1):
            squares[k].addcmul_(probability, delta.square())
            if k:
                delta = (delta @ linears[k].weight) * (inputs[k] > 0)
    return squares, inputs
