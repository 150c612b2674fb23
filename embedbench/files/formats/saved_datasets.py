"""Folders that `save_to_disk` of Hugging Face's `datasets` wrote; only pyarrow is needed."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from embedbench.config.json_types import parse_json
from embedbench.errors import UserError, unknown
from embedbench.storage.atomic_write import open_regular, read_text

from .arrow_columns import ArrowPart, Columns, arrow, cannot_read, split_from_name
from .sliced_tables import PARTS


def is_folder(path: Path) -> bool:
    """Whether a folder is a saved data set, or a saved dictionary of splits."""
    return (path / "dataset_dict.json").is_file() or (path / "state.json").is_file()


def read(path: Path) -> Mapping[str, Any]:
    """Return the columns of a saved data set, or of all its splits.

    Raises
    ------
    UserError
        A file is missing or cannot be read, or a split has another name than train, val or test.
    """
    arrow(path)
    if not (path / "dataset_dict.json").is_file():
        return Columns(_parts(path, None))
    names = _listed(path / "dataset_dict.json", "splits")
    parts = []
    for name in names:
        if split_from_name(name) is None:
            raise unknown(f"split of {path}", name, PARTS)
        parts += _parts(path / name, split_from_name(name))
    return Columns(parts)


def _parts(path: Path, split: int | None) -> list[ArrowPart]:
    names = _listed(path / "state.json", "_data_files")
    return [_part(path / name, split) for name in names]


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


def _part(path: Path, split: int | None) -> ArrowPart:
    pa = arrow(path)

    def opened() -> Any:
        open_regular(path).close()
        return pa.ipc.open_stream(pa.memory_map(str(path)))

    def batches(names: Sequence[str]) -> Iterator[Any]:
        for batch in opened():
            yield batch.select(list(names))

    try:
        stream = opened()
        rows = sum(batch.num_rows for batch in stream)
        return ArrowPart(path, stream.schema, rows, path.stat().st_size, batches, split)
    except Exception as error:  # pyarrow and the disk raise errors of many kinds
        raise cannot_read(path, error) from error
