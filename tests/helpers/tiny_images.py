"""A few small images, and weights of the smallest backbone."""

from pathlib import Path
from typing import Any

import numpy as np
import timm
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn

TINY = "test_efficientnet"


def images(root: Path, n: int, seed: int = 0) -> Path:
    """Write n noisy images of several sizes and modes, in three classes."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        folder = root / f"s{i % 3 // 2}" / f"c{i % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        mode = ("RGB", "RGBA", "L", "LA")[i % 4]
        shape = (40 + i % 7, 50, {"RGB": 3, "RGBA": 4, "L": 1, "LA": 2}[mode])
        coarse = rng.integers(0, 256, (5, 5, shape[2]), np.uint8)
        pixels = np.kron(coarse, np.ones((10, 10, 1), np.uint8))[: shape[0]]
        Image.fromarray(pixels.squeeze()).save(folder / f"{i:04d}.png")
    return root


def weights(path: Path, name: str, seed: int = 0, **options: Any) -> Path:
    """Save random weights of a model whose BatchNorms have something to fold."""
    torch.manual_seed(seed)
    model = scramble(timm.create_model(name, **options))
    save_file(model.state_dict(), path)
    return path


def scramble(model: nn.Module) -> nn.Module:
    """Give the BatchNorms of a model random statistics and weights."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.3)
            module.running_var.uniform_(0.3, 2)
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0, 0.3)
    return model
