"""The slim ResNet-18 of online continual learning: its size, weights and forward pass."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, conv2d
from trunk_runs import lively, x_of

from embedbench.learning.image_training import ImageTraining
from embedbench.learning.trunk import image_trunk, list_stages
from embedbench.networks.paper_networks import timm

NAME = "resnet18_slim"


def count_weights(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def test_a_slim_network_has_the_published_number_of_weights() -> None:
    # 1.09 million; a head of 100 classes has 161 a class
    assert count_weights(timm.create_model(NAME, num_classes=0)) == 1_093_140
    assert count_weights(timm.create_model(NAME, num_classes=100)) == 1_093_140 + 16_100


def plainly(state: dict[str, Tensor], x: Tensor) -> Tensor:
    """The features by the definition, a convolution after the other."""

    def unit(x: Tensor, conv: str, norm: str, stride: int, padding: int = 1) -> Tensor:
        h = conv2d(x, state[f"{conv}.weight"], stride=stride, padding=padding)
        mean, var = state[f"{norm}.running_mean"], state[f"{norm}.running_var"]
        return batch_norm(h, mean, var, state[f"{norm}.weight"], state[f"{norm}.bias"])

    h = unit(x, "conv1", "bn1", 1).relu()
    for stage in (1, 2, 3, 4):
        for i in (0, 1):
            block, stride = f"layer{stage}.{i}", 2 if stage > 1 and i == 0 else 1
            inner = unit(h, f"{block}.conv1", f"{block}.bn1", stride).relu()
            inner = unit(inner, f"{block}.conv2", f"{block}.bn2", 1)
            if stride == 2:
                h = unit(h, f"{block}.downsample.0", f"{block}.downsample.1", 2, padding=0)
            h = (inner + h).relu()
    return h.mean((2, 3))


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 11, 14)])
def test_a_slim_network_is_the_definition(shape: tuple[int, int, int]) -> None:
    trunk, width = image_trunk(NAME, shape, ImageTraining())
    assert isinstance(trunk.body, nn.Module)
    body = lively(trunk.body)
    x = x_of(3, shape=shape)
    with torch.no_grad():
        torch.testing.assert_close(trunk(x), plainly(body.state_dict(), x), rtol=1e-4, atol=1e-5)
    assert width == 160


def test_its_weights_are_those_that_pytorch_draws() -> None:
    torch.manual_seed(0)
    model: Any = timm.create_model(NAME, num_classes=0)
    last = model.layer4[1].conv2.weight  # uniform within 1/√(9 · 160)
    assert last.abs().max().item() == pytest.approx(1 / (9 * 160) ** 0.5, rel=1e-3)
    assert bool((model.layer4[1].bn2.weight == 1).all())  # timm's ResNets begin with 0 here


def test_its_stages_can_be_frozen() -> None:
    stages = list_stages(timm.create_model(NAME, num_classes=0))
    assert [any("layer" in key for key in stage) for stage in stages] == [True] * 4
    assert "conv1.weight" in stages[0]


def test_each_stage_says_how_much_smaller_its_images_are() -> None:
    model: Any = timm.create_model(NAME, features_only=True)
    shapes = [tuple(h.shape[1:]) for h in model(torch.zeros(1, 3, 32, 32))]
    named = [(m["num_chs"], 32 // m["reduction"], 32 // m["reduction"]) for m in model.feature_info]
    assert shapes == named
