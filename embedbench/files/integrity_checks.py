"""Integrity checks of an embedding file: its tables, its metadata, its blocks of rows."""

import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import h5py

from embedbench.array_types import Array
from embedbench.config.format_versions import check_version
from embedbench.errors import DamagedFileError, UserError, unknown
from embedbench.storage import safe_hdf5

from . import file_digests, hdf5_layout


def damaged_rows(path: Path) -> list[tuple[str, int, int]]:
    """Check every block of a file, even of one that `EmbeddingFile.open` refuses.

    Returns
    -------
    list of tuple
        (table, first row, row after the last) of every block with a wrong checksum.
    """
    with open_embedding_file(path) as file:
        check_tables(path, file)
        return find_damage(file, (*_feature_tables(file), *_row_tables(file)))


@contextmanager
def open_embedding_file(path: Path) -> Iterator[h5py.File]:
    """Open a file for reading, after the gate (`embedbench.storage.safe_hdf5`)."""
    if not os.path.exists(path):  # `Path.exists` raises for a name of 5,000 characters
        partial = path.with_name(f".{path.name}.partial")
        hint = (
            f"unfinished work lies in {partial}: run the same extract again to finish it."
            if os.path.isdir(partial)
            else "make it with `embedbench extract` or `embedbench import`."
        )
        raise UserError(f"there is no file {path}", hint)
    if path.suffix in (".npy", ".npz"):
        raise UserError(f"{path} is no embedding file", "make one of it with `embedbench import`")
    with safe_hdf5.open_hdf5(
        path,
        what="an embedding file",
        remedy="copy or extract it again",
        versions=hdf5_layout.VERSIONS,
    ) as file:
        yield file


@contextmanager
def reopen_embedding_file(path: Path, content: str) -> Iterator[tuple[h5py.File, dict[str, bytes]]]:
    """Open a file that was opened before, and read the block checksums of its features, by table.

    The path may lead to another file by now. So these very checksums must give the `content` digest
    that was read at first: rows that match them are the rows of that file, whatever a header says.
    """
    with open_embedding_file(path) as file:
        check_format(path, file)
        check_tables(path, file)
        sums = file_digests.read_sums(file, _feature_tables(file))
        there = file_digests.digest_of_sums(file, sums)
        if there != content:
            raise UserError(
                f"{path} was replaced while it was read: expected the content digest "
                f"{content[:12]}…, it holds {there[:12]}…",
                "run the command again",
            )
        yield file, sums


def check_format(path: Path, file: h5py.File) -> None:
    if "format" not in file.attrs or safe_hdf5.attribute(file, "format") != hdf5_layout.FORMAT:
        raise UserError(
            f"{path} is an HDF5 file but not an embedding file (its attribute 'format' is not "
            f"{hdf5_layout.FORMAT!r})",
            "bring other data in with `embedbench import`",
        )
    stated = safe_hdf5.attribute(file, "format_version") if "format_version" in file.attrs else None
    check_version(str(path), stated, hdf5_layout.VERSIONS, "copy or make it again")
    kind = safe_hdf5.attribute(file, "kind")
    if kind not in hdf5_layout.TABLES:
        known = " and ".join(hdf5_layout.TABLES)
        raise UserError(
            f"{path} has kind {kind!r}, and this embedbench reads {known}",
            "install the embedbench that wrote it, or a newer one",
        )


