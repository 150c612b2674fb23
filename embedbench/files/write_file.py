"""Write an embedding file from rows, samples and provenance."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from embedbench.array_types import Array, Strings
from embedbench.errors import UserError
from embedbench.storage import safe_hdf5
from embedbench.storage.atomic_write import writing
from embedbench.system.callback_types import Progress
from embedbench.version import __version__

from . import file_digests, hdf5_layout
from .embedding_file import EmbeddingFile
from .provenance import read_provenance
from .sample_metadata import SPLITS, Samples, checked_columns, pack_column

_LAYER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")
_LAYER = (hdf5_layout.TABLES[hdf5_layout.EMBEDDING],)  # the form of a layer


def assemble(
    path: Path,
    samples: Samples,
    provenance: Mapping[str, Any],
    chunks: Iterable[Mapping[str, Array]],
    *,
    columns: Mapping[str, Array] | None = None,
) -> None:
    """Write a complete file from chunks of consecutive rows; each chunk holds every feature table.

    Only one chunk is in memory at a time, so memory does not grow with the number of rows. `path`
    is a temporary name of `writing`, which removes the file after an error.
    """
    samples.check()
    columns = checked_columns({} if columns is None else columns, len(samples.ids))
    provenance = _completed(provenance, samples)
    text = file_digests.canonical_json(provenance).encode()
    read_provenance(text, "the provenance")
    if len(text) > hdf5_layout.PROVENANCE:
        raise UserError(
            f"the provenance has {len(text):,} bytes",
            f"an embedding file holds at most {hdf5_layout.PROVENANCE:,}, so make it shorter",
        )
    recipe = file_digests.canonical_json(file_digests.recipe(provenance)).encode()
    with safe_hdf5.create_hdf5(path) as file:
        hdf5_layout.set_attribute(file, "format", hdf5_layout.FORMAT)
        hdf5_layout.set_attribute(
            file, "format_version", hdf5_layout.lowest_version(provenance, columns)
        )
        file.create_group("layers")
        sums = file.create_group("checksums")
        tables = _write_features(file, samples, chunks)
        kind = hdf5_layout.find_kind(file["features"].dtype, file["features"].shape)
        assert kind is not None
        if kind == hdf5_layout.PIXELS and len(tables) > 1:
            raise UserError("images have no layers beside them", "leave the layers out")
        hdf5_layout.set_attribute(file, "kind", kind)
        _write_samples(file, samples)
        _write_rows(file, {f"columns/{name}": pack_column(v) for name, v in columns.items()})
        _write_column(file, "provenance", np.array(text))
        digests = file.create_group("digests")
        hdf5_layout.set_attribute(digests, "samples", samples.digest())
        recipe_digest = file_digests.sha256_parts([("recipe", recipe)])
        hdf5_layout.set_attribute(digests, "recipe", recipe_digest)
        hdf5_layout.set_attribute(digests, "content", file_digests.content_digest(file, tables))
        if columns:
            hdf5_layout.set_attribute(digests, "columns", file_digests.columns_digest(columns))
        hdf5_layout.set_attribute(sums, "metadata", file_digests.metadata_digest(file))


def check_rows(table: str, rows: Array, first: int, ids: Sequence[str] | Strings) -> None:
    """Raise UserError unless the rows are finite embeddings or images: `hdf5_layout.TABLES`.

    Parameters
    ----------
    table : str
        `features` or `layers/NAME`.
    first : int
        Row number of the first one in the file.
    ids : sequence of str or array of str
        Ids of all samples, to name a bad one; may be empty if they are not known yet.
    """
    layer = table.removeprefix("layers/")
    if table != "features" and (layer == table or not _LAYER_NAME.fullmatch(layer)):
        raise UserError(f"layer name {layer!r} must be letters, digits, '.', '_' and '-' only.")
    kind = hdf5_layout.find_kind(rows.dtype, rows.shape)
    if kind is None or (table != "features" and kind != hdf5_layout.EMBEDDING):
        either = ", or ".join(hdf5_layout.TABLES.values() if table == "features" else _LAYER)
        raise UserError(
            f"{table} must be {either}, not {rows.dtype} of shape {rows.shape}", "convert it first"
        )
    if kind == hdf5_layout.EMBEDDING and not np.isfinite(rows).all():
        bad = int(np.argmin(np.isfinite(rows).all(axis=1)))
        who = f" (sample {str(ids[first + bad])!r})" if first + bad < len(ids) else ""
        raise UserError(
            f"row {first + bad} of {table}{who} holds NaN or infinite values",
            "remove that sample, or compute it in float32",
        )


def _write_features(
    file: h5py.File, samples: Samples, chunks: Iterable[Mapping[str, Array]]
) -> list[str]:
    """Write all feature tables, and their checksums; return their names."""
    n = len(samples.ids)
    filled: dict[str, int] = {}
    for chunk in chunks:
        for name, rows in chunk.items():
            first = filled.get(name, 0)
            check_rows(name, rows, first, samples.ids)
            if name not in filled:
                dtype = hdf5_layout.FEATURE_TYPES[rows.dtype.name]
                file.create_dataset(name, (n, *rows.shape[1:]), dtype)
            table = file[name]
            end = filled[name] = first + len(rows)
            if rows.shape[1:] != table.shape[1:] or rows.dtype != table.dtype or end > n:
                raise UserError(
                    f"{name} began as {table.dtype} of shape {table.shape}; rows from {first} on "
                    f"are {rows.dtype} of shape {rows.shape}"
                )
            table[first:end] = rows
    for name, count in filled.items():
        if count != n:
            raise UserError(
                f"{name} has {count} rows for {n} sample ids", "give one row per sample"
            )
        _write_sums(file, name)
    return list(filled)


def _write_samples(file: h5py.File, samples: Samples) -> None:
    rows = {
        "labels": samples.labels.astype("<i4"),
        "split": samples.split,
        "sample_ids": hdf5_layout.pack_strings(samples.ids),
    }
    _write_rows(file, rows)
    meaning = ", ".join(f"{number} {name}" for number, name in enumerate(SPLITS))
    hdf5_layout.set_attribute(file["split"], "meaning", meaning)
    _write_column(file, "classes", hdf5_layout.pack_strings(samples.classes))
    _write_column(file, "parents", samples.parents.astype("<i4"))


def _write_rows(file: h5py.File, tables: Mapping[str, Array]) -> None:
    """Write tables of one value a sample, and their checksums."""
    for name, values in tables.items():
        _write_column(file, name, values)
        _write_sums(file, name)


def _write_column(file: h5py.File, name: str, values: Array) -> None:
    if values.dtype.kind == "S":
        values = values.astype(h5py.string_dtype("utf-8", values.dtype.itemsize))
    file.create_dataset(name, data=values)


def _write_sums(file: h5py.File, name: str) -> None:
    """Write the checksums of a table, of its rows as they are read back."""
    blocks = hdf5_layout.block_ranges(len(file[name]))
    sums = b"".join(file_digests.block_digest(file[name][a:b]) for a, b in blocks)
    file[f"checksums/{name}"] = np.frombuffer(sums, np.uint8).reshape(-1, 32)


def _completed(provenance: Mapping[str, Any], samples: Samples) -> dict[str, Any]:
    """Return the provenance with date, writer and sample list filled in where they are missing."""
    made_by = {"embedbench": __version__}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    source = {"sample_list_sha256": samples.digest(), **(provenance.get("source") or {})}
    filled = {"date_utc": now, "made_by": made_by, "skipped": []}
    return {**filled, **provenance, "source": source}


def write_file(
    path: str | os.PathLike[str],
    samples: Samples,
    features: Array,
    provenance: Mapping[str, Any],
    *,
    layers: Mapping[str, Array] | None = None,
    columns: Mapping[str, Array] | None = None,
    overwrite: bool = False,
    progress: Progress = lambda *_: None,
    check: Callable[[], None] = lambda: None,
) -> EmbeddingFile:
    """Write an embedding file under a temporary name, and rename it when it is complete.

    `embedbench.files.resumable_file` writes one block by block.

    Parameters
    ----------
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
    progress : callable
        Called with (rows written, all) before each block of rows, and at the end.
    check : callable
        Called when all rows are written, before the file has its name; what it raises leaves none.

    Raises
    ------
    UserError
        The file exists, its directory does not, or samples, features or columns are not valid.
    """
    path = Path(path)
    check_target(path, overwrite=overwrite)
    tables = {"features": features}
    if layers is not None:
        tables |= {f"layers/{name}": layer for name, layer in layers.items()}
    chunks = _chunks(tables, len(samples.ids), progress)
    with writing(path) as temporary:
        assemble(temporary, samples, provenance, chunks, columns=columns)
        check()
    safe_hdf5.trust(path)
    return EmbeddingFile.open(path)


def _chunks(
    tables: Mapping[str, Array], n: int, progress: Progress
) -> Iterator[Mapping[str, Array]]:
    """Yield whole tables of n rows block by block."""
    for name, values in tables.items():
        if len(values) != n:
            raise UserError(
                f"{name} has {len(values)} rows for {n} sample ids", "give one row per sample"
            )
    for first, end in hdf5_layout.block_ranges(n):
        progress(first, n)
        yield {name: values[first:end] for name, values in tables.items()}
    progress(n, n)


def check_target(path: Path, *, overwrite: bool) -> None:
    """Raise UserError where `path` cannot be written, or must not be replaced."""
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is a directory or a device", "give the name of a file")
    if path.exists() and not overwrite:
        raise UserError(f"{path} exists", "choose another name, or replace it with --overwrite")
    if not path.parent.is_dir():
        raise UserError(f"there is no directory {path.parent}", "make it first (mkdir -p)")
