"""Embedding files without features, for the tests of the protocol `iirc`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from embedbench.files.embedding_file import FINAL, EmbeddingFile
from embedbench.files.sample_metadata import TEST, TRAIN, VAL, Samples
from embedbench.protocols import _hierarchy
from embedbench.streams.stream import Stream
from embedbench.streams.view import rows_of


class LabelFile(EmbeddingFile):
    """A file of labels alone, in memory; every feature is 0."""

    def read(self, layers: Sequence[str] = (), embedding: str = FINAL) -> NDArray[np.float32]:
        return np.zeros(self.shape, dtype=np.float32)


def label_file(
    labels: Any, split: Any, classes: Sequence[str], parents: Any = None, name: str = "labels.h5"
) -> LabelFile:
    """A file of these samples; without `parents` its classes are flat."""
    samples = Samples(
        ids=np.arange(len(labels)).astype(np.str_),
        labels=np.asarray(labels),
        split=np.asarray(split),
        classes=tuple(classes),
        parents=np.full(len(classes), -1) if parents is None else np.asarray(parents),
    )
    return LabelFile(
        path=Path(name),
        samples=samples,
        provenance={},
        digests={"samples": samples.digest(), "recipe": "0", "content": "0"},
        kind="embedding",
        shape=(len(labels), 1),
        dtype=np.dtype(np.float32),
        layers={},
        columns={},
        version="1.0",
    )


def label_list(classes: Sequence[str], train: int, test: int) -> LabelFile:
    """`train` and `test` samples of each class, in turns: class r mod K for row r."""
    n = len(classes)
    labels = np.arange(n * (train + test)) % n  # training rows first
    split = np.where(np.arange(len(labels)) < n * train, 0, TEST)
    return label_file(labels, split, classes)


def random_file(rng: np.random.Generator, depth: int, *, least: int = 1) -> LabelFile:
    """A random hierarchy of `depth` levels, 2 to 4 branches a node, some leaves higher up."""
    above: list[int] = []  # of each node, numbered as they come
    level = [-1]
    for _ in range(depth):
        nodes = []
        for parent in level:
            for _child in range(int(rng.integers(3, 6) if parent < 0 else rng.integers(1, 4))):
                above.append(parent)
                nodes.append(len(above) - 1)
        first = nodes[:1]  # one branch goes all the way down
        level = [n for n in nodes if n in first or rng.random() < 0.7]
    inner = sorted({p for p in above if p >= 0})
    order = [n for n in range(len(above)) if n not in inner] + inner
    number = {n: i for i, n in enumerate(order)}
    parents = [number.get(above[n], -1) for n in order]
    n_leaves = len(order) - len(inner)
    counts = [rng.integers(least, 30, n_leaves), rng.integers(1, 4, n_leaves)]
    labels = np.concatenate([np.repeat(np.arange(n_leaves), c) for c in counts])
    split = np.repeat([0, TEST], [c.sum() for c in counts])
    shuffled = rng.permutation(len(labels))
    names = [f"node {n}" for n in order]
    return label_file(labels[shuffled], split[shuffled], names, parents)


# bear over polar and brown bear, and a lamp; the samples of each in turns
BEARS = ("polar bear", "brown bear", "lamp", "bear")
ABOVE = (3, 3, -1, -1)


def bears(n: int = 10, **roles: int) -> Any:
    """n training samples of each leaf, row 3 i + leaf for sample i, and then others by role."""
    rows = {TRAIN: n, VAL: roles.get("val", 0), TEST: roles.get("test", 2)}
    split = np.concatenate([np.full(3 * k, role) for role, k in rows.items()])
    return label_file(np.arange(len(split)) % 3, split, BEARS, ABOVE)


def shown(stream: Stream) -> list[list[tuple[int, list[str]]]]:
    """Rows and labels by name of every session."""
    return [
        [
            (row, [stream.classes[c] for c in np.flatnonzero(y)])
            for row, y in zip(rows_of(s.x).tolist(), s.y, strict=True)
        ]
        for s in stream.sessions
    ]


def publish(patch: pytest.MonkeyPatch, **told: Any) -> str:
    """The name of a hierarchy as those that are published."""
    patch.setattr(_hierarchy, "hierarchy_text", lambda _: json.dumps(told))
    return "iirc-cifar"
