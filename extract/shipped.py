"""The weights that the package ships."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from embedbench.networks.weights import SHIPPED

DEMO_BACKBONE = SHIPPED
DEMO_WEIGHTS = f"{DEMO_BACKBONE}.fp16.safetensors"


def demo_weights() -> Path:
    """Return the weights that the package ships."""
    return Path(str(files("embedbench") / "assets" / DEMO_WEIGHTS))
