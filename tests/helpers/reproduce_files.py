"""What tests of the reproductions need: a small file of blobs, and a table's rows by labels."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from toy import blobs

from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_metadata import Samples
from embedbench.files.write_file import write_file
from embedbench.papers.paper_table import PaperTable, Value


def blob_file(
    path: Path, classes: int, n: int, groups: int = 0, layers: Sequence[str] = ()
) -> EmbeddingFile:
    """n samples a class, every second one test; in as many groups as asked, mixed up.

    `layers` are blobs around the same centres, with noise of their own.
    """
    labels = np.repeat(np.arange(classes), n)
    samples = Samples(
        ids=np.array([f"{i:06d}" for i in range(len(labels))]),
        labels=labels,
        split=np.tile([0, 2], len(labels) // 2).astype(np.uint8),
        classes=(*(f"c{i}" for i in range(classes)), *(f"g{i}" for i in range(groups))),
        parents=np.array(
            [classes + i % groups if groups else -1 for i in range(classes)] + [-1] * groups
        ),
    )
    final, *others = (blobs(labels, 6, seed, spread=0.8) for seed in range(1 + len(layers)))
    named = dict(zip(layers, others, strict=True))
    return write_file(path, samples, final, {}, layers=named)


def by_labels(table: PaperTable) -> dict[tuple[str, ...], dict[str, Value]]:
    """Values by column, by labels; every row has labels of its own."""
    rows = {row.labels: row.values for row in table.rows}
    assert len(rows) == len(table.rows)
    return rows
