"""Quadratic penalties that keep weights near earlier values."""

from collections.abc import Sequence

from torch import Tensor, nn

from .optimisers import trainable_parameters


def pull(net: nn.Module, weight: Sequence[Tensor], anchor: Sequence[Tensor], by: float) -> None:
    """Add the gradient of by/2 Σ_i weight_i (θ_i - anchor_i)² to the parameters' gradients.

    `weight` and `anchor` have one tensor for each trained parameter.
    """
    for p, w, a in zip(trainable_parameters(net), weight, anchor, strict=True):
        assert p.grad is not None
        p.grad.addcmul_(w, p.data - a, value=by)
