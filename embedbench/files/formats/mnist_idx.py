"""MNIST's IDX files, read by hand, since torchvision reads what a header declares unseen."""

import gzip
import math
import os
import struct
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from embedbench.array_types import Bytes
from embedbench.errors import UserError
from embedbench.files.sample_metadata import SPLITS, TEST, TRAIN, Samples
from embedbench.storage.regular_files import explain_errors, open_regular
from embedbench.storage.untrusted_files import too_large

ROWS = 2**21  # most samples of a compressed file that is smaller than their number
_PREFIXES = {TRAIN: "train", TEST: "t10k"}


def is_idx(directory: Path) -> bool:
    """Return whether a directory holds MNIST's training images, plain or gzipped."""
    return _find(directory, "train-images-idx3") is not None


def read_idx(directory: Path) -> tuple[Samples, Bytes]:
    """Read MNIST's four IDX files, plain or gzipped: train-* is train, t10k-* is test.

    **Source** Yann LeCun's description of the IDX format: two zero bytes, the element type (8:
    unsigned byte), the number of axes, their sizes as big-endian 32-bit integers, the values.

    Returns
    -------
    tuple
        The samples, with the digits as classes and ids `train/00000`, … and `test/00000`, … in the
        order of the files; and the (N, H, W) images.
    """
    images = []
    labels = []
    ids = []
    split = []
    for part, prefix in _PREFIXES.items():
        images.append(_read_file(directory, f"{prefix}-images-idx3", 3))
        labels.append(_read_file(directory, f"{prefix}-labels-idx1", 1))
        if len(images[-1]) != len(labels[-1]) or images[-1].shape[1:] != images[0].shape[1:]:
            raise UserError(
                f"{directory}: {prefix} images of shape {images[-1].shape} and {len(labels[-1])} "
                "labels do not belong together",
                "fetch the four files again",
            )
        ids += [f"{SPLITS[part]}/{row:05d}" for row in range(len(labels[-1]))]
        split += [part] * len(labels[-1])
    y = np.concatenate(labels).astype(np.int64)
    n_classes = int(y.max(initial=0)) + 1
    samples = Samples(
        ids=np.array(ids, dtype=np.str_),
        labels=y,
        split=np.array(split, dtype=np.uint8),
        classes=tuple(str(label) for label in range(n_classes)),
        parents=np.full(n_classes, -1),
    )
    return samples, np.concatenate(images)


def _find(directory: Path, stem: str) -> Path | None:
    for name in (f"{stem}-ubyte", f"{stem.replace('-idx', '.idx')}-ubyte"):
        for path in (directory / name, directory / f"{name}.gz"):
            if path.is_file():
                return path
    return None


def _read_file(directory: Path, stem: str, n_axes: int) -> Bytes:
    path = _find(directory, stem)
    if path is None:
        raise UserError(f"{directory} has no {stem}-ubyte(.gz); all four IDX files are needed")
    start = 4 + 4 * n_axes
    with (
        explain_errors(f"{path} cannot be read", "fetch it again"),
        open_regular(path) as stored,
        gzip.open(stored) if path.suffix == ".gz" else nullcontext(stored) as file,
    ):
        most = os.fstat(stored.fileno()).st_size
        head = file.read(start)
        shape = struct.unpack_from(f">{n_axes}I", head, 4)
        size = math.prod(shape)
        small = shape[0] <= max(ROWS, most) and not too_large(size, most)
        whole = head[:4] == bytes([0, 0, 8, n_axes]) and small
        data = file.read(size + 1) if whole else b""  # one more than there should be
    if not whole or len(data) != size:
        raise UserError(
            f"{path} does not hold bytes along {n_axes} axes, or is cut short", "fetch it again"
        )
    return np.frombuffer(data, np.uint8).reshape(shape)
