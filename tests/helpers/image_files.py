"""An embedding file and a pixel file of one source, for tests."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_metadata import TEST, TRAIN, Samples
from embedbench.files.write_file import write_file

HIGH, WIDE = 3, 4
N_CLASSES, PER_CLASS = 6, 14  # leaves; the first three below one node


def samples(seed: int = 0) -> Samples:
    """Six classes of ten training and four test samples each, in a mixed order."""
    draw = np.random.default_rng(seed)
    place = np.tile(np.arange(PER_CLASS), N_CLASSES)
    order = draw.permutation(len(place))
    return Samples(
        ids=np.array([f"{i}.png" for i in range(len(place))]),
        labels=np.repeat(np.arange(N_CLASSES), PER_CLASS)[order],
        split=np.where(place < 10, TRAIN, TEST)[order].astype(np.uint8),
        classes=(*"abcdef", "node"),
        parents=np.array([6, 6, 6, -1, -1, -1, -1]),
    )


def image_bytes(channels: int = 3) -> NDArray[np.uint8]:
    shape = (N_CLASSES * PER_CLASS, HIGH, WIDE, channels)
    return np.random.default_rng(1).integers(0, 256, shape, np.uint8)


def pixel_file(folder: Path, channels: int = 3, seed: int = 0) -> EmbeddingFile:
    made = {"backbone": {"name": "none"}}
    return write_file(folder / "p.h5", samples(seed), image_bytes(channels), made, overwrite=True)


def embedding_file(folder: Path, width: int = 10, seed: int = 0) -> EmbeddingFile:
    x = np.random.default_rng(2).normal(size=(N_CLASSES * PER_CLASS, width)).astype(np.float32)
    made = {"backbone": {"name": "some"}}
    return write_file(folder / "e.h5", samples(seed), x, made, overwrite=True)


def colour_folder(root: Path, names: str, *, each: int, size: int) -> Path:
    """A class folder for each letter of `names`, of noisy images in one colour."""
    draw = np.random.default_rng(0)
    for name in names:
        (root / name).mkdir()
        colour = draw.integers(40, 216, 3)
        for i in range(each):
            noisy = colour + draw.integers(-40, 40, (size, size, 3))
            Image.fromarray(noisy.astype(np.uint8)).save(root / name / f"{i}.png")
    return root
