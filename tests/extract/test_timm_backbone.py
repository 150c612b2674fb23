"""Folding BatchNorm: the same function, and never another one."""

from collections.abc import Callable

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
    """A convolution and a norm, used as `use(conv, norm, x)` says."""

    def __init__(self, use: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.conv, self.norm, self.use = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), use

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mean(self.use(self.conv, self.norm, x), (2, 3))


def test_what_cannot_be_folded_is_left_alone() -> None:
    uses: list[Callable[..., torch.Tensor]] = [
        lambda conv, norm, x: (y := conv(x)) + norm(y),  # used twice
        lambda conv, norm, x: norm(conv(x)) * norm(conv(-x)),  # called twice
        lambda conv, norm, x: norm(conv(x).relu()),  # something between
        lambda conv, norm, x: norm(conv(x)) * norm.running_var.sum(),  # looked inside
    ]
    for model in (scramble(Net(use)).eval() for use in uses):
        x = torch.randn(2, 3, 9, 9)
        lighter = fold_batchnorm(model, x)
        assert norms(lighter) == 1
        with torch.inference_mode():
            assert torch.equal(lighter(x), model(x))
