"""Read Arrow columns: of Parquet files, and of data sets that Hugging Face's `datasets` saved.

By hand, because `pyarrow.dataset` reads no Arrow streams, which `datasets` writes, and nothing
stops it where a column is larger than the bytes of its file can hold.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Array, Ints, Strings
from embedbench.config.json_records import parse_json
from embedbench.errors import UserError, import_extra, unknown
from embedbench.files.hdf5_layout import texts
from embedbench.files.sample_metadata import SPLIT_NAMES
from embedbench.storage.regular_files import explain_errors, open_regular
from embedbench.storage.untrusted_files import too_large

BATCH = 1024  # rows that are read at once
REMEDY = "write it again"


@dataclass(frozen=True)
class NamedLabels:
    """Labels as numbers of names, in the order of the source: categories, a `ClassLabel`."""

    values: Ints
    names: Strings


@dataclass(frozen=True)
class ArrowPart:
    """One file.

    Parameters
    ----------
    rows : int
        Number of rows.
    batches : callable
        Yields record batches that have a column, in order, from the first row on.
    split : int or None
        TRAIN, VAL or TEST; None: not stated.
    """

    path: Path
    schema: Any
    rows: int
    batches: Callable[[str], Iterator[Any]]
    split: int | None = None


class Columns(Mapping[str, Any]):
    """The columns of some files, one after the other, by name; each is read when it is taken.

    Lists are features (N, D). Without a column of that name, `split` follows from the files.
    """

    def __init__(self, parts: Sequence[ArrowPart]) -> None:
        self.parts = parts
        self.schema, self.names = parts[0].schema, list(parts[0].schema.names)
        if len(set(self.names)) < len(self.names):
            raise UserError(f"{parts[0].path} has two columns of one name; rename one.")
        for part in parts:
            if not part.schema.equals(self.schema):
                raise UserError(
                    f"{part.path} has other columns than {parts[0].path}; import them one by one."
                )
            if too_large(8 * part.rows, part.path.stat().st_size):
                raise UserError(f"{part.path} declares more rows than its bytes can hold.")
        self.official = "split" not in self.names and all(p.split is not None for p in parts)

    def __iter__(self) -> Iterator[str]:
        return iter([*self.names, "split"] if self.official else self.names)

    def __len__(self) -> int:
        return len(self.names) + self.official

    def __getitem__(self, name: str) -> Any:
        if name == "split" and self.official:
            return np.repeat([p.split for p in self.parts], [p.rows for p in self.parts])
        if name not in self.names:
            raise KeyError(name)
        from pyarrow import types

        column, where = self._read(name), f"{self.parts[0].path}: {name}"
        kind = column.type
        if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
            return _from_lists(column, where)
        return _one_a_row(column, _class_names(self.schema, name), where)

    def _read(self, name: str) -> Any:
        """Read the values of a column as they are stored."""
        import pyarrow as pa

        kind = self.schema.field(name).type
        chunks = []
        for part in self.parts:
            there, size = 0, part.path.stat().st_size
            with explain_errors(f"{part.path} cannot be read", REMEDY):
                for batch in part.batches(name):
                    chunk = batch.column(name)
                    chunks.append(getattr(chunk, "storage", chunk))
                    there += chunk.nbytes
                    if too_large(there, size):
                        raise UserError(f"{part.path}: {name} is larger than its bytes can hold.")
        return pa.chunked_array(chunks, getattr(kind, "storage_type", kind))


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_floating(kind) or types.is_integer(kind))


def _one_a_row(column: Any, names: Sequence[str] | None, where: str) -> Any:
    """Texts, numbers, or numbers of names, (N,)."""
    from pyarrow import types

    kind, missing = column.type, column.null_count
    if types.is_dictionary(kind):
        one = column.unify_dictionaries().combine_chunks()
        column, missing = one.indices, missing + one.dictionary.null_count
        names = [str(value) for value in one.dictionary.to_pylist()]
    if missing:
        raise UserError(f"{where} has {missing} rows without a value; leave them out.")
    if types.is_string(kind) or types.is_large_string(kind):
        return texts(column.to_pylist(), where)
    if not _is_number(column.type) and not types.is_boolean(kind):
        raise UserError(f"{where} is {kind}; expected one number or text a row.")
    values: Array = column.to_numpy(zero_copy_only=False)
    if names is None:
        return values
    wrong = values[~np.isin(values, np.arange(len(names)))]
    if len(wrong):
        raise UserError(
            f"{where} holds {wrong[0]}, and names {len(names)} values, from 0 on; name every one, "
            "and leave rows without one out."
        )
    return NamedLabels(values.astype(np.int64), texts(names, where))


def _class_names(schema: Any, name: str) -> list[str] | None:
    """The names that `datasets` keeps of a column of the type ClassLabel."""
    try:
        known = parse_json((schema.metadata or {}).get(b"huggingface", b"{}"), "its metadata")
        feature = known["info"]["features"][name]
        names = feature["names"] if feature["_type"] == "ClassLabel" else None
    except (UserError, KeyError, TypeError):
        return None
    sound = isinstance(names, list) and all(isinstance(label, str) for label in names)
    return names if sound else None


def _from_lists(column: Any, where: str) -> Array:
    """Features (N, D), float16 or float32, of a column of lists."""
    import pyarrow.compute as pc

    values = pc.list_flatten(column)
    if not _is_number(values.type) or values.null_count or column.null_count:
        raise UserError(f"{where} must hold lists of numbers, none of them missing.")
    lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(lengths != lengths[:1])
    if len(wrong):
        raise UserError(
            f"{where} has {lengths[wrong[0]]} values in row {wrong[0]} and {lengths[0]} in those "
            "before; every row needs as many."
        )
    width = lengths[0] if len(lengths) else 0
    rows: Array = values.to_numpy(zero_copy_only=False).reshape(len(column), width)
    return rows if rows.dtype == np.float16 else rows.astype(np.float32, copy=False)


def split_from_name(name: str) -> int | None:
    """The split that a file's or folder's name begins with: `train-00000-of-00002`."""
    return SPLIT_NAMES.get(name.partition("-")[0].partition(".")[0])


# --- Parquet files: one, or a folder of them, as the Hugging Face hub has data sets ---


def read_parquet(path: Path) -> Mapping[str, Any]:
    """Return the columns of a file, or of the files of a folder in the order of their names.

    If all names begin with train, validation or test, these are the splits.
    """
    import_extra("pyarrow", "parquet", str(path))
    paths = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    return Columns([_parquet_part(file, named=path.is_dir()) for file in paths])


def _parquet_part(path: Path, *, named: bool) -> ArrowPart:
    import pyarrow.parquet as pq

    with explain_errors(f"{path} cannot be read", REMEDY):
        file = pq.ParquetFile(open_regular(path))
        meta, size = file.metadata, path.stat().st_size
        declared = sum(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups))
    if too_large(declared, size):
        raise UserError(f"{path} declares {declared:,} bytes, more than its {size:,} can hold.")

    def batches(name: str) -> Iterator[Any]:
        with pq.ParquetFile(open_regular(path)) as opened:
            yield from opened.iter_batches(BATCH, columns=[name], use_threads=False)

    split = split_from_name(path.stem) if named else None
    return ArrowPart(path, file.schema_arrow, meta.num_rows, batches, split)


# --- folders that `save_to_disk` of `datasets` wrote; only pyarrow is needed ---


def is_saved_data_set(path: Path) -> bool:
    """Whether a folder is a saved data set, or a saved dictionary of splits."""
    return bool(_arrow_files(path))


def _arrow_files(path: Path) -> list[Path]:
    return sorted([*path.glob("data*.arrow"), *path.glob("*/data*.arrow")])


def read_saved_data_set(path: Path) -> Mapping[str, Any]:
    """Return the columns of a saved data set, or of its folders train, val and test."""
    import_extra("pyarrow", "parquet", str(path))
    parts = []
    for file in _arrow_files(path):
        split = None if file.parent == path else split_from_name(file.parent.name)
        if split is None and file.parent != path:
            raise unknown(f"split of {path}", file.parent.name, SPLIT_NAMES)
        parts.append(_stream_part(file, split))
    return Columns(parts)


def _stream_part(path: Path, split: int | None) -> ArrowPart:
    import pyarrow as pa

    def opened(_: str = "") -> Any:
        open_regular(path).close()
        return pa.ipc.open_stream(pa.memory_map(str(path)))

    with explain_errors(f"{path} cannot be read", REMEDY):
        stream = opened()
        return ArrowPart(path, stream.schema, sum(b.num_rows for b in stream), opened, split)
