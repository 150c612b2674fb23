"""Files that are one array each, by their names: `X_train.csv`, `y_train.csv`, …."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Array
from embedbench.errors import UserError, list_first, short

from .arrays_by_part import parse_key
from .formats.feature_columns import check_odd, is_code, name_rows, numbers_rows
from .formats.number_tables import SUFFIXES as TEXTS
from .formats.number_tables import NumberTable, read_number_table
from .formats.numpy_files import NamedArrays
from .joined_sources import of_other_columns
from .known_names import FILE_NAMES, KEYS, LISTED, find_keys, without_common_words
from .label_files import SPLITS_BY_NAME, USEFUL, counts, label_column

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
    part = "" if parsed is None else parsed[0]
    for kind in ("features", "labels"):
        if find_keys(KEYS[kind], [_rest(name)]):
            return part, kind
    return part, ""


def _rest(name: str) -> str:
    """The name of a file without the word of a part."""
    parsed = parse_key(name)
    return name if parsed is None else parsed[1]


@dataclass
class _Taken:
    """What one file is.

    Parameters
    ----------
    array : array
        Its values.
    names : dict
        Columns (N,) that name its rows, the surest first: ids, texts that are all different, an
        index.
    columns : dict
        Other columns (N,) that are of use: split, groups, domain, time.
    features : sequence of str
        (D,) the columns that became a table.
    """

    path: Path
    array: Any
    names: dict[str, Array] = field(default_factory=dict)
    columns: dict[str, Array] = field(default_factory=dict)
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
        _bring_in_order(beside[0], one, read[one.path], arrays)
        if kind == "labels":
            _leave_out_labels(beside[0], one)
    _order_features(tables, arrays)
    for name, one in taken.items():
        arrays[name] = one.array
        arrays.remarks += getattr(read[one.path], "remarks", ())
    _add_columns(taken, arrays)
    for one in taken.values():
        arrays.not_read += one.left_out
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
    index = [column for column in found if len(found) > 1 and numbers_rows(found, column)]
    ids = find_keys(_IDS, found) if len(found) > len(index) + 1 and kind else []
    values = [column for column in found if column not in (*index, *ids)]
    if kind == "labels":
        one.array = found[_take_labels(found, values, one)]
    elif len(values) == 1:
        one.array = found[values[0]]
    else:
        _stack(found, values, one)
    texts = [column for column in values if len(found) > 1 and _is_text(found, column)]
    for column in (*ids, *texts, *index):
        rows = found.columns[column].values
        if rows is not None and rows is not one.array and len(np.unique(rows)) == len(rows):
            one.names[column] = found[column]
    left = [column for column in (*ids, *index) if column not in one.names or column in index]
    if left:
        one.left_out.append(f"{list_first(left, LISTED)} of {path.name} (names of rows)")
    return one


def _is_text(found: NumberTable, column: str) -> bool:
    values = found.columns[column].values
    return values is not None and values.dtype.kind == "U" and not found.columns[column].missing


def _take_labels(found: NumberTable, values: Sequence[str], one: _Taken) -> str:
    """The column of labels; the others are kept where they are of use."""
    key = label_column({column: found.columns[column].values for column in values}, one.path)
    others = [column for column in values if column != key]
    _keep_useful(found, others, one, "")
    return key


def _keep_useful(found: NumberTable, others: Sequence[str], one: _Taken, why: str) -> None:
    """Keep the split, groups, domain and time of some columns, and name the others."""
    useful = find_keys(USEFUL, others)
    one.columns = {column: found[column] for column in useful}
    left = [column for column in others if column not in useful]
    if left:
        one.left_out.append(f"{list_first(left, LISTED)} of {one.path.name}{why}")


def _stack(found: NumberTable, values: Sequence[str], one: _Taken) -> None:
    """Make one table of all columns of numbers."""
    for column in (*values, *found.lost):
        check_odd(found, column)
    meant = find_keys((*KEYS["groups"], *KEYS["split"], "domain", "time"), values)
    numbers = [column for column in values if not _is_text(found, column) and column not in meant]
    numbers = [column for column in numbers if found[column].dtype.kind in "iufb"]
    if not numbers:
        raise UserError(f"{one.path} holds no column of numbers", "give one array a file")
    one.array = np.stack([found[column] for column in numbers], axis=1)
    if one.array.dtype.kind in "iu":
        one.array = one.array.astype(np.float64)  # a text says no type of its numbers
    one.features = numbers if found.named else ()
    _keep_useful(found, [name for name in values if name not in numbers], one, " (texts)")


def _leave_out_labels(table: _Taken, one: _Taken) -> None:
    """Leave out columns of features that are the labels of the file beside, or a code of them."""
    for name in [*table.features]:
        at = [*table.features].index(name)
        values = table.array[:, at]
        named = find_keys(KEYS["labels"], [name]) and np.array_equal(values, one.array)
        whole = np.isfinite(values).all() and (values == np.trunc(values)).all()
        if named or (whole and is_code(values.astype(np.int64), np.asarray(one.array))):
            table.array = np.delete(table.array, at, axis=1)
            table.features = [other for other in table.features if other != name]
            table.left_out.append(f"{name} of {table.path.name} (the labels)")


def _order_features(tables: Mapping[str, _Taken], arrays: NamedArrays) -> None:
    """Bring the columns of features into the order of the first part."""
    first, *others = tables.values()
    for one in others:
        if not first.features or not one.features or [*one.features] == [*first.features]:
            continue
        if {*one.features} != {*first.features}:
            raise of_other_columns(one.path, one.features, first.path, first.features)
        place = {name: at for at, name in enumerate(one.features)}
        one.array = one.array[:, [place[name] for name in first.features]]
        arrays.remarks.append(
            f"the columns of {one.path.name} are in another order than those of "
            f"{first.path.name}, and were joined by name."
        )


# --- rows of two files ---


def _bring_in_order(
    table: _Taken, one: _Taken, found: Mapping[str, Any], arrays: NamedArrays
) -> None:
    """Bring the rows of a file into the order of the features of its part."""
    if isinstance(found, NumberTable) and len(one.array) == len(table.array) - 1:
        plain = len(found) == 1 and found.named and found.path.suffix.lower() in TEXTS
        if plain and not find_keys((*KEYS["labels"], *_IDS), found):  # the first line is a label
            one.array = next(iter(read_number_table(found.path, unnamed=True).values()))
            return
    by = _common_names(table, one)
    if by is None:
        return
    ours = table.names[by[0]].astype(np.str_)
    theirs = one.names[by[1]].astype(np.str_)
    if np.array_equal(ours, theirs):
        return
    sure = bool(find_keys(_IDS, by)) or table.names[by[0]].dtype.kind == "U"
    if not sure and counts(table.names[by[0]]) != counts(one.names[by[1]]):
        raise UserError(
            f"the index of {table.path} is another than that of {one.path}: one counts the rows, "
            "and one names those of an earlier table",
            "write both with index=False in one order, or both with one index",
        )
    place = {row: at for at, row in enumerate(theirs.tolist())}
    lacking = [row for row in ours.tolist() if row not in place]
    if lacking:
        raise UserError(
            f"{one.path} has no row {short(lacking[0])} in {by[1]}, as {table.path} has in "
            f"{by[0]}; {len(lacking):,} of {len(ours):,} are lacking",
            "give both files the same rows, or leave the names of rows away",
        )
    arrays.remarks.append(
        f"{one.path.name} is in another order than {table.path.name}, and was joined by {by[1]}."
    )
    order = [place[row] for row in ours.tolist()]
    one.array = one.array[order]
    one.columns = {name: values[order] for name, values in one.columns.items()}
    one.names = {name: values[order] for name, values in one.names.items()}


def _common_names(table: _Taken, one: _Taken) -> tuple[str, str] | None:
    """The columns by which two files name the same rows: ids, texts, or an index.

    Texts are those of one name, or with the same values.
    """
    ids = find_keys(_IDS, table.names)
    their_ids = find_keys(_IDS, one.names)
    if ids and their_ids:
        return ids[0], their_ids[0]
    texts = _common_texts(table, one)
    if texts is not None:
        return texts
    index = _indices(table)
    their_index = _indices(one)
    if index and their_index:
        return index[-1], their_index[-1]
    return None


def _indices(one: _Taken) -> list[str]:
    """The columns of numbers that name rows."""
    return [name for name, rows in one.names.items() if rows.dtype.kind != "U"]


def _common_texts(table: _Taken, one: _Taken) -> tuple[str, str] | None:
    for ours, values in table.names.items():
        for theirs, others in one.names.items():
            if values.dtype.kind != "U" or others.dtype.kind != "U":
                continue
            if ours == theirs or {*values.tolist()} <= {*others.tolist()}:
                return ours, theirs
    return None


def _add_columns(taken: Mapping[str, _Taken], arrays: NamedArrays) -> None:
    """Add the ids and other columns of all parts to the arrays, by the names of the parts."""
    parts: dict[str, dict[str, Array]] = {}
    for name, one in taken.items():
        part, kind = _part_and_kind(name)
        if not kind:
            continue
        beside = parts.setdefault(part, {})
        for column in find_keys(_IDS, one.names)[:1]:
            beside.setdefault("ids", one.names[column])
        for column, values in one.columns.items():
            beside.setdefault(column, values)
    for column in dict.fromkeys(itertools.chain.from_iterable(parts.values())):
        why = ""
        if not all(column in beside for beside in parts.values()):
            why = "not of all parts"
        elif len(parts) > 1 and find_keys(SPLITS_BY_NAME, [column]):
            why = "the split is from the names of the files"
        elif any(find_keys([column], [_rest(name)]) for name in taken):
            why = "a file is called so"
        if why:
            arrays.not_read.append(f"{column} ({why})")
            continue
        for part, beside in parts.items():
            arrays[f"{column}_{part}" if part else column] = beside[column]
