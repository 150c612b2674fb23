"""Small embedding files for the checks of protocols: what files may look like at their worst."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from embedbench.file import TEST, TRAIN, VAL, EmbeddingFile, Samples
from embedbench.writer import write_file

WIDTH = 6


def _write(
    folder: Path, name: str, train: Sequence[int], val: Sequence[int], test: Sequence[int]
) -> EmbeddingFile:
    """A file with these numbers of samples per leaf class; two leaves have a parent."""
    n_classes = len(train)
    labels = np.concatenate([np.repeat(np.arange(n_classes), n) for n in (train, val, test)])
    split = np.repeat([TRAIN, VAL, TEST], [sum(train), sum(val), sum(test)])
    draw = np.random.default_rng(0)
    order = draw.permutation(len(labels))
    samples = Samples(
        ids=np.array([f"{i:03d}.png" for i in range(len(labels))]),
        labels=labels[order],
        split=split[order].astype(np.uint8),
        classes=(*(f"leaf {c}" for c in range(n_classes)), "node"),
        parents=np.array([n_classes, n_classes, *[-1] * (n_classes - 1)]),
    )
    features = draw.normal(size=(len(labels), WIDTH)).astype(np.float32)
    return write_file(folder / f"{name}.h5", samples, features, {"backbone": {"name": "made up"}})


KINDS: dict[str, Callable[[Path], EmbeddingFile]] = {
    "plain": partial(_write, name="plain", train=[10] * 6, val=[0] * 6, test=[4] * 6),
    "brings its validation data": partial(
        _write, name="val", train=[6] * 6, val=[2] * 6, test=[3] * 6
    ),
    "uneven": partial(
        _write,
        name="uneven",
        train=[1, 2, 3, 4, 5, 12],
        val=[0] * 6,
        test=[1, 2, 1, 0, 3, 1],
    ),
}

_folder = cache(TemporaryDirectory)  # lasts as long as the process


@cache
def small_file(kind: str) -> EmbeddingFile:
    """The small file of a kind, written when it is first asked for."""
    return KINDS[kind](Path(_folder().name))
