"""Texts in one table: a CSV file with the columns `text` and `label`.

It may have `id`, `split`, `domain`, `group` and `time`, too. Texts in class folders of .txt files
are read as images are.
"""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.errors import UserError, short, unknown
from embedbench.files.hdf5_layout import COLUMNS
from embedbench.files.sample_metadata import SPLITS
from embedbench.storage.regular_files import read_text

from .data_set_parts import SPLIT_NAMES, official_split, sorted_classes
from .source import Source, escape_name, id_problem

_NEEDED = ("text", "label")
_TAKEN = (*_NEEDED, "id", "split", *COLUMNS)


def text_table(path: Path) -> Source:
    """Return the texts of a CSV file as a source; its first line names its columns."""
    rows = _rows(path)
    names = sorted_classes(row["label"] for row in rows)
    index = {name: i for i, name in enumerate(names)}
    split, remark = None, ""
    if "split" in rows[0]:
        for row in rows:
            if row["split"] not in SPLIT_NAMES:
                raise unknown("split", row["split"], SPLIT_NAMES)
        official, remark = official_split({row["split"]: SPLIT_NAMES[row["split"]] for row in rows})
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
    left = "".join(f"left out: column {name}; " for name in rows[0] if name not in _TAKEN)
    said = f"{left}{remark}".removesuffix("; ")
    return Source(
        name=escape_name(path.stem),
        ids=ids,
        labels=np.array([index[row["label"]] for row in rows], np.int64),
        classes=names,
        parents=np.full(len(names), -1),
        read=lambda i: texts[i],
        split=split,
        holds="texts",
        remark=f"{path.name}: {said}." if said else "",
        **{name: _column(path, rows, name) for name in COLUMNS if name in rows[0]},
    )


def _column(path: Path, rows: Sequence[dict[str, str]], name: str) -> Any:
    """Return an optional column (N,)."""
    try:
        return np.array([row[name] for row in rows], np.float64 if name == "time" else np.str_)
    except ValueError as error:
        raise UserError(f"{path} has a time that is no number ({error}); mend the row.") from error


def _rows(path: Path) -> list[dict[str, str]]:
    """Return the lines; each has a value in every column that is taken."""
    lines = io.StringIO(read_text(path, 2**30), newline="")
    before = csv.field_size_limit(2**24)  # of the whole process
    try:
        rows = list(csv.DictReader(lines, strict=True))
    except csv.Error as error:
        raise UserError(f"{path} cannot be read ({error}); write it again as CSV.") from error
    finally:
        csv.field_size_limit(before)
    if not rows:
        raise UserError(f"{path} has no rows; give a line for each text.")
    needed = {*_NEEDED, *(name for name in rows[0] if name in _TAKEN)}
    for number, row in enumerate(rows, 1):
        if missing := [name for name in needed if not row.get(name)]:
            raise UserError(
                f"{path}, row {number} has no {min(missing)!r}; its columns are "
                f"{short(', '.join(map(str, row)))}, and every row needs {' and '.join(_NEEDED)}."
            )
    return rows
