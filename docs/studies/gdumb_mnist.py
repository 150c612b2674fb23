"""GDumb with its authors' network for MNIST, as a learner.

**Source**: Prabhu, Torr and Dokania (2020), their code at 4f412d7f: `src/models/mnist/mlp.py`,
`src/models/layers.py`, `src/opts.py`, `src/dataloader.py`.
"""

import itertools
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import nn

from embedbench.learning import Stop, Tags
from embedbench.learning.image_augmentation import crop_and_flip, crops
from embedbench.models.gdumb import GDumb

SIDE = 28
MEAN, STD = 0.1307, 0.3081  # of MNIST, `get_statistics`


class Digits(nn.Module):
    """Pixels (b, 784) from 0 to 1, in training a random crop of the digit with a black margin."""

    def __init__(self, seed):
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def forward(self, x):
        if self.training and x.shape[1] == SIDE**2:  # `embedbench check` has other inputs
            corners, flips = crops(len(x), self.generator)
            images = x.view(-1, 1, SIDE, SIDE)
            x = crop_and_flip(images, corners, torch.zeros_like(flips)).flatten(1)
        return (x - MEAN) / STD


@dataclass
class GDumbMNIST(GDumb):
    """The learner `gdumb` with batch norm after every linear map, also the last, and random crops.

    Crops are of the digit with 4 black pixels around it. What `gdumb` has already is theirs: SGD
    with momentum .9, gradients clipped to a norm of 10, a first epoch at a tenth of the rate, then
    cosines over 1, 2, 4, … epochs, of which the seventh ends with epoch 128. PyTorch's initial
    weights; no CutMix, which they do not use on MNIST.

    **Departs**: float32, where their networks are float16. The stored samples are drawn as they
    come; theirs are the first of each class in the order of a sort. As theirs, it cannot train on a
    last batch of one sample, of which batch norm has no variance.
    """

    batch_size: int = 16
    stop: Stop = field(default_factory=lambda: Stop(rule="epochs", epochs=128))
    tags: ClassVar[Tags] = Tags(online=True, stores_samples=True)  # of pixels in a row

    def make_net(self, spec, seed):
        widths = [*spec.input_shape, *[self.units] * self.layers, spec.n_classes]
        parts = [Digits(seed)]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            for wide, high in itertools.pairwise(widths):
                parts += [nn.Linear(wide, high, bias=False), nn.BatchNorm1d(high, eps=1e-6)]
                parts.append(nn.ReLU())
        return nn.Sequential(*parts[:-1])  # the last has no ReLU
