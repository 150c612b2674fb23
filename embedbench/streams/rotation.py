"""Rotations of images as columns of views: no image is turned before a batch of it is read."""

import numpy as np

from embedbench.array_types import Ints


def turn_positions(high: int, wide: int, angle: float) -> Ints:
    """Return the position that each position of a turned image shows, (H·W,) row by row; -1: none.

    Pillow turns the numbers of the positions as it turns an image: to the nearest pixel.

    >>> turn_positions(2, 2, 90)  # counter-clockwise
    array([1, 3, 0, 2])
    """
    from PIL import Image

    numbers = np.arange(1, high * wide + 1, dtype=np.int32).reshape(high, wide)
    turned = Image.fromarray(numbers).rotate(angle)  # 0 outside
    return np.asarray(turned).ravel().astype(np.int64) - 1


def spread_channels(positions: Ints, channels: int) -> Ints:
    """Return the columns of rows of pixels, in which a pixel has its channels together; -1: black.

    >>> spread_channels(np.array([1, -1]), 3)
    array([ 3,  4,  5, -1, -1, -1])
    """
    columns = positions[:, None] * channels + np.arange(channels)
    columns[positions < 0] = -1
    return columns.ravel()
