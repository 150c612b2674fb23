"""Augmentation of whole batches of images on their device; random numbers are drawn on the CPU."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

PAD = 4  # pixels added around an image, in "crop-flip"
FLIPPED = 0.5  # probability that an image is flipped
CROP_AREA, CROP_RATIO = (0.08, 1.0), (3 / 4, 4 / 3)  # share of the image's area; width over height
ERASED, ERASED_AREA, ERASED_RATIO = 0.25, (0.02, 1 / 3), (0.3, 1 / 0.3)
AugmentName = Literal["none", "crop-flip", "timm"]
TRIES = 10  # boxes drawn for an image until one fits


@dataclass(frozen=True)
class Views:
    """Random views of images, batch after batch, drawn by one generator.

    **Source**: "crop-flip": He et al. (2016), Section 4.2: four pixels of zeros on every side, a
    crop of the original size, flipped with probability .5. "timm": the random resized crop of
    timm's training transform (Szegedy et al. 2015: area .08 to 1, ratio 3/4 to 4/3, bilinear),
    flipped with probability .5, then random erasing (Zhong et al. 2020; area .02 to 1/3, ratio .3
    to 1/.3).

    **Departs**: padded and erased pixels are 0 in the values of the stream; where the stream
    standardises, 0 is the mean colour. An image is erased with probability .25, as in timm's
    recipes; timm draws from Python's generator, image by image. timm's colour jitter is left out,
    and so are RandAugment, mixup and cutmix, which its recipes add. The generator is on the CPU, so
    that all devices get the same draws.
    """

    name: AugmentName
    generator: torch.Generator

    def __call__(self, x: Tensor) -> Tensor:
        """Another view of each image of x (b, C, H, W); for "none" x itself, whatever its shape."""
        return AUGMENTS[self.name](x, self.generator)


def crops(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Top left corners in the padded image, (n, 2), and which images are flipped, (n,) bool."""
    corners = torch.randint(0, 2 * PAD + 1, (n, 2), generator=generator)
    return corners, torch.rand(n, generator=generator) < FLIPPED


def crop_and_flip(x: Tensor, corners: Tensor, flips: Tensor) -> Tensor:
    """The crops of x (b, C, H, W) at `corners` of the padded images, flipped where `flips`."""
    high, wide = x.shape[2:]
    rows = corners[:, :1] + torch.arange(high)  # (b, H)
    columns = _turned(corners[:, 1:] + torch.arange(wide), flips)
    padded = nn.functional.pad(x, (PAD,) * 4)
    return _picked(_picked(padded, 2, rows), 3, columns)


def timm_like(x: Tensor, generator: torch.Generator) -> Tensor:
    """Crop, resize, flip and erase x (b, C, H, W)."""
    n = len(x)
    size = (int(x.shape[2]), int(x.shape[3]))
    boxes, fits = drawn_boxes(n, size, CROP_AREA, CROP_RATIO, generator)
    boxes[~fits] = torch.tensor(centre_box(size))
    flips = torch.rand(n, generator=generator) < FLIPPED
    x = resize_boxes(x, boxes, flips)
    boxes, fits = drawn_boxes(n, size, ERASED_AREA, ERASED_RATIO, generator)
    return erase_boxes(x, boxes, fits & (torch.rand(n, generator=generator) < ERASED))


def drawn_boxes(
    n: int,
    size: tuple[int, int],
    area: tuple[float, float],
    ratio: tuple[float, float],
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Boxes in an image of `size` (H, W): top, left, height, width (n, 4); which fit, (n,) bool.

    The share of the area is uniform, the ratio of width to height log-uniform. Up to `TRIES` boxes
    are drawn for an image, and the first that fits is used. Where none fits, the box has no
    meaning.
    """
    high, wide = size
    share, shape = torch.rand(2, n, TRIES, generator=generator, dtype=torch.float64)
    corner = torch.rand(n, 2, generator=generator, dtype=torch.float64)
    pixels = (area[0] + (area[1] - area[0]) * share) * high * wide
    low, top = (math.log(r) for r in ratio)
    stretch = (low + (top - low) * shape).exp()
    heights = (pixels * (1 / stretch)).sqrt().round().clamp(min=1)
    widths = (pixels * stretch).sqrt().round().clamp(min=1)
    fit = (heights <= high) & (widths <= wide)
    first = fit.int().argmax(1, keepdim=True)
    sides = torch.cat([heights.gather(1, first), widths.gather(1, first)], dim=1)  # (n, 2)
    corners = (corner * (torch.tensor([high, wide]) - sides + 1)).floor()
    return torch.cat([corners, sides], dim=1).long(), fit.any(1)


def centre_box(size: tuple[int, int]) -> tuple[int, int, int, int]:
    """The largest centred box whose ratio is allowed: top, left, height, width."""
    high, wide = size
    h = min(high, round(wide / CROP_RATIO[0]))
    w = min(wide, round(high * CROP_RATIO[1]))
    return (high - h) // 2, (wide - w) // 2, h, w


def resize_boxes(x: Tensor, boxes: Tensor, flips: Tensor) -> Tensor:
    """The boxes (b, 4) of x (b, C, H, W), resized to H x W (bilinear), flipped where `flips`."""
    for dim in (2, 3):
        n = x.shape[dim]
        start = boxes[:, dim - 2, None]
        length = boxes[:, dim, None]
        at = ((torch.arange(n) + 0.5) * (length / n) - 0.5).clamp(min=0)  # (b, n)
        if dim == 3:
            at = _turned(at, flips)
        low = at.long()
        high = torch.minimum(low + 1, length - 1)
        a = _picked(x, dim, start + low)
        b = _picked(x, dim, start + high)
        x = torch.lerp(a, b, _along(at - low, dim, x))
    return x


def erase_boxes(x: Tensor, boxes: Tensor, chosen: Tensor) -> Tensor:
    """x (b, C, H, W) with zeros in the boxes (b, 4) of the images `chosen`, (b,) bool."""
    inside = []
    for dim in (2, 3):
        start = boxes[:, dim - 2, None]
        length = boxes[:, dim, None]
        at = torch.arange(x.shape[dim])
        within = (at >= start) & (at < start + length) & chosen[:, None]
        inside.append(_along(within, dim, x))
    return x.masked_fill(inside[0] & inside[1], 0)


def _turned(places: Tensor, flips: Tensor) -> Tensor:
    """Places (b, n), in reverse order where `flips`, (b,) bool."""
    return torch.where(flips[:, None], places.flip(1), places)


def _along(values: Tensor, dim: int, x: Tensor) -> Tensor:
    """Values (b, n) as (b, 1, n, 1) if `dim` is 2, as (b, 1, 1, n) if it is 3, on x's device."""
    shape = [len(values), 1, 1, 1]
    shape[dim] = -1
    return values.view(shape).to(x.device)


def _picked(x: Tensor, dim: int, places: Tensor) -> Tensor:
    """x (b, C, H, W) with the rows (`dim` 2) or columns (3) at `places` (b, n) of each image."""
    index = _along(places, dim, x)
    sizes = [*x.shape]
    sizes[dim] = index.shape[dim]
    return x.gather(dim, index.expand(sizes))


AUGMENTS: dict[AugmentName, Callable[[Tensor, torch.Generator], Tensor]] = {
    "none": lambda x, _: x,
    "crop-flip": lambda x, generator: crop_and_flip(x, *crops(len(x), generator)),
    "timm": timm_like,
}
