"""What made a file of weights, and how its images were prepared: kept in the file itself."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedbench.config.json_types import JsonRecord, parse_json
from embedbench.errors import UserError

METADATA = "embedbench"  # key of the metadata in files that we write


@dataclass(frozen=True)
class _Preprocessing(JsonRecord):
    """The preprocessing of images, with the keys of timm's configurations."""

    input_size: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    crop_pct: float
    crop_mode: str
    interpolation: str

    def check(self, name: str) -> None:
        channels, *sides = self.input_size or (0,)
        if not (
            len(sides) == 2
            and all(1 <= side <= 4096 for side in sides)
            and channels == len(self.mean) == len(self.std)
            and all(map(math.isfinite, self.mean))
            and all(0 < value < math.inf for value in self.std)
            and 0 < self.crop_pct <= 1
            and self.crop_mode in ("center", "squash", "border")
            and self.interpolation in ("nearest", "bilinear", "bicubic", "lanczos")
        ):
            raise UserError(f"{name} names a preprocessing of images that timm does not have.")


@dataclass(frozen=True)
class HeadMetadata(JsonRecord):
    """What is known of a classifier that lies with its trunk.

    Parameters
    ----------
    kind : str
        "cosine": logits are scale · cos(φ(x), θ_c).
    scale : float
        The factor of the cosines.
    classes : tuple of str
        Name of each row's class.
    samples : str
        Digest of the training samples, see `embedbench.learning.pretrained_net.taught_digest`.
    """

    kind: str
    scale: float
    classes: tuple[str, ...]
    samples: str


@dataclass(frozen=True)
class _Metadata(JsonRecord):
    """What is read of the metadata."""

    shown: _Preprocessing | None = None
    head: HeadMetadata | None = None


def read_metadata(path: Path) -> dict[str, Any]:
    """The metadata that `save_weights` put into a file; empty for any other file."""
    if path.suffix != ".safetensors" or not path.is_file():
        return {}
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            text = (file.metadata() or {}).get(METADATA, "{}")
    except SafetensorError:  # `load_weights` reports the fault
        return {}
    name = f"{path}: its metadata"
    metadata: dict[str, Any] = parse_json(text, name)
    read = _Metadata.from_json(metadata, name)
    if read.shown is not None:
        read.shown.check(name)
        metadata["shown"] = read.shown.to_json()
    return metadata
