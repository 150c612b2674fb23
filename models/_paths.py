"""Paths through layers of modules: their scores, and the gradients of several paths at once.

A module is a linear map, (U, f + 1) with the bias as its last column, followed by ReLU. A layer has
M modules; its output is the sum of the modules on the path. L layers are followed by a linear head,
(C, U + 1).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

Modules = Sequence[nn.Parameter]


def with_ones(x: Tensor) -> Tensor:
    """Append a column of ones, (…, f) -> (…, f + 1): the last column of a weight is its bias."""
    return torch.cat([x, x.new_ones(*x.shape[:-1], 1)], -1)


def draw_weights(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Weights of linear maps, (…, outputs, f + 1), by PyTorch's default: U(±1/√f), biases too."""
    bound = (shape[-1] - 1) ** -0.5
    return torch.empty(*shape).uniform_(-bound, bound, generator=generator)


def path_scores(x: Tensor, layers: Sequence[Tensor], head: Tensor) -> Tensor:
    """Logits of x (n, D), (n, C); `layers`: the modules on the path, (k, U, f + 1) each."""
    h = x
    for taken in layers:
        z = torch.relu(with_ones(h) @ taken.flatten(0, 1).T)  # (n, f+1) @ (f+1, kU) -> (n, kU)
        h = z.view(len(x), *taken.shape[:2]).sum(1)
    return with_ones(h) @ head.T


class Contest:
    """P paths that are trained on the same mini-batches.

    All modules on any of the paths lie in one block of memory, so that a layer is one matrix
    product for all paths. The first layer has the same input for all paths and is computed once. A
    module on several paths gets the sum of their gradients, and so does the head.

    Parameters
    ----------
    modules : sequence of Modules
        Parameters, M for each of L layers; those on a path are moved to the block.
    frozen : Tensor
        (L, M) bool; True: the module gets no gradient.
    head : nn.Parameter
        (C, U + 1).
    paths : Tensor
        (P, L, M) bool.
    """

    def __init__(
        self, modules: Sequence[Modules], frozen: Tensor, head: nn.Parameter, paths: Tensor
    ) -> None:
        self.head = head
        self.blocks = [
            _PathBlock(*one) for one in zip(modules, frozen, paths.unbind(1), strict=True)
        ]
        trained = [k for k, block in enumerate(self.blocks) if len(block.grad)]
        self.lowest = min(trained, default=len(self.blocks))

    @torch.no_grad()
    def gradients(self, x: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """Set the gradient of Σ_paths (mean cross-entropy); return the logits (P, b, C).

        Parameters
        ----------
        x : Tensor
            (b, D + 1); the last column is 1.
        y : Tensor
            (b,).
        mask : Tensor or None
            (C,) added to the logits, or None.
        """
        inputs, active = [x[None]], []
        for block in self.blocks:
            inputs_, z = inputs[-1].flatten(0, 1), block.weight.flatten(0, 1)
            z = (inputs_ @ z.T).relu_().view(*inputs[-1].shape[:2], *block.weight.shape[:2])
            active.append(z)  # (P, b, k, U); in the first layer (1, b, k, U)
            inputs.append(with_ones((z * block.takes).sum(2)))  # (P, b, U + 1)
        logits = inputs[-1] @ self.head.T  # (P, b, U+1) @ (U+1, C)
        logits = logits if mask is None else logits + mask
        delta = torch.softmax(logits, 2)
        delta[:, torch.arange(len(y), device=y.device), y] -= 1
        delta /= len(y)
        self.head.grad = delta.flatten(0, 1).T @ inputs[-1].flatten(0, 1)  # (C, Pb) @ (Pb, U+1)
        back = delta @ self.head[:, :-1]  # (P, b, U)
        for k in range(len(self.blocks) - 1, self.lowest - 1, -1):
            back = self.blocks[k].backward(back, inputs[k], active[k], needed=k > self.lowest)
        return logits


class _PathBlock:
    """The modules of one layer that are on some path, the trained ones first."""

    def __init__(self, modules: Modules, frozen: Tensor, paths: Tensor) -> None:
        used = paths.any(0)
        which = torch.cat([(used & ~frozen).nonzero(), (used & frozen).nonzero()])[:, 0]
        taken = [modules[i] for i in which.tolist()]
        self.weight = torch.stack([p.data for p in taken])  # (k, U, f + 1)
        self.takes = paths[:, which].to(self.weight.dtype)[:, None, :, None]  # (P, 1, k, 1)
        self.grad = torch.zeros_like(self.weight[: int((used & ~frozen).sum())])
        for p, weight in zip(taken, self.weight, strict=True):
            p.data, p.grad = weight, None
        for p, grad in zip(taken, self.grad, strict=False):
            p.grad = grad

    def backward(self, back: Tensor, h: Tensor, z: Tensor, *, needed: bool) -> Tensor:
        """The gradient of the trained modules and, if `needed`, that of the layer's input.

        `back` (P, b, U) is the gradient of the layer's output; h (p, b, f + 1) is its input; z (p,
        b, k, U) are the outputs of the modules; p is 1 or P.
        """
        delta = back[:, :, None] * self.takes  # (P, b, k, U)
        if len(z) < len(delta):
            delta = delta.sum(0, keepdim=True)
        delta = (delta * (z > 0)).flatten(0, 1)  # (pb, k, U)
        trained = delta[:, : len(self.grad)].flatten(1)
        torch.mm(trained.T, h.flatten(0, 1), out=self.grad.flatten(0, 1))
        if not needed:
            return back
        return (delta.flatten(1) @ self.weight.flatten(0, 1)[:, :-1]).view(*h.shape[:2], -1)
