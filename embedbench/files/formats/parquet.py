"""Parquet files: one, or a folder of them, as the Hugging Face hub has data sets."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from embedbench.errors import UserError
from embedbench.storage.atomic_write import open_regular
from embedbench.storage.hdf5_check import too_large

from .arrow_columns import BATCH, ArrowPart, Columns, arrow, cannot_read, split_from_name

SUFFIXES = (".parquet",)


def is_folder(path: Path) -> bool:
    """Whether a folder holds Parquet files."""
    return any(path.glob("*.parquet"))


def read(path: Path) -> Mapping[str, Any]:
    """Return the columns of a file, or of the files of a folder in the order of their names.

    If all names begin with train, validation or test, these are the splits.

    Raises
    ------
    UserError
        A file cannot be read, or declares more than its bytes can hold.
    """
    arrow(path)
    paths = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    return Columns([_part(file, named=path.is_dir()) for file in paths])


def _part(path: Path, *, named: bool) -> ArrowPart:
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(open_regular(path))
        meta, size = file.metadata, path.stat().st_size
        declared = 0
        for i in range(meta.num_row_groups):
            group = meta.row_group(i)
            columns = [group.column(j) for j in range(group.num_columns)]
            declared += sum(max(c.total_uncompressed_size, 8 * c.num_values) for c in columns)
    except Exception as error:  # pyarrow and the disk raise errors of many kinds
        raise cannot_read(path, error) from error
    if too_large(declared, size):
        raise UserError(f"{path} declares {declared:,} bytes, more than its {size:,} can hold.")

    def batches(names: Sequence[str]) -> Iterator[Any]:
        with pq.ParquetFile(open_regular(path)) as opened:
            yield from opened.iter_batches(BATCH, columns=list(names), use_threads=False)

    schema = file.schema_arrow
    return ArrowPart(
        path, schema, meta.num_rows, size, batches, split_from_name(path.stem) if named else None
    )
