"""Gradients of single samples: formed for any network, by their factors for a ReLU MLP."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

BLOCK = 32  # samples whose gradients are in memory at once


def is_mlp(net: nn.Module) -> bool:
    """Whether a net is a chain of linear layers and ReLUs, for which faster formulas exist."""
    return all(
        isinstance(m, nn.Linear | nn.ReLU | nn.Flatten | nn.Sequential) for m in net.modules()
    )


def forward_layers(net: nn.Module, x: Tensor) -> tuple[list[nn.Linear], list[Tensor], Tensor]:
    """The linear layers of a ReLU MLP, the input a (n, in) of each, and the logits (n, C) of x.

    In a layer a → a Wᵀ + b the gradient of one sample is the outer product of δ and (a, 1).
    """
    linears = [m for m in net.modules() if isinstance(m, nn.Linear)]
    inputs = [x.flatten(1)]
    for layer in linears[:-1]:
        inputs.append(torch.relu(layer(inputs[-1])))
    return linears, inputs, linears[-1](inputs[-1])


def backward_deltas(
    linears: list[nn.Linear], inputs: list[Tensor], delta: Tensor
) -> Iterator[tuple[int, Tensor]]:
    """Yield the number of each layer, the last one first, and its δ (n, out).

    `delta` (n, C) is the gradient by the logits.
    """
    for k in range(len(linears) - 1, -1, -1):
        yield k, delta
        if k:
            delta = (delta @ linears[k].weight) * (inputs[k] > 0)


def gradients(
    net: nn.Module, value: Callable[..., Tensor], x: Tensor, *beside: Tensor
) -> list[Tensor]:
    """Gradients of `value` for each single sample, by every trained parameter: (b, *shape) each.

    The net is in evaluation mode. `value` takes the logits (C,) of a sample of x (b, …), and its
    row of each `beside` (b, …); it returns a number.
    """
    parameters = {name: p.detach() for name, p in net.named_parameters() if p.requires_grad}
    others: dict[str, Tensor] = dict(net.named_buffers())
    others |= {name: p for name, p in net.named_parameters() if not p.requires_grad}

    def of_one(theta: dict[str, Tensor], one: Tensor, *rest: Tensor) -> Tensor:
        logits = functional_call(net, (theta, others), (one[None],))
        return value(logits[0], *rest)

    result = vmap(grad(of_one), in_dims=(None, *[0] * (1 + len(beside))))(parameters, x, *beside)
    return [result[name] for name in parameters]
