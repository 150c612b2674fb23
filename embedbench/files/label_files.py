"""Labels that lie in a file of their own, `--labels FILE`: in the order of the rows, or by id."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Array
from embedbench.errors import UserError, short

from .formats.arrow_files import Columns, NamedLabels
from .formats.number_tables import SUFFIXES as TEXTS
from .formats.number_tables import NumberTable, read_number_table, read_rows
from .known_names import FILE_NAMES, KEYS, find_keys
from .numbered_labels import flat_column


def take_labels(
    read: Mapping[str, Any],
    path: Path,
    found: Mapping[str, Any],
    src: Path,
    *,
    in_order: bool = True,
) -> tuple[Any, str]:
    """Return the labels of a file for the rows of a source, and what to say of how they were found.

    By id, where a column of the file holds all values of a column of the source: of the same name,
    or of its ids. Else in order.

    Parameters
    ----------
    read : mapping
        The columns of the file at `path`.
    found : mapping
        The arrays of the source at `src`.
    in_order : bool
        Whether labels may be those of the rows in order; not where the source is one of several.

    Raises
    ------
    UserError
        The file has no labels, or none for some of the ids.
    """
    if isinstance(read, NumberTable) and _has_no_names(read, found):
        read = read_number_table(path, unnamed=True)
    key = _label_column(read, path)
    labels = _plain(read, key)
    lists = {name: _plain(read, name) for name in read if name != key}
    rest = labels
    if path.suffix.lower() == ".txt" and len(read) == 1 and labels.dtype.kind == "U":
        lists["the first word"], rest = _words_apart(path)
    for name, listed in lists.items():
        for column in _same_columns(name, found):
            rows = _rows_by_id(listed, found[column], path, name)
            if rows is None:
                continue
            unused = len(rest) - len(np.unique(rows))
            more = f"; {unused:,} of its lines are of no row of {src}" if unused else ""
            return rest[rows], f"labels are those of {path} by {name}{more}."
    if not in_order:
        raise UserError(
            f"{path} has no column with the ids of {src}, and is for several files",
            "give lines of id and label, or import the files one by one",
        )
    if isinstance(read, NumberTable) and len(read) == 1:
        labels = _with_first_line(read, path, labels, found)
    return labels, f"labels are those of {path}, in the order of the rows."


def _words_apart(path: Path) -> tuple[Array, Array]:
    """The first word of each line, which may be an id, and the rest of it."""
    words, rests = [], []
    for _, cells in read_rows(path):
        word, _, rest = cells[0].partition(" ")
        words.append(word)
        rests.append(rest.strip())
    return np.array(words, np.str_), np.array(rests, np.str_)


def _has_no_names(read: NumberTable, found: Mapping[str, Any]) -> bool:
    """Whether the first line of a list, read as names, holds an id of the source."""
    if read.path.suffix.lower() not in TEXTS or not read.named or len(read) < 2:
        return False
    names = {*read} - {*KEYS["labels"], *KEYS["ids"], *FILE_NAMES}
    return any(names & {*_plain(found, key).ravel().tolist()} for key in _text_columns(found))


def _plain(arrays: Mapping[str, Any], key: str) -> Array:
    values = arrays[key]
    if isinstance(values, NamedLabels):
        values = values.names[values.values]
    return flat_column(values)


def _label_column(read: Mapping[str, Any], path: Path) -> str:
    """The column that holds the labels: by its name, the only one, or the one beside the ids."""
    names = list(read)
    if known := find_keys(KEYS["labels"], names):
        return known[0]
    if len(names) == 1:
        return names[0]
    ids = find_keys((*KEYS["ids"], *FILE_NAMES), names)
    others = [name for name in names if name not in ids]
    if len(names) == 2:
        return others[0] if len(others) == 1 else names[1]
    raise UserError(
        f"{path} holds {', '.join(names[:10])}, and none of them is called label",
        "name the column of the labels so, or keep it beside one column of ids",
    )


def _same_columns(name: str, found: Mapping[str, Any]) -> list[str]:
    """Columns of a source that may hold the ids of a column of this name, the likely first."""
    same = find_keys([name], found)
    ids = find_keys((*KEYS["ids"], *FILE_NAMES), found)
    return list(dict.fromkeys([*same, *ids, *_text_columns(found)]))


def _text_columns(found: Mapping[str, Any]) -> list[str]:
    if isinstance(found, Columns):
        return [field.name for field in found.schema if str(field.type).endswith("string")]
    arrays = found.columns if isinstance(found, NumberTable) else found
    kinds = {}
    for name, array in arrays.items():
        values = getattr(array, "values", None) if isinstance(found, NumberTable) else array
        kinds[name] = getattr(getattr(values, "dtype", None), "kind", "")
    return [name for name, kind in kinds.items() if kind == "U"]


def _rows_by_id(listed: Array, wanted: Any, path: Path, name: str) -> Array | None:
    """The rows (N,) of a list in which the wanted values (N,) stand; None if they are others.

    Raises
    ------
    UserError
        Most of the values are there, and some are not; or one is there twice.
    """
    values = wanted.names[wanted.values] if isinstance(wanted, NamedLabels) else wanted
    if getattr(values, "ndim", 0) != 1 or values.dtype.kind not in "iuU":
        return None
    if listed.dtype.kind not in "iuU":
        return None
    texts = listed.astype(np.str_).tolist()
    row_of = {text: row for row, text in enumerate(texts)}
    rows = [row_of.get(text, -1) for text in values.astype(np.str_).tolist()]
    lost = rows.count(-1)
    if lost > len(rows) / 2 or not rows:
        return None
    if lost:
        first = short(str(values[rows.index(-1)]))
        raise UserError(
            f"{path} has no label for {lost:,} of {len(rows):,} rows, the first of {first}",
            "add them",
        )
    if len(row_of) < len(texts):
        twice = next(text for row, text in enumerate(texts) if row_of[text] != row)
        raise UserError(f"{path}: {name} has {short(twice)} twice", "list it once")
    return np.array(rows, np.int64)


def _with_first_line(
    read: NumberTable, path: Path, labels: Array, found: Mapping[str, Any]
) -> Array:
    """Labels of a file of one column, whose first line is a name or a label: their number says it.

    A name that says `label` is a name.
    """
    first = next(iter(read))
    if path.suffix.lower() not in TEXTS or find_keys(KEYS["labels"], [first]) or not read.named:
        return labels
    sizes = _sizes(found)
    if len(labels) in sizes or len(labels) + 1 not in sizes:
        return labels
    read.remarks.clear()
    return np.array([cells[0] for _, cells in read_rows(path)], np.str_)


def _sizes(found: Mapping[str, Any]) -> set[int]:
    """The numbers of rows that the arrays of a source have, and of columns."""
    if isinstance(found, Columns):
        return {sum(found.rows)}
    if isinstance(found, NumberTable):
        return {len(values) for column in found.columns.values() for values in [column.values]}  # type: ignore[arg-type]
    sizes: set[int] = set()
    for array in found.values():
        sizes |= {*np.shape(array)[:2]}
    return sizes


def names_file(named: str | None, arrays: Sequence[str]) -> Path | None:
    """The file that --labels names; None if it names a key of the source, or nothing."""
    if named is None or named in arrays:
        return None
    path = Path(named)
    return path if path.is_file() else None
