"""Raw pixels as features: values between 0 and 1, and the recipe for the provenance."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from embedbench.array_types import Bytes, Float32s

FLIPPED = "#flipped"  # ends the id of the flipped copy of a training image


def pixels(images: Bytes) -> Float32s:
    """Return images (N, H, W) or (N, H, W, C) as rows (N, H·W·C) of stored value / 255."""
    out = np.empty((len(images), math.prod(images.shape[1:])), dtype=np.float32)
    np.divide(images.reshape(out.shape), np.float32(255), out=out)
    return out


def pixels_recipe() -> dict[str, Any]:
    """Return the recipe of raw pixels for the provenance, as `--backbone pixels` has it."""
    return {
        "backbone": {
            "name": "pixels",
            "library": "embedbench",
            "library_version": "",
            "weights_id": "",
            "weights_sha256": "",
            "layer": "input",
            "pooling": "none",
        },
        "preprocessing": {"scale": "value / 255", "layout": "row by row"},
        "arithmetic": {"dtype": "float32", "device_kind": "cpu"},
    }


def flat_shape(provenance: Mapping[str, Any], width: int) -> tuple[int, int, int] | None:
    """Height, width and channels of images whose rows of pixels from 0 to 1 have this width.

    They are square. None if a file of this provenance has no such rows.
    """
    preprocessing = provenance.get("preprocessing", {})
    raw = provenance.get("backbone", {}).get("name") == "pixels"
    if not raw or preprocessing.get("scale") != pixels_recipe()["preprocessing"]["scale"]:
        return None
    channels = 3 if preprocessing.get("channels") == "RGB" else 1
    side = math.isqrt(width // channels)
    return (side, side, channels) if channels * side**2 == width else None
