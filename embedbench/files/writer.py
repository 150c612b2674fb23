"""Writing an embedding file at once; `embedbench.files.partial` writes one block by block.

docs/format.md describes the format. A file appears under its name only when it is complete.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from embedbench import hdf5
from embedbench.disk import writing
from embedbench.errors import UserError

from . import layout
from .assemble import assemble
from .file import EmbeddingFile
from .formats.tables import SampleTable
from .samples import Samples
from .target import check_target


def write_file(
    path: str | os.PathLike[str],
    samples: Samples,
    features: SampleTable,
    provenance: Mapping[str, Any],
    *,
    layers: Mapping[str, SampleTable] | None = None,
    columns: Mapping[str, NDArray[Any]] | None = None,
    overwrite: bool = False,
    compress: bool = False,
) -> EmbeddingFile:
    """Write an embedding file under a temporary name, and rename it when it is complete.

    Parameters
    ----------
    path : str or PathLike
        Path of the file.
    samples : Samples
        Ids, labels, splits and hierarchy of the N rows.
    features : array
        (N, D) float32 or float16; for a pixel file, images, (N, H, W, C) uint8.
    provenance : mapping
        What made the features, as plain JSON; `date_utc` and `made_by` are filled in.
    layers : mapping or None
        (N, D_l) float32 or float16 of each intermediate embedding.
    columns : mapping or None
        Optional values (N,) by name: `domain` and `group`, texts; `time`, seconds or a frame
        number.
    overwrite : bool
        Replace an existing file.
    compress : bool
        Store features with gzip; it pays for pixels, not for embeddings.

    Raises
    ------
    UserError
        The file exists, its directory does not, or samples, features or columns are not valid.
    """
    path = Path(path)
    check_target(path, overwrite=overwrite)
    tables = {"features": features, **{f"layers/{k}": v for k, v in (layers or {}).items()}}
    chunks = _chunks(tables, len(samples.ids))
    with writing(path) as temporary:
        assemble(temporary, samples, provenance, chunks, columns=columns, compress=compress)
    hdf5.trust(path)
    return EmbeddingFile.open(path)


def _chunks(tables: Mapping[str, SampleTable], n: int) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Yield whole tables of n rows block by block."""
    for name, values in tables.items():
        if len(values) != n:
            raise UserError(
                f"{name} has {len(values)} rows for {n} sample ids; give one row per sample."
            )
    for first, end in layout.block_ranges(n):
        yield {name: values[first:end] for name, values in tables.items()}
