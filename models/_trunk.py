"""Trunks: the networks below the head, and the small residual networks among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from embedbench.errors import UserError, unknown

FLAT = ("mlp", "linear")  # take vectors, or the values of an image in a row
RESNETS = {"resnet8": 1, "resnet20": 3, "resnet32": 5}  # blocks a stage
STAGES = (16, 32, 64)  # channels


def check_trunk(setting: str, name: str) -> None:
    """Refuse a trunk that there is not."""
    if name in FLAT or name in RESNETS:
        return
    import timm

    known = timm.list_models()
    if name.removeprefix("timm:").partition(".")[0] not in known:
        raise unknown(setting, name, [*FLAT, *RESNETS, *known])


def image_trunk(name: str, shape: Sequence[int], *, relu: bool = True) -> tuple[nn.Module, int]:
    """A trunk for images, from scratch by the global random state, and the width of its features.

    Parameters
    ----------
    name : in `RESNETS`, or a model of timm, with or without "timm:" before it
    shape : (C, H, W)
    relu : False: without the last ReLU, where the trunk is one of `RESNETS`
    """
    if len(shape) != 3:
        raise UserError(
            f"trunk {name!r} takes images, and this stream shows vectors of width {shape[0]}: run "
            "it on a pixel file (embedbench extract SOURCE --backbone none --size 32 --out FILE), "
            "or with --trunk mlp"
        )
    if name in RESNETS:
        return Trunk(ResNet(shape[0], RESNETS[name], relu=relu)), STAGES[-1]
    return _timm(name.removeprefix("timm:"), shape)


def _timm(name: str, shape: Sequence[int]) -> tuple[nn.Module, int]:
    """A model of timm without its classifier, for images of this shape, and its width."""
    import timm

    channels, *size = shape
    options: dict[str, Any] = {"pretrained": False, "num_classes": 0, "in_chans": channels}
    config = timm.get_pretrained_cfg(name)
    if config is not None and config.fixed_input_size:
        options["img_size"] = tuple(size)
    build: Callable[..., nn.Module] = timm.create_model
    try:
        body = build(name, **options)
        with torch.no_grad():
            width = int(body.eval()(torch.zeros(2, *shape)).shape[1])
    except Exception as error:  # whatever a model asserts
        raise UserError(
            f"trunk {name!r} cannot be built for images of shape {tuple(shape)} "
            f"({type(error).__name__}: {error}); choose another, or images of another size"
        ) from error
    return Trunk(body.train()), width


class Trunk(nn.Module):
    """An image network without its classifier: x (n, C, H, W) to features (n, width).

    A batch of one sample, which has no statistics for BatchNorm, goes by the running ones and
    leaves them alone.
    """

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        """Features of x, (n, width)."""
        alone = self.training and len(x) == 1
        if alone:
            self.body.eval()
        phi: Tensor = self.body(x)
        if alone:
            self.body.train()
        return phi


class ResNet(nn.Module):
    """Residual network for small images, of 6n + 2 layers with the head.

    **Source**: He et al. (2016), Section 4.2: a 3x3 convolution to 16 channels, three stages of n
    blocks of 16, 32 and 64 channels, the second and third begin with stride 2, global average
    pooling; shortcuts without parameters (option A); weights as in He et al. (2015), by the number
    of outputs. Without the last ReLU: Hou et al. (2019, LUCIR), for cosine heads.

    **Departs**: n = 1 (resnet8) is not in the paper. The channels that a shortcut lacks are zeros
    after its own; which ones they are makes no difference.

    Parameters
    ----------
    channels : of the images
    blocks : n
    """

    def __init__(self, channels: int, blocks: int, *, relu: bool = True) -> None:
        super().__init__()
        self.conv = _conv(channels, STAGES[0], 1)
        self.norm = nn.BatchNorm2d(STAGES[0])
        widths = [STAGES[0], *(width for width in STAGES for _ in range(blocks))]
        last = len(widths) - 2
        self.blocks = nn.Sequential(
            *(
                _Block(a, b, 1 if a == b else 2, relu=relu or i < last)
                for i, (a, b) in enumerate(pairwise(widths))
            )
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Features of x (n, C, H, W), (n, 64)."""
        out: Tensor = self.blocks(torch.relu(self.norm(self.conv(x))))
        return out.mean((2, 3))


class _Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    def __init__(self, inputs: int, width: int, stride: int, *, relu: bool) -> None:
        super().__init__()
        self.conv1, self.norm1 = _conv(inputs, width, stride), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = _conv(width, width, 1), nn.BatchNorm2d(width)
        self.stride, self.more, self.relu = stride, width - inputs, relu

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.norm1(self.conv1(x)))
        h = self.norm2(self.conv2(h))
        short = pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.more))
        return torch.relu(h + short) if self.relu else h + short


def _conv(inputs: int, outputs: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
