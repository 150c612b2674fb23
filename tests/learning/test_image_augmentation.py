"""Augmentation: a naive oracle from the same numbers, frequencies, and what is left alone."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from embedbench.learning import image_augmentation as augmentation
from embedbench.learning.image_augmentation import PAD, centre_box, crop_and_flip, drawn_boxes

SIZE = (6, 9)  # rows, columns
CROP = augmentation.CROP_AREA, augmentation.CROP_RATIO
HOLE = augmentation.ERASED_AREA, augmentation.ERASED_RATIO


def augment(name: augmentation.AugmentName, x: torch.Tensor, draw: torch.Generator) -> torch.Tensor:
    return augmentation.Views(name, draw)(x)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(n: int, size: tuple[int, int] = SIZE) -> Tensor:
    return torch.randn(n, 3, *size, generator=seeded(9))


@pytest.mark.parametrize("size", [SIZE, (1, 1), (2, 7)])
def test_crops_are_the_definition(size: tuple[int, int]) -> None:
    x = images(20, size)
    corners, flips = augmentation.crops(len(x), seeded())
    for i, one in enumerate(crop_and_flip(x, corners, flips)):
        big = np.zeros((3, size[0] + 2 * PAD, size[1] + 2 * PAD), np.float32)
        big[:, PAD:-PAD, PAD:-PAD] = x[i]
        top, left = corners[i].tolist()
        crop = big[:, top : top + size[0], left : left + size[1]]
        np.testing.assert_array_equal(one, crop[..., ::-1] if flips[i] else crop)
    assert torch.equal(crop_and_flip(x, corners, flips), augment("crop-flip", x, seeded()))


@pytest.mark.parametrize("size", [SIZE, (9, 6), (32, 32), (3, 20)])
def test_resized_crops_are_the_definition(size: tuple[int, int]) -> None:
    x, draw = images(20, size), seeded()
    boxes, fits = drawn_boxes(len(x), size, *CROP, draw)
    boxes[~fits] = torch.tensor(centre_box(size))
    boxes[0] = torch.tensor([0, 0, *size])  # the whole image
    boxes[1] = torch.tensor([size[0] - 1, 1, 1, 1])  # one pixel
    flips = torch.rand(len(x), generator=draw) < 0.5
    for i, one in enumerate(augmentation.resize_boxes(x, boxes, flips)):
        top, left, h, w = boxes[i].tolist()
        part = x[i : i + 1, :, top : top + h, left : left + w]
        expected = interpolate(part, size, mode="bilinear")[0]
        expected = expected.flip(2) if flips[i] else expected
        torch.testing.assert_close(one, expected, rtol=1e-4, atol=1e-5)
    whole = augmentation.resize_boxes(x, boxes, flips)[0]
    torch.testing.assert_close(whole, x[0].flip(2) if flips[0] else x[0])


def test_erasing_is_the_definition() -> None:
    x = images(30)
    boxes, fits = drawn_boxes(len(x), SIZE, *HOLE, seeded(1))
    chosen = fits & (torch.arange(30) % 2 == 0)
    for i, one in enumerate(augmentation.erase_boxes(x, boxes, chosen)):
        expected = x[i].clone()
        if chosen[i]:
            top, left, h, w = boxes[i].tolist()
            expected[:, top : top + h, left : left + w] = 0
        assert torch.equal(one, expected)
    assert chosen.sum() > 10


def test_boxes_are_drawn_as_they_are_said_to_be() -> None:
    """Area and ratio within a rounded pixel of the limits; uniform places; the first that fits."""
    size, n = (40, 60), 4000
    boxes, fits = drawn_boxes(n, size, *CROP, seeded(2))
    boxes = boxes[fits]
    assert len(boxes) > 0.95 * n
    top, left, h, w = boxes.T.double()
    assert ((top >= 0) & (left >= 0) & (top + h <= size[0]) & (left + w <= size[1])).all()
    share = h * w / math.prod(size)
    assert 0.07 < share.min() < 0.1
    assert share.max() > 0.6
    assert ((w / h > 0.7) & (w / h < 1.42)).all()
    small = share < 0.4  # these fit whatever their ratio
    assert abs(float(share[small].mean()) - 0.24) < 0.01
    assert abs(float((w / h)[small].log().mean())) < 0.02
    place = left / (size[1] - w).clamp(min=1)
    wide, _ = drawn_boxes(50, (400, 400), (0.1, 0.1), (2, 4), seeded(3))
    assert (wide[:, 3] > 1.9 * wide[:, 2]).all()
    assert abs(float(place.mean()) - 0.5) < 0.02


def test_where_no_box_fits_the_largest_of_the_middle_is_taken() -> None:
    """Half of 3 x 20 is too high at any ratio."""
    assert centre_box((3, 20)) == (0, 8, 3, 4)
    assert centre_box((20, 3)) == (8, 0, 4, 3)
    assert centre_box(SIZE) == (0, 0, 6, 8)
    assert centre_box((7, 7)) == (0, 0, 7, 7)
    _, fits = drawn_boxes(50, (3, 20), (0.5, 1.0), CROP[1], seeded())
    assert not fits.any()
    boxes, fits = drawn_boxes(50, (8, 8), (1.0, 1.0), (1.0, 1.0), seeded())  # the whole just fits
    assert fits.all()
    assert boxes.unique(dim=0).tolist() == [[0, 0, 8, 8]]
    boxes, fits = drawn_boxes(200, (4, 4), *HOLE, seeded())
    assert boxes[fits][:, 2:].amin(0).tolist() == [1, 1]
    assert torch.isfinite(augment("timm", images(50, (2, 64)), seeded())).all()


def test_flips_and_offsets_have_the_right_frequencies() -> None:
    n = 9000
    corners, flips = augmentation.crops(n, seeded(3))
    assert abs(float(flips.float().mean()) - 0.5) < 0.02
    for k in range(2):
        counts = torch.bincount(corners[:, k], minlength=2 * PAD + 1)
        assert len(counts) == 2 * PAD + 1
        assert ((counts / n - 1 / 9).abs() < 0.015).all()
    both = corners[:, 0] * 9 + corners[:, 1]  # rows and columns move apart
    assert ((torch.bincount(both, minlength=81) / n - 1 / 81).abs() < 0.006).all()


def test_a_quarter_of_the_images_is_erased() -> None:
    assert (augmentation.ERASED, *HOLE) == (0.25, (0.02, 1 / 3), (0.3, 1 / 0.3))  # timm's
    assert (*CROP, augmentation.TRIES) == ((0.08, 1.0), (3 / 4, 4 / 3), 10)
    holes = (augment("timm", torch.ones(4000, 1, 12, 12), seeded(4)) == 0).flatten(1)
    assert abs(float(holes.any(1).float().mean()) - augmentation.ERASED) < 0.03
    assert float(holes.float().mean(1).max()) < 0.4


def test_half_of_the_images_are_flipped_by_timm_too() -> None:
    x = torch.arange(12.0).expand(2000, 1, 12, 12).contiguous()
    out = augment("timm", x + 1, seeded(5))
    rising = (out.diff(dim=3).clamp(-3, 3).sum((1, 2, 3)) > 0).float().mean()
    assert abs(float(rising) - 0.5) < 0.05


@pytest.mark.parametrize("name", augmentation.AUGMENTS)
def test_the_generator_decides_and_the_batch_is_left_alone(name: augmentation.AugmentName) -> None:
    x, draw = images(16), seeded(6)
    before = x.clone()
    torch.manual_seed(1)
    a = augment(name, x, draw)
    torch.manual_seed(2)
    again, other, later = (augment(name, x, d) for d in (seeded(6), seeded(7), draw))
    assert torch.equal(a, again)
    assert torch.equal(x, before)
    assert a.shape == x.shape
    assert a.dtype == torch.float32
    plain = name == "none"
    assert (a is x) == plain
    assert torch.equal(a, other) == plain
    assert torch.equal(a, later) == plain
    assert torch.equal(draw.get_state(), seeded(6).get_state()) is plain
