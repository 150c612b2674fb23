"""Verify an embedding file: every checksum and every value."""

from itertools import groupby
from pathlib import Path

import numpy as np

from embedbench.errors import DamagedFileError, UserError

from . import hdf5_layout, integrity_checks
from .embedding_file import EmbeddingFile


def verify(path: str | Path) -> list[str]:
    """Check everything in a file.

    Returns
    -------
    list of str
        One sentence for each run of damaged rows and for each other fault; empty if there is none.

    Raises
    ------
    UserError
        There is no such file, or it is not an embedding file.
    """
    path = Path(path)
    try:
        file = EmbeddingFile.open(path)
    except DamagedFileError as error:
        return [str(error), *_damage_sentences(path)]
    sentences = _damage_sentences(path)
    if sentences:
        return sentences
    for table in file.tables(list(file.layers)):
        for first, rows in file.blocks(table, finite=False):
            bad = first + np.flatnonzero(~np.isfinite(rows.reshape(len(rows), -1)).all(axis=1))
            sentences += [f"row {row} of {table} holds NaN or infinite values." for row in bad]
    return sentences


def _damage_sentences(path: Path) -> list[str]:
    """Return one sentence for each run of neighbouring damaged blocks."""
    try:
        damage = integrity_checks.damaged_rows(path)
    except UserError:  # the checksums cannot be read either
        return []
    sentences = []
    runs = groupby(enumerate(damage), key=lambda e: (e[1][0], e[1][1] // hdf5_layout.BLOCK - e[0]))
    for (table, _), run in runs:
        blocks = [block for _, block in run]
        sentences.append(
            f"rows {blocks[0][1]} to {blocks[-1][2] - 1} of {table} do not match their checksums."
        )
    return sentences
