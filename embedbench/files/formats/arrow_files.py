"""Read Arrow columns: of Parquet files, and of data sets that Hugging Face's `datasets` saved.

By hand, because `pyarrow.dataset` reads no Arrow streams, which `datasets` writes, and opens files
before their declared sizes can be compared with their bytes.
"""

import fnmatch
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedbench.array_types import Array
from embedbench.config.json_records import parse_json
from embedbench.errors import UserError, import_extra, unknown
from embedbench.files.hdf5_layout import texts
from embedbench.files.sample_metadata import SPLIT_NAMES
from embedbench.storage.regular_files import explain_errors, open_regular, read_text
from embedbench.storage.untrusted_files import too_large

from .lazy_arrays import NamedLabels, SampleTable, join_tables, streamed_table

BATCH = 1024  # rows that are read at once
REMEDY = "write it again"


@dataclass(frozen=True)
class ArrowPart:
    """One file.

    Parameters
    ----------
    rows, size : int
        Number of rows, and bytes of the file.
    batches : callable
        Yields record batches that have some columns, in order, from the first row on.
    split : int or None
        TRAIN, VAL or TEST; None: not stated.
    """

    path: Path
    schema: Any
    rows: int
    size: int
    batches: Callable[[Sequence[str]], Iterator[Any]]
    split: int | None = None


class Columns(Mapping[str, Any]):
    """The columns of some files, one after the other, by name; each is read when it is taken.

    Lists are features (N, D). A pattern such as `f*` stands for the numeric columns whose names
    match it, in their order, as features. Without a column of that name, `split` follows from the
    files.
    """

    def __init__(self, parts: Sequence[ArrowPart]) -> None:
        self.parts = parts
        self.names = list(parts[0].schema.names)
        if len(set(self.names)) < len(self.names):
            raise UserError(f"{parts[0].path} has two columns of one name; rename one.")
        for part in parts:
            if not part.schema.equals(parts[0].schema):
                raise UserError(
                    f"{part.path} has other columns than {parts[0].path}; import them one by one."
                )
            if too_large(8 * part.rows, part.size):
                raise UserError(f"{part.path} declares more rows than its bytes can hold.")
        self.official = "split" not in self.names and all(p.split is not None for p in parts)

    def __iter__(self) -> Iterator[str]:
        return iter([*self.names, "split"] if self.official else self.names)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __getitem__(self, name: str) -> Any:
        if name == "split" and self.official:
            return np.repeat([p.split for p in self.parts], [p.rows for p in self.parts])
        if name not in self.names:
            matching = fnmatch.filter(self.names, name) if "*" in name else []
            if not matching:
                raise KeyError(name)
            return self._features(matching)
        kind = self.parts[0].schema.field(name).type
        kind = getattr(kind, "storage_type", kind)
        return self._features([name]) if _is_list(kind) else self._column(name, kind)

    def _features(self, names: Sequence[str]) -> SampleTable:
        tables = [_table(part, names) for part in self.parts]
        return join_tables(tables, str(self.parts[0].path))

    def _column(self, name: str, kind: Any) -> Any:
        """Read one value a row, stored in a type."""
        import pyarrow as pa

        chunks = []
        for part in self.parts:
            there = 0
            for (chunk,) in _batches(part, [name]):
                chunks.append(chunk)
                there += chunk.nbytes
                if too_large(there, part.size):
                    raise UserError(f"{part.path}: {name} is larger than its bytes can hold.")
        whole, where = pa.chunked_array(chunks, kind), f"{self.parts[0].path}: {name}"
        names = _class_names(self.parts[0].schema, name)
        missing = whole.null_count
        if pa.types.is_dictionary(kind):
            one = whole.unify_dictionaries().combine_chunks()
            one = one.chunk(0) if isinstance(one, pa.ChunkedArray) else one
            whole, missing = one.indices, missing + one.dictionary.null_count
            names = [str(value) for value in one.dictionary.to_pylist()]
        if missing:
            raise UserError(f"{where} has {missing} rows without a value; leave them out.")
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            values = texts(whole.to_pylist(), where)
        elif _is_number(whole.type) or pa.types.is_boolean(kind):
            values = whole.to_numpy(zero_copy_only=False)
        else:
            raise UserError(f"{where} is {kind}; expected one number or text a row.")
        return values if names is None else _named(values, names, where)


def _is_list(kind: Any) -> bool:
    from pyarrow import types as t

    return bool(t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind))


def _is_number(kind: Any) -> bool:
    from pyarrow import types as t

    return bool(t.is_floating(kind) or t.is_integer(kind))


def _named(values: Array, names: Sequence[str], where: str) -> NamedLabels:
    """Numbers of names, each of which must be there."""
    if values.dtype.kind not in "iu":
        raise UserError(f"{where} has names for numbers, and holds {values.dtype}; correct it.")
    wrong = values[(values < 0) | (values >= len(names))]
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


