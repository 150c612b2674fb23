"""Opening embedding files and checking what is in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
from numpy.typing import NDArray

from embedbench.errors import DamagedFileError, UserError

from . import layout


def damaged_rows(path: Path) -> list[tuple[str, int, int]]:
    """Check every block of a file, even of one that `EmbeddingFile.open` refuses.

    Returns
    -------
    list of tuple
        (table, first row, row after the last) of every block with a wrong checksum.
    """
    with opened(path) as file:
        layers = [f"layers/{name}" for name in file["layers"]]
        return [
            damage
            for table in ("features", *layers, *layout.SAMPLE_TABLES)
            for damage in damage_of(file, table)
        ]


@contextmanager
def opened(path: Path) -> Iterator[h5py.File]:
    """Open a file for reading; every error that HDF5 raises is reported as a damaged file."""
    if path.is_dir():
        raise UserError(f"{path} is a directory; give the embedding file itself (.h5).")
    if not path.exists():
        partial = path.with_name(f".{path.name}.partial")
        hint = (
            f"unfinished work lies in {partial}: run the same extract again to finish it."
            if partial.is_dir()
            else "make it with `embedbench extract` or `embedbench import`."
        )
        raise UserError(f"there is no file {path}; {hint}")
    if not h5py.is_hdf5(path):
        raise UserError(
            f"{path} is not an HDF5 file (or its first bytes are damaged); "
            "give an embedding file, or bring other formats in with `embedbench import`."
        )
    try:
        with h5py.File(path, "r", locking=False) as file:
            yield file
    except UserError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DamagedFileError(
            f"{path} is damaged or incomplete ({reason}); copy or extract it again."
        ) from error


def check_format(path: Path, file: h5py.File) -> None:
    if "format" not in file.attrs or layout.attribute(file, "format") != layout.FORMAT:
        raise UserError(
            f"{path} is an HDF5 file but not an embedding file (its attribute 'format' is not "
            f"{layout.FORMAT!r}); bring other data in with `embedbench import`."
        )
    version = layout.attribute(file, "format_version")
    if version != layout.VERSION:
        raise UserError(
            f"{path} has format version {version}, and this embedbench reads {layout.VERSION}; "
            "install the embedbench that wrote it, or a newer one."
        )
    kind = layout.attribute(file, "kind")
    if kind not in layout.TABLES:
        raise UserError(
            f"{path} is of kind {kind!r}, and only {' and '.join(layout.TABLES)} can be read; "
            "install a newer embedbench."
        )


def check_metadata(path: Path, file: h5py.File) -> None:
    """Check the metadata checksum, the shapes, and the blocks of labels, splits and ids."""
    if "checksums" not in file or "metadata" not in file["checksums"].attrs:
        raise DamagedFileError(f"{path} is incomplete: its writing was interrupted; make it again.")
    if layout.metadata_digest(file) != layout.attribute(file["checksums"], "metadata"):
        raise DamagedFileError(
            f"{path} is damaged: its metadata does not match its checksum; copy or make it again."
        )
    tables = ["features", *(f"layers/{name}" for name in file["layers"])]
    n, kind = file["sample_ids"].shape[0], layout.attribute(file, "kind")
    for table in tables:
        shape, dtype = file[table].shape, file[table].dtype
        if shape[0] != n or layout.kind_of(dtype, shape) != kind:
            expected = layout.TABLES[kind].replace("N", str(n), 1)
            raise UserError(f"{path}: {table} is {dtype} of shape {shape}; expected {expected}.")
    if kind == layout.PIXELS and len(tables) > 1:
        raise UserError(f"{path} holds images, and layers beside them; images have none.")
    content = layout.content_digest(
        (
            layout.table_signature(table, file[table].dtype, file[table].shape),
            file[f"checksums/{table}"][()].tobytes(),
        )
        for table in tables
    )
    if content != layout.attribute(file["digests"], "content"):
        raise DamagedFileError(
            f"{path} is damaged: the checksums of its features do not match the content digest; "
            "copy or extract it again."
        )
    damage = [span for table in layout.SAMPLE_TABLES for span in damage_of(file, table)]
    if damage:
        raise damaged_error(path, damage)


def read_rows(file: h5py.File, table: str, first: int, end: int) -> NDArray[Any] | None:
    """Return rows of a table as stored, or None where HDF5 cannot read them."""
    try:
        rows: NDArray[Any] = file[table][first:end]
    except (OSError, RuntimeError):  # a broken chunk of a compressed table
        return None
    return rows


def damage_of(file: h5py.File, table: str) -> list[tuple[str, int, int]]:
    damage = []
    sums = file[f"checksums/{table}"][()]
    for block, (first, end) in enumerate(layout.block_ranges(file[table].shape[0])):
        rows = read_rows(file, table, first, end)
        if rows is None or layout.block_digest(rows) != sums[block].tobytes():
            damage.append((table, first, end))
    return damage


def damaged_error(path: Path, damage: Sequence[tuple[str, int, int]]) -> DamagedFileError:
    spans = [f"rows {first}-{end - 1} of {table}" for table, first, end in damage]
    more = f" and {len(spans) - 3} more blocks" if len(spans) > 3 else ""
    return DamagedFileError(
        f"{path} is damaged: {', '.join(spans[:3])}{more} do not match their checksums; copy or "
        "extract it again (`embedbench verify` lists all damage)."
    )
