"""Rotations: views of turned images are what Pillow makes of each image."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from embedbench.array_types import Array
from embedbench.streams.feature_tables import PixelTable, Table, table_from
from embedbench.streams.rotation import spread_channels, turn_positions
from embedbench.streams.view import View

ROWS = np.array([4, 0, 2])
ANGLES = [0, 12.3, 45, 90, 131.7, 179.99, 180, -30]


def images(high: int, wide: int, channels: int) -> Array:
    draw = np.random.default_rng(0)
    return draw.integers(1, 256, (5, high, wide, channels), np.uint8)  # none is black


def turn(image: Array, angle: float) -> Array:
    """A turned image (H, W, C), by Pillow as in the code of Buzzega et al. and of GEM."""
    plain = image[..., 0] if image.shape[2] == 1 else image
    return np.asarray(Image.fromarray(plain).rotate(angle)).reshape(image.shape)


@pytest.mark.parametrize("angle", ANGLES)
@pytest.mark.parametrize(("high", "wide"), [(28, 28), (9, 14)])
@pytest.mark.parametrize("channels", [1, 3])
def test_rows_of_pixels_are_turned(high: int, wide: int, channels: int, angle: float) -> None:
    x = images(high, wide, channels)
    expected = np.stack([turn(x[row], angle) for row in ROWS]).reshape(3, -1)
    columns = spread_channels(turn_positions(high, wide, angle), channels)
    view = View(Table(x.reshape(5, -1).astype(np.float32)), ROWS, columns.size, columns)
    np.testing.assert_array_equal(view.numpy(), expected)
    np.testing.assert_array_equal(view.tensor().numpy(), expected)


@pytest.mark.parametrize("angle", ANGLES)
@pytest.mark.parametrize(("high", "wide"), [(28, 28), (9, 14)])
@pytest.mark.parametrize("channels", [1, 3])
def test_images_are_turned(high: int, wide: int, channels: int, angle: float) -> None:
    x = images(high, wide, channels)
    factor, offset = np.array([0.01, 0.02, 0.03])[:channels], np.array([-1, 0, 2])[:channels]
    turned = np.stack([turn(x[row], angle) for row in ROWS])
    expected = (turned * factor + offset).transpose(0, 3, 1, 2)  # corners: the value of a 0
    table = PixelTable(x, tuple(factor.tolist()), tuple(offset.tolist()))
    view = View(table, ROWS, table.width, turn_positions(high, wide, angle))
    np.testing.assert_allclose(view.numpy(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(view.tensor().numpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_quarter_turn_by_hand() -> None:
    # 0 1 2      2 5
    # 3 4 5  →   1 4   of which Pillow keeps the frame of 2 x 3
    #            0 3
    assert turn_positions(2, 3, 180).tolist() == [5, 4, 3, 2, 1, 0]
    assert turn_positions(3, 3, 90).tolist() == [2, 5, 8, 1, 4, 7, 0, 3, 6]


def test_corners_are_black() -> None:
    positions = turn_positions(28, 28, 45).reshape(28, 28)
    assert positions[[0, 0, -1, -1], [0, -1, 0, -1]].tolist() == [-1] * 4
    assert positions[13:15, 13:15].min() >= 0


def test_the_table_itself_stays() -> None:
    values = np.ones((2, 16), np.float32)
    view = View(Table(values), np.arange(2), 16, turn_positions(4, 4, 45))
    assert (view.numpy() == 0).any()
    assert (view.batch(torch.tensor([1])) == 0).any()
    assert (values == 1).all()


def test_a_checkpoint_keeps_what_is_black(tmp_path: Path) -> None:
    x = images(4, 4, 3)
    for table in (PixelTable(x), Table(x.reshape(5, -1)[:, :16].astype(np.float32))):
        view = View(table, ROWS, 16, turn_positions(4, 4, 45))
        (again,) = View.from_state_dict(View.state_dict([view]))
        np.testing.assert_array_equal(again.numpy(), view.numpy())
        assert table_from(table.state_dict()).width == 16
