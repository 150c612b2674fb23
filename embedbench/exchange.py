"""Bringing features in from other formats, and out again."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedbench.errors import UserError
from embedbench.file import TEST, TRAIN, EmbeddingFile, Samples
from embedbench.writer import check_target, write_file

_IDX_FILES = (("train", TRAIN), ("t10k", TEST))
_IDX_SPLITS = {TRAIN: "train", TEST: "test"}


def import_file(
    src: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    overwrite: bool = False,
) -> EmbeddingFile:
    """Write an embedding file from features in another format."""
    src, out = Path(src), Path(out)
    check_target(out, overwrite=overwrite)
    if is_idx(src):
        samples, features = read_idx(src)
        return write_file(out, samples, features, idx_provenance(src), overwrite=overwrite)
    raise UserError(f"{src} is no source that import knows.")


def is_idx(directory: Path) -> bool:
    """Return whether a directory holds MNIST's IDX files, plain or gzipped."""
    return _idx_path(directory, "train", "images-idx3") is not None


def read_idx(directory: Path) -> tuple[Samples, NDArray[np.float32]]:
    """Read MNIST's four IDX files, plain or gzipped: train-* is train, t10k-* is test.

    Returns
    -------
    The samples, named ``train/00000`` and ``test/00000`` in the files' order, and (N, H·W) float32
    pixels between 0 and 1 (stored value / 255).

    **Source** Yann LeCun's description of the IDX format.
    """
    images, labels, ids, splits = [], [], [], []
    for prefix, split in _IDX_FILES:
        pixels = _read_idx_file(directory, prefix, "images-idx3", 3)
        answers = _read_idx_file(directory, prefix, "labels-idx1", 1)
        if len(pixels) != len(answers):
            raise UserError(
                f"{directory}: {len(pixels)} {prefix} images but {len(answers)} labels; "
                "the files do not belong together, fetch them again."
            )
        images.append(pixels)
        labels.append(answers)
        ids += [f"{_IDX_SPLITS[split]}/{row:05d}" for row in range(len(answers))]
        splits.append(np.full(len(answers), split, dtype=np.uint8))
    y = np.concatenate(labels).astype(np.int64)
    n_classes = int(y.max()) + 1
    samples = Samples(
        ids=np.array(ids),
        labels=y,
        split=np.concatenate(splits),
        classes=tuple(str(label) for label in range(n_classes)),
        parents=np.full(n_classes, -1),
    )
    features = np.empty((len(y), images[0][0].size), dtype=np.float32)
    np.divide(np.concatenate(images).reshape(features.shape), np.float32(255), out=features)
    return samples, features


def idx_provenance(directory: Path) -> dict[str, Any]:
    """Return the provenance of the raw pixels of IDX files."""
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
        "source": {"name": directory.resolve().name, "revision": "", "licence": ""},
    }


def _idx_path(directory: Path, prefix: str, what: str) -> Path | None:
    for name in (f"{prefix}-{what}-ubyte", f"{prefix}-{what.replace('-', '.')}-ubyte"):
        for path in (directory / name, directory / f"{name}.gz"):
            if path.is_file():
                return path
    return None


def _read_idx_file(directory: Path, prefix: str, what: str, n_axes: int) -> NDArray[np.uint8]:
    path = _idx_path(directory, prefix, what)
    if path is None:
        raise UserError(
            f"{directory} has no {prefix}-{what}-ubyte[.gz]; all four IDX files are needed."
        )
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError) as error:
        raise UserError(f"{path} cannot be unpacked ({error}); fetch it again.") from error
    start = 4 + 4 * n_axes
    shape = np.frombuffer(data[4:start], ">i4") if len(data) >= start else np.zeros(1, ">i4")
    if data[:4] != bytes([0, 0, 8, n_axes]) or len(data) - start != int(shape.prod(dtype=np.int64)):
        raise UserError(
            f"{path} is no IDX file of {n_axes}-axis bytes, or is cut short; fetch it again."
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
