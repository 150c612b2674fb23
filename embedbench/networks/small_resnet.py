"""Small residual networks for images of 28 to 64 pixels."""

from itertools import pairwise

import torch
from torch import Tensor, nn

RESNETS = {"resnet8": 1, "resnet20": 3, "resnet32": 5}  # blocks per stage
STAGES = (16, 32, 64)  # channels of each stage


class ResNet(nn.Module):
    """Residual network for small images, of 6n + 2 layers with the head.

    **Source**: He et al. (2016), Section 4.2: a 3x3 convolution to 16 channels, three stages of n
    blocks of 16, 32 and 64 channels, the second and third begin with stride 2, global average
    pooling; shortcuts without parameters (option A); weights as in He et al. (2015), by the number
    of outputs. Without the last ReLU: Hou et al. (2019, LUCIR), for cosine heads.

    **Departs**: n = 1 (resnet8) is not in the paper. A shortcut fills missing channels with zeros,
    after its existing ones; their place makes no difference.

    Parameters
    ----------
    channels : int
        Channels of the images.
    blocks : int
        n, the number of blocks per stage.
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
        short = nn.functional.pad(
            x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.more)
        )
        return torch.relu(h + short) if self.relu else h + short


def _conv(inputs: int, outputs: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
