"""Random embedding files with the shapes of real data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedbench.files.sample_metadata import TEST, TRAIN, Samples
from embedbench.files.write_file import write_file

Values = NDArray[Any]


def mnist_like(path: Path, train: int = 60_000, test: int = 10_000) -> Path:
    """MNIST's shape: ten noisy prototypes of 784 values, 60,000 training, 10,000 test samples."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, train + test)
    x = rng.random((train + test, 784), dtype=np.float32) - 0.5
    x += rng.random((10, 784), dtype=np.float32)[labels]
    split = np.repeat([TRAIN, TEST], [train, test])
    return _write(path, np.clip(x, 0, 1), labels, split, "pixels")


def clusters(
    path: Path,
    classes: int = 150,
    train: int = 30,
    test: int = 29,
    noise: float = 3.0,
    width: int = 2048,
) -> Path:
    """CUB-200's shape with ResNet-50's features: Gaussian clusters in 2048 dimensions."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(classes), train + test)
    x = noise * rng.standard_normal((len(labels), width), dtype=np.float32)
    x += rng.standard_normal((classes, width), dtype=np.float32)[labels]
    split = np.tile(np.repeat([TRAIN, TEST], [train, test]), classes)
    return _write(path, x, labels, split, "random")


def cifar_layers(path: Path, train: int = 500, test: int = 100) -> Path:
    """CIFAR-100's size in 256 dimensions, with three layers of the same width: class means."""
    rng = np.random.default_rng(0)
    labels, split = _by_split(100, train, test)
    tables = [
        rng.standard_normal((len(labels), 256), dtype=np.float32)
        + rng.standard_normal((100, 256), dtype=np.float32)[labels]
        for _ in range(4)
    ]
    layers = {f"block-{7 + k}": x for k, x in enumerate(tables[1:])}
    return _write(path, tables[0], labels, split, "random", layers)


def cifar_images(path: Path, classes: int = 100, train: int = 500, test: int = 100) -> Path:
    """CIFAR-100's shape: 32 × 32 noise with a tint per class."""
    rng = np.random.default_rng(0)
    labels, split = _by_split(classes, train, test)
    values = rng.integers(0, 192, (len(labels), 32, 32, 3), dtype=np.uint8)
    values += rng.integers(0, 64, (classes, 1, 1, 3), dtype=np.uint8)[labels]
    return _write(path, values, labels, split, "none")


def _by_split(classes: int, train: int, test: int) -> tuple[Values, Values]:
    labels = np.concatenate([np.repeat(np.arange(classes), n) for n in (train, test)])
    return labels, np.repeat([TRAIN, TEST], [classes * train, classes * test])


def _write(
    path: Path,
    x: Values,
    labels: Values,
    split: Values,
    backbone: str,
    layers: dict[str, Values] | None = None,
) -> Path:
    n_classes = int(labels.max()) + 1
    samples = Samples(
        ids=np.array([f"sample/{i}" for i in range(len(labels))]),
        labels=labels.astype(np.int64),
        split=split.astype(np.uint8),
        classes=tuple(f"class {c}" for c in range(n_classes)),
        parents=np.full(n_classes, -1),
    )
    return write_file(path, samples, x, {"backbone": {"name": backbone}}, layers=layers or {}).path
