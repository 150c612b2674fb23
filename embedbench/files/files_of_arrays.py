"""Files that are one array each, by their names: `X_train.csv`, `y_train.csv`, …."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Array
from embedbench.errors import UserError, list_first, short

from .arrays_by_part import parse_key
from .formats.feature_columns import check_odd, name_rows, numbers_rows
from .formats.number_tables import SUFFIXES as TEXTS
from .formats.number_tables import NumberTable, read_number_table
from .formats.numpy_files import NamedArrays
from .known_names import FILE_NAMES, KEYS, LISTED, find_keys, without_common_words
from .label_files import counts, label_column

_IDS = (*KEYS["ids"], *FILE_NAMES)


def hold_one_array_each(names: Sequence[str]) -> bool:
    """Whether files are arrays by their names, one with features and one with labels.

    >>> hold_one_array_each(["X_train", "y_train"]), hold_one_array_each(["amazon", "dslr"])
    (True, False)
    """
    return {"features", "labels"} <= {_part_and_kind(name)[1] for name in names}


def _part_and_kind(name: str) -> tuple[str, str]:
    """The word of a part in the name of a file, and whether it holds features, labels or others."""
    parsed = parse_key(name)
    part, rest = ("", name) if parsed is None else parsed
    for kind in ("features", "labels"):
        if find_keys(KEYS[kind], [rest]):
            return part, kind
    return part, ""


@dataclass
class _Taken:
    """What one file is.

    Parameters
    ----------
    array : array
        Its values.
    rows : array or None
        (N,) the names of its rows, in the column `by`; None: it has no such column.
    features : sequence of str
        (D,) the columns that became a table.
    """

    path: Path
    array: Any
    rows: Array | None = None
    by: str = ""
    features: Sequence[str] = ()
    left_out: list[str] = field(default_factory=list)


def join_files(read: Mapping[Path, Mapping[str, Any]]) -> NamedArrays:
    """Return the arrays of files that are one array each, by the names of the files.

    A column of ids, or the index that pandas or R write, is no value: files of one part are joined
    by it. Columns of features that have names are the same where these are.

    Parameters
    ----------
    read : mapping
        What was read of each file.

    Raises
    ------
    UserError
        A file holds several arrays; or files of one part name other rows or features.
    """
    arrays = NamedArrays()
    names = without_common_words([path.stem for path in read])
    taken = {name: _take(read[path], path, name) for path, name in zip(read, names, strict=True)}
    tables = {name: one for name, one in taken.items() if _part_and_kind(name)[1] == "features"}
    for name, one in taken.items():
        part, kind = _part_and_kind(name)
        beside = [table for other, table in tables.items() if _part_and_kind(other)[0] == part]
        if name in tables or not beside:
            continue
        one.array = _in_order_of(beside[0], one, read[one.path], arrays)
        if kind == "labels":
            _leave_out_labels(beside[0], one)
    _order_features(tables, arrays)
    for name, one in taken.items():
        arrays[name] = one.array
        arrays.not_read += one.left_out
        arrays.remarks += getattr(read[one.path], "remarks", ())
    ids = {name: table for name, table in tables.items() if find_keys(_IDS, [table.by])}
    if ids.keys() != tables.keys() or any(find_keys(_IDS, [name]) for name in taken):
        arrays.not_read += [f"{table.by} of {table.path.name}" for table in ids.values()]
        return arrays
    for name, table in ids.items():
        part = _part_and_kind(name)[0]
        arrays[f"ids_{part}" if part else "ids"] = table.rows
    return arrays


def _take(found: Mapping[str, Any], path: Path, name: str) -> _Taken:
    """The one array of a file, without the names of its rows."""
    if not isinstance(found, NumberTable):
        if len(found) != 1:
            raise UserError(
                f"{path} holds {', '.join(found) or 'nothing'}; expected one array, as the files "
                "beside it are called for arrays",
                "give one array a file, or one file",
            )
        return _Taken(path, next(iter(found.values())))
    one = _Taken(path, None, left_out=[f"{phrase} of {path.name}" for phrase in found.not_read])
    name_rows(found)
    kind = _part_and_kind(name)[1]
    values = [column for column in found if len(found) == 1 or not numbers_rows(found, column)]
    by = [column for column in found if column not in values]
    if len(values) > 1 and kind:
        by = [*find_keys(_IDS, values), *by]
        values = [column for column in values if column not in by]
    for column in by:
        rows = found[column]
        if one.rows is None and len(np.unique(rows)) == len(rows):
            one.rows, one.by = rows, column
    unused = [column for column in by if column != one.by or not find_keys(_IDS, [column])]
    if unused:
        one.left_out.append(f"{list_first(unused, LISTED)} of {path.name} (the names of rows)")
    if kind == "labels":
        key = label_column({column: found[column] for column in values}, path)
        one.array = found[key]
        left = [column for column in values if column != key]
        one.left_out += [f"{list_first(left, LISTED)} of {path.name}"] if left else []
    elif len(values) == 1:
        one.array = found[values[0]]
    else:
        _stack(found, values, one)
    return one


def _stack(found: NumberTable, values: Sequence[str], one: _Taken) -> None:
    """Make one table of all columns of numbers."""
    for column in (*values, *found.lost):
        check_odd(found, column)
    numbers = [column for column in values if found[column].dtype.kind in "iufb"]
    if not numbers:
        raise UserError(f"{one.path} holds no column of numbers", "give one array a file")
    one.array = np.stack([found[column] for column in numbers], axis=1)
    if one.array.dtype.kind in "iu":
        one.array = one.array.astype(np.float64)  # a text says no type of its numbers
    one.features = numbers if found.named else ()
    left = [column for column in values if column not in numbers]
    one.left_out += [f"{list_first(left, LISTED)} of {one.path.name} (texts)"] if left else []


def _leave_out_labels(table: _Taken, one: _Taken) -> None:
    """Leave out columns of features that are called labels and are those of the file beside."""
    for name in find_keys(KEYS["labels"], table.features):
        at = [*table.features].index(name)
        if np.array_equal(table.array[:, at], one.array):
            table.array = np.delete(table.array, at, axis=1)
            table.features = [other for other in table.features if other != name]
            table.left_out.append(f"{name} of {table.path.name} (the labels)")


def _order_features(tables: Mapping[str, _Taken], arrays: NamedArrays) -> None:
    """Bring the columns of features into the order of the first part."""
    first, *others = tables.values()
    for one in others:
        if not first.features or not one.features or [*one.features] == [*first.features]:
            continue
        alone = [name for name in one.features if name not in first.features]
        lacking = [name for name in first.features if name not in one.features]
        if alone or lacking:
            raise UserError(
                f"{one.path} has the columns {list_first(alone, 3) or 'of'} "
                f"{first.path.name}, without {list_first(lacking, 3)}",
                "give all parts the same columns",
            )
        place = {name: at for at, name in enumerate(one.features)}
        one.array = one.array[:, [place[name] for name in first.features]]
        arrays.remarks.append(
            f"the columns of {one.path.name} are in another order than those of "
            f"{first.path.name}, and were joined by name."
        )


def _in_order_of(table: _Taken, one: _Taken, found: Mapping[str, Any], arrays: NamedArrays) -> Any:
    """The values of a file in the order of the features of its part."""
    array, n = one.array, len(table.array)
    if isinstance(found, NumberTable) and len(found) == 1 and len(array) == n - 1:
        first = next(iter(found))
        texts = found.path.suffix.lower() in TEXTS and found.named
        if texts and not find_keys((*KEYS["labels"], *_IDS), [first]):
            return next(iter(read_number_table(found.path, unnamed=True).values()))
    if table.rows is None or one.rows is None:
        return array
    ours, theirs = table.rows.astype(np.str_), one.rows.astype(np.str_)
    if np.array_equal(ours, theirs):
        return array
    if counts(table.rows) != counts(one.rows) and not find_keys(_IDS, [table.by, one.by]):
        raise UserError(
            f"the index of {table.path} is another than that of {one.path}: one counts the rows, "
            "and one names those of an earlier table",
            "write both with index=False in one order, or both with one index",
        )
    place = {row: at for at, row in enumerate(theirs.tolist())}
    lacking = [row for row in ours.tolist() if row not in place]
    if lacking:
        raise UserError(
            f"{one.path} has no row {short(lacking[0])} in {one.by}, as {table.path} has in "
            f"{table.by}; {len(lacking):,} of {len(ours):,} are lacking",
            "give both files the same rows, or leave the names of rows away",
        )
    arrays.remarks.append(
        f"{one.path.name} is in another order than {table.path.name}, and was joined by {one.by}."
    )
    return array[[place[row] for row in ours.tolist()]]
