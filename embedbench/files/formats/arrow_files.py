"""Read Arrow columns: of Parquet files, and of data sets that Hugging Face's `datasets` saved.

By hand, because `pyarrow.dataset` reads no Arrow streams, which `datasets` writes, and nothing
stops it where a column is larger than the bytes of its file can hold.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Array, Ints, Strings
from embedbench.config.json_records import parse_json
from embedbench.errors import UserError, import_extra, unknown
from embedbench.files.hdf5_layout import texts
from embedbench.files.known_names import (
    PART_WORDS,
    files_not_read,
    missing_shards,
    read_split,
    split_role,
    split_roles,
)
from embedbench.storage.regular_files import explain_errors, open_regular
from embedbench.storage.untrusted_files import too_large

from .numpy_files import as_float32

BATCH = 1024  # rows that are read at once
REMEDY = "write it again"


@dataclass(frozen=True)
class NamedLabels:
    """Labels as numbers of names, in the order of the source: categories, a `ClassLabel`."""

    values: Ints
    names: Strings


class Columns(Mapping[str, Any]):
    """The columns of some files, one after the other, by name; each is read when it is taken.

    Lists are features (N, D). Where every file has a split, `split` follows from the files, unless
    there is a column of that name.

    Parameters
    ----------
    splits : mapping
        TRAIN, VAL or TEST, or None, of each file, by its path.
    not_read : sequence of str
        Phrases on files beside them.
    """

    def __init__(self, splits: Mapping[Path, int | None], not_read: Sequence[str] = ()) -> None:
        self.not_read = not_read
        self.splits = splits
        self.first = next(iter(splits))
        heads = {path: _read_head(path) for path in splits}
        self.schema = heads[self.first][0]
        self.rows = [rows for _, rows in heads.values()]
        self.names = list(self.schema.names)
        if len(set(self.names)) < len(self.names):
            raise UserError(f"{self.first} has two columns of one name", "rename one")
        for path, (schema, rows) in heads.items():
            if not schema.equals(self.schema):
                raise UserError(
                    f"{path} has other columns than {self.first}", "import them one by one"
                )
            if too_large(8 * rows, path.stat().st_size):
                raise UserError(f"{path} declares more rows than its bytes can hold.")
        check_class_names({path: schema for path, (schema, _) in heads.items()})
        self.by_file = None not in splits.values()
        self.official = "split" not in self.names and self.by_file

    def __iter__(self) -> Iterator[str]:
        return iter([*self.names, "split"] if self.official else self.names)

    def __len__(self) -> int:
        return len(self.names) + self.official

    def __getitem__(self, name: str) -> Any:
        if name == "split" and self.official:
            return self._split_by_file()
        if name not in self.names:
            raise KeyError(name)
        from pyarrow import types

        column = self._read(name)
        where = f"{self.first}: {name}"
        kind = column.type
        if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
            return _from_lists(column, where)
        values = _one_a_row(column, _class_names(self.schema, name), where)
        if name == "split" and self.by_file:
            self._compare_splits(values)
        return values

    def _split_by_file(self) -> Array:
        return np.repeat(list(self.splits.values()), self.rows)

    def _compare_splits(self, values: Any) -> None:
        """Refuse a column `split` that says another part than the name of its file."""
        named = values.names[values.values] if isinstance(values, NamedLabels) else values
        differs = read_split(named, f"{self.first}: split") != self._split_by_file()
        if differs.any():
            raise UserError(
                f"{self.first.parent}: column split says another part than the names of the files "
                f"in {differs.sum():,} rows",
                "rename the files, or drop the column",
            )

    def _read(self, name: str) -> Any:
        """Read the values of a column as they are stored."""
        import pyarrow as pa

        kind = self.schema.field(name).type
        chunks = []
        for path in self.splits:
            there = 0
            size = path.stat().st_size
            with explain_errors(f"{path} cannot be read", REMEDY):
                for batch in _batches(path, name):
                    chunk = batch.column(name)
                    chunks.append(getattr(chunk, "storage", chunk))
                    there += chunk.nbytes
                    if too_large(there, size):
                        raise UserError(f"{path}: {name} is larger than its bytes can hold.")
        return pa.chunked_array(chunks, getattr(kind, "storage_type", kind))


def _read_head(path: Path) -> tuple[Any, int]:
    """The schema of a file, and its number of rows."""
    with explain_errors(f"{path} cannot be read", REMEDY):
        if path.suffix == ".arrow":
            stream = _open_stream(path)
            return stream.schema, sum(batch.num_rows for batch in stream)
        import pyarrow.parquet as pq

        file = pq.ParquetFile(open_regular(path))
        meta = file.metadata
        size = path.stat().st_size
        declared = sum(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups))
        if too_large(declared, size):
            raise UserError(f"{path} declares {declared:,} bytes, more than its {size:,} can hold.")
        return file.schema_arrow, meta.num_rows


def _batches(path: Path, name: str) -> Iterator[Any]:
    """Yield record batches that have a column, in order, from the first row on."""
    import pyarrow.parquet as pq

    if path.suffix == ".arrow":
        yield from _open_stream(path)
    else:
        with pq.ParquetFile(open_regular(path)) as file:
            yield from file.iter_batches(BATCH, columns=[name], use_threads=False)


def _open_stream(path: Path) -> Any:
    import pyarrow as pa

    open_regular(path).close()
    return pa.ipc.open_stream(pa.memory_map(str(path)))


def is_number(kind: Any) -> bool:
    """Whether a column of this type of Arrow holds numbers."""
    from pyarrow import types

    return bool(types.is_floating(kind) or types.is_integer(kind))


def holds_values(kind: Any) -> bool:
    """Whether a column of this type holds one number, mark, text or category a row."""
    from pyarrow import types

    plain = is_number(kind) or types.is_boolean(kind) or types.is_dictionary(kind)
    return bool(plain or types.is_string(kind) or types.is_large_string(kind))


def holds_vectors(kind: Any) -> bool:
    """Whether a column of this type holds a list of numbers a row."""
    from pyarrow import types

    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        return False
    return is_number(kind.value_type)


def _one_a_row(column: Any, names: Sequence[str] | None, where: str) -> Any:
    """Texts, numbers, or numbers of names, (N,)."""
    from pyarrow import types

    kind = column.type
    missing = column.null_count
    if types.is_dictionary(kind):
        one = column.unify_dictionaries().combine_chunks()
        column = one.indices
        missing = missing + one.dictionary.null_count
        names = [str(value) for value in one.dictionary.to_pylist()]
    if missing:
        first = column.is_null().to_numpy(zero_copy_only=False).argmax()
        raise UserError(
            f"{where} has {missing} rows without a value, the first of them row {first}",
            "leave them out",
        )
    if types.is_string(kind) or types.is_large_string(kind):
        return texts(column.to_pylist(), where)
    if not is_number(column.type) and not types.is_boolean(kind):
        raise UserError(f"{where} is {kind}; expected one number or text a row")
    values: Array = column.to_numpy(zero_copy_only=False)
    if names is None:
        return values
    wrong = values[~np.isin(values, np.arange(len(names)))]
    if len(wrong):
        raise UserError(
            f"{where} holds {wrong[0]}, and names {len(names)} values, from 0 on",
            "name every one, and leave rows without one out",
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


def check_class_names(schemas: Mapping[Path, Any]) -> None:
    """Refuse files in which one number is another class: readers take the names of the first."""
    first = next(iter(schemas))
    for name in schemas[first].names:
        expected = _class_names(schemas[first], name)
        for path, schema in schemas.items():
            if _class_names(schema, name) != expected:
                raise UserError(
                    f"{path}: its metadata names the classes of {name} otherwise than {first}",
                    "write all files of the data set again with one list of classes",
                )


def read_schemas(paths: Sequence[Path]) -> dict[Path, Any]:
    """Return the schemas of Parquet files, without those that cannot be read."""
    import pyarrow.parquet as pq

    schemas = {}
    for path in paths:
        with contextlib.suppress(Exception):  # who reads the file says what is wrong with it
            schemas[path] = pq.read_schema(open_regular(path))
    return schemas


def _from_lists(column: Any, where: str) -> Array:
    """Features (N, D), float16 or float32, of a column of lists."""
    import pyarrow.compute as pc

    values = pc.list_flatten(column)
    if not is_number(values.type) or values.null_count or column.null_count:
        raise UserError(f"{where} must hold lists of numbers, none of them missing.")
    lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(lengths != lengths[:1])
    if len(wrong):
        raise UserError(
            f"{where} has {lengths[wrong[0]]} values in row {wrong[0]} and {lengths[0]} in those "
            "before; every row needs as many"
        )
    width = lengths[0] if len(lengths) else 0
    rows: Array = values.to_numpy(zero_copy_only=False).reshape(len(column), width)
    return rows if rows.dtype == np.float16 else as_float32(rows, where)


def splits_from_names(names: Sequence[str], where: Path) -> list[int | None]:
    """Return the part that each name of a file or folder says: `train-00000-of-00002`; or none.

    Raises
    ------
    UserError
        Some names say a part, and others do not.
    """
    words = [_part_word(name) for name in names]
    roles = split_roles(words)
    parts = [roles[word] for word in words]
    strange = [name for name, part in zip(names, parts, strict=True) if part is None]
    if strange and len(strange) < len(names):
        more = "Rename it, or import it by itself."
        raise unknown(f"split of {where}", strange[0], PART_WORDS, more=more)
    return parts


def _part_word(name: str) -> str:
    """What a name is read as: the whole, or what stands before a hyphen or a dot."""
    first = name.partition("-")[0].partition(".")[0]
    return name if split_role(name) is not None or split_role(first) is None else first


# --- Parquet files: one, or a folder of them, as the Hugging Face hub has data sets ---


def read_parquet(path: Path) -> Mapping[str, Any]:
    """Return the columns of a file, or of the files of a folder in the order of their names.

    If all names begin with train, validation or test, these are the splits.
    """
    import_extra("pyarrow", "parquet", str(path))
    if not path.is_dir():
        return Columns({path: None})
    files = parquet_files(path)
    parts = splits_from_names([file.stem for file in files], path)
    lost = missing_shards(file.name for file in files)
    return Columns(dict(zip(files, parts, strict=True)), [*files_not_read(path, files), *lost])


def parquet_files(path: Path) -> list[Path]:
    """The Parquet files of a folder, in the order of their names."""
    there = [file for file in path.iterdir() if not file.name.startswith(".")]
    return sorted(file for file in there if file.suffix.lower() in (".parquet", ".pq"))


# --- folders that `save_to_disk` of `datasets` wrote; only pyarrow is needed ---


def is_saved_data_set(path: Path) -> bool:
    """Whether a folder is a saved data set, or a saved dictionary of splits."""
    return bool(_arrow_files(path))


def _arrow_files(path: Path) -> list[Path]:
    return sorted([*path.glob("data*.arrow"), *path.glob("*/data*.arrow")])


def read_saved_data_set(path: Path) -> Mapping[str, Any]:
    """Return the columns of a saved data set, or of its folders train, val and test."""
    import_extra("pyarrow", "parquet", str(path))
    files = _arrow_files(path)
    inside = sorted({file.parent.name for file in files if file.parent != path})
    parts = dict(zip(inside, splits_from_names(inside, path), strict=True))
    for name, part in parts.items():
        if part is None:
            raise unknown(f"split of {path}", name, PART_WORDS)
    return Columns({file: parts.get(file.parent.name) for file in files})