def check_tables(path: Path, file: h5py.File) -> None:
    """Check that the file holds the specified tables, of those types and shapes, only."""
    if "metadata" not in file.get("checksums", file).attrs:
        raise DamagedFileError(
            f"{path} is incomplete: its writing was interrupted", "make it again"
        )
    kind = safe_hdf5.attribute(file, "kind")
    tables = hdf5_layout.list_tables(file)
    for group in ("layers", "checksums", "digests"):
        if not isinstance(file.get(group), h5py.Group):
            raise DamagedFileError(f"{path} has no group {group!r}", "copy or make it again")
    features = _feature_tables(file)
    columns = _column_tables(path, file)
    ones = ["sample_ids", "classes", "labels", "split", "parents", "provenance", *columns]
    rows = (*features, *hdf5_layout.SAMPLE_TABLES, *columns)
    names = [*ones, *features, *(f"checksums/{x}" for x in rows)]
    for name in dict.fromkeys([*names, *tables]):
        if name not in tables:
            raise DamagedFileError(f"{path} has no table {name!r}", "copy or make it again")
        if name not in names:
            raise UserError(
                f"{path} has a table {name!r}, which is none of the format", "remove it"
            )
    n = math.prod(tables["sample_ids"][1][:1])
    n_classes = math.prod(tables["classes"][1][:1])
    sums = "|u1", (-(-n // hdf5_layout.BLOCK), 32)
    expected: dict[str, tuple[str, tuple[int, ...]]] = {
        "labels": ("<i4", (n,)),
        "split": ("|u1", (n,)),
        "sample_ids": ("S", (n,)),
        "classes": ("S", (n_classes,)),
        "parents": ("<i4", (n_classes,)),
        "provenance": ("S", ()),
        **{name: (code, (n,)) for name, code in columns.items()},
    }
    for name in names:
        dtype, shape = tables[name]
        if name in features:
            fits = hdf5_layout.find_kind(dtype, shape) == kind and shape[0] == n
            form = hdf5_layout.TABLES[kind].replace("N", str(n))
        else:
            letter, size = expected.get(name, sums)
            fits = letter in (dtype.str, dtype.kind) and shape == size
            form = f"{letter} of shape {size}"
        if not fits:
            raise UserError(f"{path}: {name} is {dtype} of shape {shape}; expected {form}")
    if kind == hdf5_layout.PIXELS and len(features) > 1:
        raise UserError(f"{path} holds images, and layers beside them; images have none")
    most = max(2**23, 20 * path.stat().st_size)  # of what is read whole
    for name in ones:
        dtype, shape = tables[name]
        length = dtype.itemsize * math.prod(shape)
        limit = hdf5_layout.PROVENANCE if name == "provenance" else most
        if length > limit:
            raise UserError(f"{path}: {name} has {length:,} bytes; expected at most {limit:,}")


def _feature_tables(file: h5py.File) -> list[str]:
    for name in file["layers"]:
        if not hdf5_layout.LAYER_NAME.fullmatch(name):
            raise UserError(
                f"layer name {name!r} must be letters, digits, '.', '_' and '-' only", "rename it"
            )
    return ["features", *(f"layers/{name}" for name in file["layers"])]


def _column_tables(path: Path, file: h5py.File) -> dict[str, str]:
    """Return the types of a file's optional columns, by table."""
    if "columns" not in file:
        return {}
    group = file["columns"]
    if safe_hdf5.attribute(file, "format_version") == hdf5_layout.VERSIONS[0]:
        raise UserError(f"{path} is of format 1.0, which has no columns", "remove them")
    if not isinstance(group, h5py.Group) or not len(group):
        raise DamagedFileError(f"{path} has no table in 'columns'", "copy or make it again")
    for name in group:
        if name not in hdf5_layout.COLUMNS:
            raise unknown(f"column of {path}", name, hdf5_layout.COLUMNS)
    return {f"columns/{name}": hdf5_layout.COLUMNS[name] for name in group}


def _row_tables(file: h5py.File) -> list[str]:
    """Tables of one value a sample: labels, splits, ids, and the optional columns."""
    return [*hdf5_layout.SAMPLE_TABLES, *(f"columns/{name}" for name in file.get("columns", ()))]


def check_metadata(path: Path, file: h5py.File) -> None:
    """Check the metadata checksum, and the blocks of labels, splits, ids and columns."""
    if file_digests.metadata_digest(file) != safe_hdf5.attribute(file["checksums"], "metadata"):
        raise DamagedFileError(
            f"{path} is damaged: its metadata does not match its checksum", "copy or make it again"
        )
    content = file_digests.content_digest(file, _feature_tables(file))
    if content != safe_hdf5.attribute(file["digests"], "content"):
        raise DamagedFileError(
            f"{path} is damaged: the checksums of its features do not match the content digest",
            "copy or extract it again",
        )
    for block in find_damage(file, _row_tables(file)):
        raise damaged_error(path, *block)


def block_sums(sums: bytes, n: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield the first row, the row after the last, and the checksum of each block of n rows."""
    for block, (first, end) in enumerate(hdf5_layout.block_ranges(n)):
        yield first, end, sums[32 * block : 32 * (block + 1)]


def read_sound(file: h5py.File, table: str, first: int, end: int, checksum: bytes) -> Array | None:
    """Read a block as stored; None if HDF5 cannot read it, or it does not match its checksum."""
    with suppress(OSError, RuntimeError):  # such as a broken chunk of a compressed table
        rows: Array = file[table][first:end]
        if file_digests.block_digest(rows) == checksum:
            return rows
    return None


def find_damage(file: h5py.File, tables: Iterable[str]) -> list[tuple[str, int, int]]:
    """Table, first row and row after the last of each block that is not sound."""
    damage = []
    for table, sums in file_digests.read_sums(file, tables).items():
        for first, end, checksum in block_sums(sums, file[table].shape[0]):
            if read_sound(file, table, first, end, checksum) is None:
                damage.append((table, first, end))
    return damage


def damaged_error(path: Path, table: str, first: int, end: int) -> DamagedFileError:
    return DamagedFileError(
        f"{path} is damaged: rows {first}-{end - 1} of {table} do not match their checksums",
        "copy or extract it again (`embedbench verify` lists all damage)",
    )
