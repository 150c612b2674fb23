"""The weights that the package ships."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

DEMO_BACKBONE = "tf_efficientnet_lite0"
DEMO_WEIGHTS = "tf_efficientnet_lite0.fp16.safetensors"


def demo_weights() -> Path:
    """Return the weights that the package ships."""
    return Path(str(files("embedbench") / "assets" / DEMO_WEIGHTS))
