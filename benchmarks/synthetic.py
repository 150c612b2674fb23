"""Random embedding files with the shapes of real data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedbench.files.sample_metadata import TEST, TRAIN, Samples
from embedbench.files.write_file import write_file


def mnist_like(path: Path, train: int = 60_000, test: int = 10_000) -> Path:
    """MNIST's shape: ten noisy prototypes of 784 values, 60,000 training, 10,000 test samples."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, train + test)
    x = rng.random((train + test, 784), dtype=np.float32) - 0.5
    x += rng.random((10, 784), dtype=np.float32)[labels]
    split = np.repeat([TRAIN, TEST], [train, test])
    return _write(path, np.clip(x, 0, 1), labels, split, "pixels")


def clusters(
    path: Path, classes: int = 150, train: int = 30, test: int = 29, noise: float = 3.0
) -> Path:
    """CUB-200's shape with ResNet-50's features: Gaussian clusters in 2048 dimensions."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(classes), train + test)
    x = noise * rng.standard_normal((len(labels), 2048), dtype=np.float32)
    x += rng.standard_normal((classes, 2048), dtype=np.float32)[labels]
    split = np.tile(np.repeat([TRAIN, TEST], [train, test]), classes)
    return _write(path, x, labels, split, "random")


def _write(
    path: Path, x: NDArray[np.float32], labels: NDArray[Any], split: NDArray[Any], backbone: str
) -> Path:
    n_classes = int(labels.max()) + 1
    samples = Samples(
        ids=np.array([f"sample/{i}" for i in range(len(labels))]),
        labels=labels.astype(np.int64),
        split=split.astype(np.uint8),
        classes=tuple(f"class {c}" for c in range(n_classes)),
        parents=np.full(n_classes, -1),
    )
    return write_file(path, samples, x, {"backbone": {"name": backbone}}).path
