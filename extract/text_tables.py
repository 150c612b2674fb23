"""Texts in one table: CSV, TSV or JSONL with the columns `text` and `label`.

It may have `id`, `split`, `domain`, `group` and `time`, too. Texts in class folders of .txt files
are read as images are.
"""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.errors import UserError, short, unknown
from embedbench.files.hdf5_layout import COLUMNS
from embedbench.files.sample_metadata import SPLITS
from embedbench.storage.regular_files import read_text

from .data_set_parts import SPLIT_NAMES, official_split, sorted_classes
from .source import Source, escape_name, id_problem

TEXT_TABLES = frozenset((".csv", ".tsv", ".jsonl"))
_NEEDED = ("text", "label")
_READ = (*_NEEDED, "id", "split", *COLUMNS)


def text_table(path: Path) -> Source:
    """Return the texts of a table as a source.

    The first line of a CSV or TSV file names its columns.
    """
    left: dict[str, None] = {}
    rows = list(_rows(path, left))
    if not rows:
        raise UserError(f"{path} has no rows; give a line for each text.")
    names = sorted_classes(row["label"] for row in rows)
    index = {name: i for i, name in enumerate(names)}
    remarks = [f"left out: column {', column '.join(left)}"] if left else []
    split = None
    if "split" in rows[0]:
        for row in rows:
            if row["split"] not in SPLIT_NAMES:
                raise unknown("split", row["split"], SPLIT_NAMES)
        official, remark = official_split({row["split"]: SPLIT_NAMES[row["split"]] for row in rows})
        remarks += [remark] if remark else []
        if official:
            split = np.array([official[row["split"]] for row in rows], np.uint8)
    ids = tuple(
        row.get("id") or (f"{i:06d}" if split is None else f"{SPLITS[split[i]]}/{i:06d}")
        for i, row in enumerate(rows)
    )
    for name in ids:
        if problem := id_problem(name):
            raise UserError(f"{path} has an id that cannot be one: {problem}.")
    texts = [row["text"].encode("utf-8", "replace") for row in rows]
    return Source(
        name=escape_name(path.stem),
        ids=ids,
        labels=np.array([index[row["label"]] for row in rows], np.int64),
        classes=names,
        parents=np.full(len(names), -1),
        read=lambda i: texts[i],
        split=split,
        holds="texts",
        remark=f"{path.name}: {'; '.join(remarks)}." if remarks else "",
        **{name: _column(path, rows, name) for name in COLUMNS if name in rows[0]},
    )


def _column(path: Path, rows: Sequence[dict[str, str]], name: str) -> Any:
    """Return an optional column (N,)."""
    try:
        return np.array([row[name] for row in rows], np.float64 if name == "time" else np.str_)
    except ValueError as error:
        raise UserError(f"{path} has a time that is no number ({error}); mend the row.") from error


def _rows(path: Path, left: dict[str, None]) -> Iterator[dict[str, str]]:
    """Yield the values of each line that are read, as texts; columns that are not get in `left`."""
    content = read_text(path, 2**30)
    lines = (
        map(json.loads, filter(str.strip, content.splitlines()))
        if path.suffix.lower() == ".jsonl"
        else _csv_lines(path, content)
    )
    try:
        first: list[str] | None = None
        for number, line in enumerate(lines, 1):
            where = f"{path}, row {number}"
            if not isinstance(line, dict):
                raise UserError(f"{where} is no object; write one with text and label in a line.")
            row = {key: line[key] for key in _READ if key in line}
            left |= dict.fromkeys(str(key) for key in line if key not in _READ)
            first = first or list(row)
            missing = [key for key in {*_NEEDED, *first} if _empty(row.get(key))]
            if missing:
                raise UserError(
                    f"{where} has no {min(missing)!r}; its columns are "
                    f"{short(', '.join(map(str, line)))}, and every row needs "
                    f"{' and '.join(_NEEDED)}."
                )
            yield {key: str(value) for key, value in row.items()}
    except (csv.Error, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}); write it again as UTF-8.") from error


def _empty(value: Any) -> bool:
    return isinstance(value, bool | dict | list) or value is None or str(value) == ""


def _csv_lines(path: Path, content: str) -> Iterator[Any]:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    before = csv.field_size_limit(2**24)  # of the whole process
    try:
        yield from csv.DictReader(
            io.StringIO(content, newline=""), delimiter=delimiter, strict=True
        )
    finally:
        csv.field_size_limit(before)
