"""Files small enough to know by heart, for the tests of protocols."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.raw_pixels import FLIPPED
from embedbench.files.sample_metadata import TEST, TRAIN, VAL, Samples
from embedbench.files.write_file import write_file

WIDTH = 4


def make_file(
    folder: Path,
    train: Sequence[int] = (4, 4, 4, 4),
    val: Sequence[int] = (0, 0, 0, 0),
    test: Sequence[int] = (2, 2, 2, 2),
    *,
    backbone: str = "made up",
    name: str = "file.h5",
    width: int = WIDTH,
    apart: float = 0.0,
    columns: dict[str, Any] | None = None,
    classes: Sequence[str] = "abcdefgh",
    parents: Sequence[int] | None = None,
) -> EmbeddingFile:
    """A file with these numbers of samples per class: class by class train, val, test.

    The class with label k has its mean `apart` further out along column k, if there is one.
    `columns` are those of the format, one value a sample; `classes` are the names, with `parents`
    also those of inner nodes.
    """
    labels, split = [], []
    for c, counts in enumerate(zip(train, val, test, strict=True)):
        for role, n in zip((TRAIN, VAL, TEST), counts, strict=True):
            labels += [c] * n
            split += [role] * n
    samples = Samples(
        ids=np.array([f"{i}.png" for i in range(len(labels))]),
        labels=np.array(labels),
        split=np.array(split, dtype=np.uint8),
        classes=tuple(classes if parents else classes[: len(train)]),
        parents=np.array(parents or [-1] * len(train)),
    )
    features = np.random.default_rng(0).normal(1, 2, (len(labels), width)).astype(np.float32)
    features += apart * np.eye(max(width, len(train)), width, dtype=np.float32)[labels]
    made = {"backbone": {"name": backbone}}
    return write_file(folder / name, samples, features, made, columns=columns)


def make_flipped_file(
    folder: Path, train: Sequence[int], val: Sequence[int], test: Sequence[int]
) -> EmbeddingFile:
    """As `make_file`, with a flipped copy behind each training sample: its columns reversed."""
    plain = make_file(folder, train, val, test, name="plain.h5")
    ids, rows = list[str](), list[int]()
    for row, (name, role) in enumerate(zip(plain.sample_ids, plain.split, strict=True)):
        ids.append(name)
        rows.append(row)
        if role == TRAIN:
            ids.append(name + FLIPPED)
            rows.append(row)
    features = plain.read()[rows]
    copies = np.char.endswith(np.array(ids), FLIPPED)
    features[copies] = features[copies, ::-1]
    samples = Samples(
        ids=np.array(ids),
        labels=plain.labels[rows],
        split=plain.split[rows],
        classes=plain.classes,
        parents=plain.parents,
    )
    made = {"backbone": {"name": "pixels"}, "preprocessing": {"flip": "left to right"}}
    return write_file(folder / "flipped.h5", samples, features, made)
