"""Texts in one table: a CSV, TSV or JSONL file with the columns `text` and `label`.

`id` and `split` (train, val or test) are read too, if they are there. Texts in class folders of
.txt files are read as images are, see `sources`.
"""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.errors import UserError, short, unknown
from embedbench.files.sample_list import SPLITS
from embedbench.storage.atomic_write import read_text

from .source import Source, escape_name, id_problem

TEXT_TABLES = frozenset((".csv", ".tsv", ".jsonl"))
_NEEDED, _READ = ("text", "label"), ("text", "label", "id", "split")


def text_table(path: Path, splits: dict[str, int]) -> Source:
    """Return the texts of a table as a source; `splits` says what a value of `split` means.

    The first line of a CSV or TSV file names its columns.
    """
    rows = list(_rows(path))
    if not rows:
        raise UserError(f"{path} has no rows; give a line for each text.")
    names = sorted({row["label"] for row in rows}, key=lambda n: (len(n) if n.isdigit() else 0, n))
    index = {name: i for i, name in enumerate(names)}
    split = None
    if "split" in rows[0]:
        for row in rows:
            if row["split"] not in splits:
                raise unknown("split", row["split"], splits)
        split = np.array([splits[row["split"]] for row in rows], np.uint8)
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
        classes=tuple(names),
        parents=np.full(len(names), -1),
        read=lambda i: texts[i],
        split=split,
        holds="texts",
    )


def _rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield the values of each line that are read, as texts."""
    content = read_text(path, 2**30)
    lines = _json_lines(content) if path.suffix.lower() == ".jsonl" else _csv_lines(path, content)
    try:
        first: list[str] | None = None
        for number, line in enumerate(lines, 1):
            where = f"{path}, row {number}"
            if not isinstance(line, dict):
                raise UserError(f"{where} is no object; write one with text and label in a line.")
            row = {key: line[key] for key in _READ if key in line}
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


def _json_lines(content: str) -> Iterator[Any]:
    return (json.loads(line) for line in content.splitlines() if line.strip())


def _csv_lines(path: Path, content: str) -> Iterator[Any]:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    before = csv.field_size_limit(2**24)  # of the whole process
    try:
        yield from csv.DictReader(
            io.StringIO(content, newline=""), delimiter=delimiter, strict=True
        )
    finally:
        csv.field_size_limit(before)
