"""Open a backbone by name on a device; `pixels` and `none` are the images themselves."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from embedbench.array_types import Bytes
from embedbench.errors import UserError
from embedbench.files.raw_pixels import pixels, pixels_recipe
from embedbench.networks.published_weights import SHIPPED, shipped_weights
from embedbench.storage.user_cache import refuse_changes

from .backbone import OURS, Backbone
from .channel_statistics import ChannelScale
from .extract_plugins import backbone_class, outside_backbone
from .open_source import is_demo
from .source import Content, Source, open_image
from .timm_backbone import TimmBackbone

CPU = torch.device("cpu")
HF = "hf:"  # begins the names of models of transformers
IN_PACKAGE = "shipped"  # the word for weights that lie in the package
LARGEST = 10_000  # pixels, seconds or tokens
ROW_BYTES = 4 * 2**20  # most of a row of an image; the rows of a block are held in memory


def check_kind(name: str, source: Source) -> None:
    """Raise UserError if a backbone of images is given sounds, or the other way round."""
    if name.startswith(HF):
        return  # these take what their processors take
    cls = backbone_class(name)
    takes = "sounds" if name == "log-mel" else "images"
    if cls:
        takes = cls.takes
    if source.holds != takes:
        raise UserError(
            f"{source.name} holds {source.holds}, and {name} takes {takes}",
            "give --backbone hf:NAME, or for sounds log-mel, for images pixels or a model of timm",
        )


def open_backbone(
    name: str,
    first: Callable[[], Image.Image],
    *,
    weights: Path | None = None,
    layers: Sequence[str] = (),
    dtype: str = "float32",
    size: int | None = None,
    device: torch.device = CPU,
    holds: str = "images",
) -> Backbone:
    """Return a backbone by its name: `pixels`, `none`, `log-mel`, any model of timm.

    Or `hf:NAME`, a model of transformers for what the source holds; or one from outside: the entry
    point of a package, or `package.module:Class`.
    """
    if size is not None and not 1 <= size <= LARGEST:
        raise UserError("--size", expected=f"1 to {LARGEST:,} pixels, seconds or tokens", got=size)
    folder = Path(name.removeprefix(HF)) if name.startswith(HF) else None
    read = [path for path in (weights, folder) if path is not None and path.exists()]
    with refuse_changes(*read):  # what is loaded is what the provenance has the SHA-256 of
        return _open(name, first, weights, layers, dtype, size, device, holds)


def _open(
    name: str,
    first: Callable[[], Image.Image],
    weights: Path | None,
    layers: Sequence[str],
    dtype: str,
    size: int | None,
    device: torch.device,
    holds: str,
) -> Backbone:
    options: dict[str, Any] = {
        "dtype": dtype,
        "layers": tuple(layers),
        "size": size,
        "device": device,
    }
    cls = backbone_class(name)
    if name.startswith(HF):
        from .hf_backbone import HfBackbone

        if weights:
            raise UserError("a model of transformers has its weights with it", "drop --weights")
        model: Backbone = HfBackbone(name.removeprefix(HF), holds, **options)
    elif cls is not None:
        model = outside_backbone(name, cls, weights=weights, **options)
    elif name not in OURS:
        model = TimmBackbone(name, weights=weights, **options)
    elif weights or layers or dtype != "float32":
        raise UserError(f"{name} is no model: no --weights, --layers or --dtype goes with it.")
    elif name == "log-mel":
        from .log_mel_backbone import LogMel

        model = LogMel(size or LogMel.SECONDS)
    else:
        model = (Pixels if name == "pixels" else Images)(first(), size)
    return model


class Images(Backbone):
    """The images themselves, uint8, for a pixel file: `--backbone none`.

    They are greyscale or RGB, as the pixel policy makes them. With a size, the shorter side is
    resized to it (bicubic, antialiased) and the centre is kept.

    Parameters
    ----------
    first : Image
        An image of the source, in the mode of all: if it is greyscale, all images become greyscale,
        else RGB. Without `size`, every image must have its height and width.
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
                f"{ROW_BYTES:,}",
                "bring all to a smaller size with --size N",
            )
        recipe = pixels_recipe()
        self.backbone = recipe["backbone"]
        self.preprocessing = recipe["preprocessing"]
        if self.dtype == "uint8":
            self.backbone["name"] = "none"
            self.preprocessing = {
                "layout": "height, width, channels",
                "color": "Pillow convert: alpha is dropped",
            }
        if self.mode == "RGB":
            self.preprocessing["channels"] = "RGB"
        if self.resize:
            self.preprocessing |= {
                "size": [size, size],
                "resize": "shorter side to the size",
                "interpolation": "bicubic",
                "crop": "centre",
            }

    def prepare(self, content: Content) -> Bytes:
        """Return the image as (H, W, C) bytes."""
        image = open_image(content)
        if image.mode != self.mode:
            image = image.convert(self.mode)
        if self.resize:
            image = centre(image, self.size[0])
        if image.size != self.size:
            raise UserError(
                f"expected an image of {self.size[0]}x{self.size[1]} as the first one, not "
                f"{image.size[0]}x{image.size[1]}",
                "bring all to one size with --size N",
            )
        return np.asarray(image).reshape(self.size[1], self.size[0], -1)

    def forward(self, batch: Bytes) -> dict[str, torch.Tensor]:
        """Return the images, (n, H, W, C) uint8."""
        return {"features": torch.from_numpy(batch)}


class Pixels(Images):
    """The same images as rows of values / 255, as Kemker used MNIST: `--backbone pixels`."""

    dtype = "float32"
    scale: ChannelScale | None = None

    def normalise_by(self, scale: ChannelScale) -> None:
        """Normalise each channel by these numbers; they are part of the recipe."""
        channels = 1 if self.mode == "L" else 3
        if len(scale.mean) != channels:
            raise UserError("--normalise", expected=f"{channels} means", got=str(scale))
        self.scale = scale
        self.preprocessing |= {
            "scale": "(value / 255 - mean) / std",
            "mean": [*scale.mean],
            "std": [*scale.std],
        }

    def forward(self, batch: Bytes) -> dict[str, torch.Tensor]:
        """Return (n, H·W·C) values between 0 and 1, or normalised ones, row by row."""
        rows = pixels(batch)
        return {"features": torch.from_numpy(self.scale.apply(rows) if self.scale else rows)}


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


# --- names on the command line ---


def choose_backbone(
    source: str, backbone: str | None, weights: str | os.PathLike[str] | None
) -> tuple[str, Path | None]:
    """Return the name of the backbone and the file of its weights; for `demo` the shipped ones."""
    if is_demo(source) and backbone in (None, SHIPPED) and weights is None:
        backbone, weights = SHIPPED, IN_PACKAGE
    if backbone is None:
        raise UserError(
            "--backbone is missing: a model of timm such as resnet50, 'pixels' for flat values, "
            "'none' for a pixel file, for sounds 'log-mel', hf:NAME, or package.module:Class."
        )
    if str(weights) == IN_PACKAGE:
        return backbone, shipped_weights(backbone)
    return backbone, Path(weights) if weights else None
