"""Folding BatchNorm: the same function, and never another one."""

import pytest
import timm
import torch
from tiny_images import scramble
from torch import nn

from embedbench.extract.timm_backbone import fold_batchnorm


def norms(model: nn.Module) -> int:
    return sum(isinstance(module, nn.BatchNorm2d) for module in model.modules())


@pytest.mark.parametrize("name", ["test_efficientnet", "mobilenetv3_small_050"])
def test_every_norm_is_folded_and_nothing_else_changes(name: str) -> None:
    torch.manual_seed(0)
    model = scramble(timm.create_model(name, num_classes=0)).eval()
    x = torch.randn(3, 3, 64, 64)
    lighter = fold_batchnorm(model, x[:2])
    assert norms(model) > 0
    assert norms(lighter) == 0
    with torch.inference_mode():
        torch.testing.assert_close(lighter(x), model(x), rtol=1e-3, atol=1e-4)


class Net(nn.Module):
    """A convolution and a norm, used as the subclasses say."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)


class UsedTwice(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        return torch.mean(self.norm(y) + y, (2, 3))


class CalledTwice(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mean(self.norm(self.conv(x)) * self.norm(self.conv(-x)), (2, 3))


class Between(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mean(self.norm(self.conv(x).relu()), (2, 3))


class LooksInside(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mean(self.norm(self.conv(x)) * self.norm.running_var.sum(), (2, 3))


@pytest.mark.parametrize("kind", [UsedTwice, CalledTwice, Between, LooksInside])
def test_what_cannot_be_folded_is_left_alone(kind: type[Net]) -> None:
    model = scramble(kind()).eval()
    x = torch.randn(2, 3, 9, 9)
    lighter = fold_batchnorm(model, x)
    assert norms(lighter) == 1
    with torch.inference_mode():
        assert torch.equal(lighter(x), model(x))
