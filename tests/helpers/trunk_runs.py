"""Learners with a trunk on small images."""

import torch
from torch import Tensor, nn


def x_of(n: int, seed: int = 0, shape: tuple[int, ...] = (3, 8, 8)) -> Tensor:
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(seed))


def lively(net: nn.Module, seed: int = 0) -> nn.Module:
    """The net with statistics and scales of BatchNorm that are not those it began with."""
    draw = torch.Generator().manual_seed(seed)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean = torch.randn(module.num_features, generator=draw) / 4
            module.running_var = torch.rand(module.num_features, generator=draw) + 0.5
            module.weight.data = torch.rand(module.num_features, generator=draw) + 0.5
            module.bias.data = torch.randn(module.num_features, generator=draw) / 4
    return net.eval()
