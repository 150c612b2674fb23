"""Raw pixels as features: values between 0 and 1, and the recipe for the provenance."""

import math
from typing import Any

import numpy as np

from embedbench.array_types import Bytes, Float32s


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