def _batches(part: ArrowPart, names: Sequence[str]) -> Iterator[list[Any]]:
    """Yield some columns of each batch of a file, as they are stored."""
    with explain_errors(f"{part.path} cannot be read", REMEDY):
        for batch in part.batches(names):
            yield [getattr(column, "storage", column) for column in map(batch.column, names)]


def _table(part: ArrowPart, names: Sequence[str]) -> SampleTable:
    """The features of one file."""
    first = next(_blocks(part, names), np.zeros((0, 0), np.float32))
    shape, blocks = (part.rows, first.shape[1]), partial(_blocks, part, names, first.shape[1])
    return streamed_table(shape, first.dtype, blocks, str(part.path))


def _blocks(
    part: ArrowPart, names: Sequence[str], width: int | None = None
) -> Iterator[NDArray[np.floating]]:
    """Yield features (n, D), float16 or float32, batch by batch."""
    row = 0
    for columns in _batches(part, names):
        if len(columns) == 1 and _is_list(columns[0].type):
            block = _from_lists(columns[0], f"{part.path}: {names[0]}", row, width)
        else:
            for name, column in zip(names, columns, strict=True):
                if not _is_number(column.type) or column.null_count:
                    raise UserError(
                        f"{part.path}: {name} holds no numbers, or rows without one; choose other "
                        "columns with --features."
                    )
            block = np.stack([column.to_numpy(zero_copy_only=False) for column in columns], axis=1)
        width, row = block.shape[1], row + len(block)
        yield block if block.dtype == np.float16 else block.astype(np.float32)


def _from_lists(column: Any, where: str, row: int, width: int | None) -> Array:
    """Features (n, D) of a column of lists; `row` is the number of its first row."""
    import pyarrow.compute as pc

    values = column.flatten()
    if not _is_number(values.type) or values.null_count or column.null_count:
        raise UserError(f"{where} must hold lists of numbers, none of them missing.")
    lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    width = int(lengths[0]) if width is None and len(lengths) else width or 0
    wrong = np.flatnonzero(lengths != width)
    if len(wrong):
        raise UserError(
            f"{where} has {int(lengths[wrong[0]])} values in row {row + int(wrong[0])} and {width} "
            "in those before; every row needs as many."
        )
    out: Array = values.to_numpy(zero_copy_only=False).reshape(len(column), width)
    return out


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
        groups = [meta.row_group(i) for i in range(meta.num_row_groups)]
        columns = [group.column(j) for group in groups for j in range(group.num_columns)]
        declared = sum(max(c.total_uncompressed_size, 8 * c.num_values) for c in columns)
    if too_large(declared, size):
        raise UserError(f"{path} declares {declared:,} bytes, more than its {size:,} can hold.")

    def batches(names: Sequence[str]) -> Iterator[Any]:
        with pq.ParquetFile(open_regular(path)) as opened:
            yield from opened.iter_batches(BATCH, columns=list(names), use_threads=False)

    split = split_from_name(path.stem) if named else None
    return ArrowPart(path, file.schema_arrow, meta.num_rows, size, batches, split)


# --- folders that `save_to_disk` of `datasets` wrote; only pyarrow is needed ---


def is_saved_data_set(path: Path) -> bool:
    """Whether a folder is a saved data set, or a saved dictionary of splits."""
    return (path / "dataset_dict.json").is_file() or (path / "state.json").is_file()


def read_saved_data_set(path: Path) -> Mapping[str, Any]:
    """Return the columns of a saved data set, or of all its splits, named train, val or test."""
    import_extra("pyarrow", "parquet", str(path))
    if not (path / "dataset_dict.json").is_file():
        return Columns(_saved_parts(path, None))
    parts = []
    for name in _listed(path / "dataset_dict.json", "splits"):
        if split_from_name(name) is None:
            raise unknown(f"split of {path}", name, SPLIT_NAMES)
        parts += _saved_parts(path / name, split_from_name(name))
    return Columns(parts)


def _saved_parts(path: Path, split: int | None) -> list[ArrowPart]:
    names = _listed(path / "state.json", "_data_files")
    return [_stream_part(path / name, split) for name in names]


def _listed(path: Path, key: str) -> list[str]:
    """Names of files or folders beside a JSON file that lists them; they lead nowhere else."""
    try:
        listed = parse_json(read_text(path), str(path))[key]
        names = [item if isinstance(item, str) else item["filename"] for item in listed]
    except (UserError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged; save the data set again.") from error
    for name in names:
        if not isinstance(name, str) or "/" in name or name in ("", ".", ".."):
            raise UserError(f"{path} names a place outside its folder; save the data set again.")
    if not names:
        raise UserError(f"{path} lists nothing; save the data set again.")
    return names


def _stream_part(path: Path, split: int | None) -> ArrowPart:
    import pyarrow as pa

    def opened(_: Sequence[str] = ()) -> Any:
        open_regular(path).close()
        return pa.ipc.open_stream(pa.memory_map(str(path)))

    with explain_errors(f"{path} cannot be read", REMEDY):
        stream = opened()
        rows = sum(batch.num_rows for batch in stream)
        return ArrowPart(path, stream.schema, rows, path.stat().st_size, opened, split)
