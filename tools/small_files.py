"""Small sources for `fingerprints.py`: always the same bytes, made without embedbench."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

TRAIN, TEST = 24, 8  # samples per class
CHILD_OF = (0, 0, 0, 1, 1, 1, 2, 2, -1, -1)  # superclass of each leaf of the file with a hierarchy


def blobs(
    rng: np.random.Generator, labels: NDArray[np.int64], width: int, spread: float = 1.5
) -> NDArray[np.float32]:
    """One Gaussian per class; they overlap, so that no learner is always right."""
    centres = rng.normal(size=(labels.max() + 1, width))
    x: NDArray[np.float32] = (
        centres[labels] + spread * rng.normal(size=(len(labels), width))
    ).astype(np.float32)
    return x


def write_sources(folder: Path) -> list[str]:
    """Write npz files for `embedbench import`; returns their names without the ending."""
    rng = np.random.default_rng(20261122)
    _npz(folder, "a", rng, 12, 8)
    _npz(folder, "b", rng, 5, 6, letter="m")
    _npz(folder, "layers", rng, 12, 8, layers=3)
    _npz(folder, "tree", rng, len(CHILD_OF), 8, parents=CHILD_OF)
    _npz(folder, "pixels", rng, 6, 8, images=True, parents=(0, 0, 0, -1, -1, -1))
    _npz(folder, "wide", np.random.default_rng(20261123), 24, 768)
    return ["a", "b", "layers", "tree", "pixels", "wide"]


def _npz(
    folder: Path,
    name: str,
    rng: np.random.Generator,
    n_classes: int,
    width: int,
    *,
    letter: str = "c",
    layers: int = 0,
    parents: tuple[int, ...] = (),
    images: bool = False,
) -> None:
    labels = rng.permutation(np.repeat(np.arange(n_classes), TRAIN + TEST))
    split = np.zeros(len(labels), np.uint8)  # 0 train, 2 test
    for c in range(n_classes):
        split[np.flatnonzero(labels == c)[TRAIN:]] = 2
    classes = [f"{letter}{c}" for c in range(n_classes)]
    arrays: dict[str, Any] = {"labels": labels, "split": split}
    if images:
        x = blobs(rng, labels, width * width * 3, spread=1.0).reshape(-1, width, width, 3)
        arrays["features"] = np.clip(128 + 30 * x, 0, 255).astype(np.uint8)
    else:
        arrays["features"] = blobs(rng, labels, width)
    arrays |= {f"layer/block{k}": blobs(rng, labels, width) for k in range(layers)}
    if parents:
        inner = max(parents) + 1
        classes += [f"above{k}" for k in range(inner)]
        above = [p + n_classes if p >= 0 else -1 for p in parents]
        arrays["parents"] = np.array(above + [-1] * inner)
    np.savez(folder / f"{name}.npz", classes=np.array(classes), **arrays)


def write_images(folder: Path) -> None:
    """A folder of class folders of PNG images, for `embedbench extract`."""
    rng = np.random.default_rng(7)
    for c in range(4):
        (folder / f"class{c}").mkdir(parents=True)
        for i in range(5):
            image = rng.integers(0, 256, (24, 32, 3), np.uint8)
            (folder / f"class{c}" / f"{i}.png").write_bytes(_png(image))


def _png(image: NDArray[np.uint8]) -> bytes:
    """An RGB image (H, W, 3) as PNG."""
    high, wide, _ = image.shape
    rows = b"".join(b"\0" + row.tobytes() for row in image)
    head = struct.pack(">IIBBBBB", wide, high, 8, 2, 0, 0, 0)

    def chunk(kind: bytes, data: bytes) -> bytes:
        sum32 = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", sum32)

    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body
