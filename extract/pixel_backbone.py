"""Images without a backbone: unchanged, for pixel files, or flattened into rows of values."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from embedbench.errors import UserError
from embedbench.files.formats.idx import pixels, pixels_recipe

from .backbone import Backbone
from .source import Content, open_image

ROW_BYTES = 4 * 2**20  # most of a row; the rows of a block are held in memory


class Images(Backbone):
    """The images themselves, uint8, for a pixel file: `--backbone none`.

    They are greyscale or RGB; alpha is dropped, as before a backbone. With a size, the shorter side
    is resized to it (bicubic, antialiased) and the centre is kept.

    Parameters
    ----------
    first : Image
        An image of the source. If it is greyscale, all images become greyscale, else RGB. Without
        `size`, every image must have its height and width.
    size : int or None
        Height and width of the result; None: no resizing.
    """

    dtype = "uint8"

    def __init__(self, first: Image.Image, size: int | None) -> None:
        self.mode = "L" if first.mode in ("1", "L") else "RGB"
        self.size = (size, size) if size else first.size
        self.resize = size is not None
        channels = 1 if self.mode == "L" else 3
        row = self.size[0] * self.size[1] * channels * np.dtype(self.dtype).itemsize
        if row > ROW_BYTES:
            raise UserError(
                f"images of {self.size[0]}x{self.size[1]} make rows of {row:,} bytes, more than "
                f"{ROW_BYTES:,}; bring all to a smaller size with --size N."
            )
        recipe = self.recipe()
        self.backbone, self.preprocessing = recipe["backbone"], recipe["preprocessing"]
        if self.mode == "RGB":
            self.preprocessing["channels"] = "RGB"
        if self.resize:
            self.preprocessing |= {
                "size": [size, size],
                "resize": "shorter side to the size",
                "interpolation": "bicubic",
                "crop": "centre",
            }

    def recipe(self) -> dict[str, Any]:
        """Return `backbone` and `preprocessing` of images that are not resized."""
        return {
            "backbone": {**pixels_recipe()["backbone"], "name": "none"},
            "preprocessing": {
                "layout": "height, width, channels",
                "color": "Pillow convert: alpha is dropped",
            },
        }

    def prepare(self, content: Content) -> NDArray[np.uint8]:
        """Return the image as (H, W, C) bytes."""
        image = open_image(content).convert(self.mode)
        if self.resize:
            image = centre(image, self.size[0])
        if image.size != self.size:
            raise UserError(
                f"expected an image of {self.size[0]}x{self.size[1]} as the first one, not "
                f"{image.size[0]}x{image.size[1]}; bring all to one size with --size N"
            )
        return np.asarray(image).reshape(self.size[1], self.size[0], -1)

    def forward(self, batch: NDArray[np.uint8]) -> dict[str, torch.Tensor]:
        """Return the images, (n, H, W, C) uint8."""
        return {"features": torch.from_numpy(batch)}


class Pixels(Images):
    """The same images as rows of values / 255, as Kemker used MNIST: `--backbone pixels`."""

    dtype = "float32"

    def recipe(self) -> dict[str, Any]:
        """Return `backbone` and `preprocessing` of images that are not resized."""
        return pixels_recipe()

    def forward(self, batch: NDArray[np.uint8]) -> dict[str, torch.Tensor]:
        """Return (n, H·W·C) values between 0 and 1, row by row."""
        return {"features": torch.from_numpy(pixels(batch))}


def centre(image: Image.Image, size: int) -> Image.Image:
    """Resize the shorter side to `size`, and return the size x size pixels in the centre.

    Sizes are rounded as in torchvision, so that a pixel file holds the same crop as the input of a
    backbone of that size without margin.
    """
    width, height = image.size
    short = min(width, height)
    if short != size:
        to = (size * width // short, size * height // short)
        image = image.resize(to, Image.Resampling.BICUBIC)
    left, top = (round((side - size) / 2) for side in image.size)
    return image.crop((left, top, left + size, top + size))
