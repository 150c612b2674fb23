"""Which columns of a table are its features, where each column holds one of them."""

import fnmatch
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from embedbench.array_types import Array
from embedbench.errors import UserError, unknown
from embedbench.files.arrays_by_part import lists_rows
from embedbench.files.hdf5_layout import COLUMNS
from embedbench.files.known_names import FILE_NAMES, KEYS, MAYBE_SPLIT, find_keys

from .arrow_files import NamedLabels
from .number_tables import Column, NumberTable

_NUMBER = re.compile(r"(.*?)[-_. ]?(\d+)")  # a column's name: its stem and its number
_INDEX = ("index", "level_0", "__index_level_0__")  # how pandas calls the numbers of rows
_IDS = (*KEYS["ids"], *FILE_NAMES)
_FOLDS = ("fold", "folds", "kfold", "k_fold", "cv_fold")  # of cross-validation
_FEW = 4  # columns that a sentence lists; of more it has the first and the last


def join_feature_columns(
    table: NumberTable, asked: Mapping[str, str | None], labels: Array | None = None
) -> dict[str, str]:
    """Make one table of the columns that are features, called `features`; say which they were.

    With `--features` they are the columns of that stem and a number, those that fit a pattern with
    `*`, or those of a list with commas. Else, unless a column holds lists, they are the columns of
    one stem with running numbers, or all columns of numbers that are nothing else: no fold, no
    mark of a part, no count of rows, no code of the labels, which are `labels` (N,) where they
    come from elsewhere.

    Returns
    -------
    dict
        Which columns the `features` were, and in a table without names the `labels` and `ids`;
        empty where nothing was joined.
    """
    named = asked["features"]
    origin = name_rows(table)
    if named is not None:
        names = _named_columns(table, named)
    elif _holds_features(table):
        return origin
    else:
        if not table.named:
            origin = _name_columns(table, asked)
        used = [name for name in asked.values() if name is not None]
        if labels is None:
            labels = _labels_in(table, asked["labels"])
        names = _feature_columns(table, [*used, *origin], labels)
    if not names:
        return origin
    joined = np.stack([table[name] for name in names], axis=1)
    for name in names:
        del table.columns[name]
    table.columns["features"] = Column(joined)
    table.joined = names
    return {"features": _say(names), **origin}


def name_rows(table: NumberTable) -> dict[str, str]:
    """Call the first column `ids` if it has no name, and texts that are all different.

    R and pandas write the names of rows so. Return which column that was; empty: none.
    """
    first = next(iter(table), "")
    if not table.named or not _without_name(first) or find_keys(_IDS, table):
        return {}
    values = _values(table, first)
    if values.dtype.kind != "U" or table.columns[first].missing or _repeats(values):
        return {}
    table.columns = {"ids" if name == first else name: c for name, c in table.columns.items()}
    return {"ids": "the first column, which has no name"}


def _values(table: NumberTable, name: str) -> Array:
    values: Any = table.columns[name].values  # columns without any are left out
    return values.names[values.values] if isinstance(values, NamedLabels) else values


def _holds_features(table: NumberTable) -> bool:
    """Whether a column holds lists, or `features` are there by name and no numbers."""
    if any(_values(table, name).ndim > 1 for name in table):
        return True
    named = [_values(table, key) for key in ("features", "X") if key in table]
    return any(values.dtype.kind not in "iuf" for values in named)


def _say(names: Sequence[str]) -> str:
    if len(names) <= _FEW:
        return ", ".join(names)
    return f"{len(names):,} columns ({names[0]} to {names[-1]})"


def _named_columns(table: NumberTable, named: str) -> list[str]:
    """The columns that --features names; none if it is one that holds lists."""
    if named in table.lost:
        _check_numbers(table, named)
    if named in table.columns:
        return [] if _values(table, named).ndim > 1 else [named]
    if "," in named:
        names = [name.strip() for name in named.split(",")]
        for name in names:
            if name not in table.columns:
                raise unknown(f"column of {table.path}", name, table)
    elif "*" in named:
        names = fnmatch.filter(table, named)
    else:
        names = [name for name in (*table, *table.lost) if _stem(name) == named]
        for name in names:
            _check_numbers(table, name)
    for name in names:
        check_odd(table, name)
    names = [name for name in names if _values(table, name).dtype.kind in "iufb"]
    if not names:
        more = "--features also takes a stem (f of f0, f1, …), a pattern (f*) or a list (a,b,c)."
        raise unknown(f"column of {table.path}", named, table, more=more)
    return names


def _stem(name: str) -> str | None:
    match = _NUMBER.fullmatch(name)
    return match[1] if match else None


def _labels_in(table: NumberTable, asked: str | None) -> Array | None:
    """The labels of a table, if they are there, and whole."""
    names = find_keys(KEYS["labels"], table) if asked is None else [asked]
    if not names or names[0] not in table:
        return None
    column = table.columns[names[0]]
    return None if column.missing or column.wrong else _values(table, names[0])


def _feature_columns(table: NumberTable, used: Sequence[str], labels: Array | None) -> list[str]:
    """Columns of one stem with running numbers; else all columns of numbers that are nothing else.

    Raises
    ------
    UserError
        Two stems have as many columns; or one column of theirs is no column of numbers.
    """
    known = [*FILE_NAMES, *MAYBE_SPLIT, *COLUMNS, *_FOLDS]
    for what, usual in KEYS.items():
        if what != "features":
            known += usual
    taken = {*used, *find_keys(known, table)}
    free = [name for name in table if name not in taken and not numbers_rows(table, name)]
    numbers = [name for name in free if _values(table, name).dtype.kind in "iuf"]
    stems: dict[str, list[str]] = {}
    for name in (*free, *table.lost):
        if table.named and (stem := _stem(name)) is not None:
            stems.setdefault(stem, []).append(name)
    for several in stems.values():
        _leave_out_ends(table, several)
    running = {stem: names for stem, names in stems.items() if len(names) > 1 and _run(names)}
    for stem, names in stems.items():  # those of texts are no features
        if len({*names} & {*numbers}) < max(2, len(names) / 2):
            running.pop(stem, None)
    if not running:
        for name in (*free, *table.lost):
            check_odd(table, name)
        for name in find_keys(KEYS["features"], (*free, *table.lost)):
            _check_numbers(table, name)
        numbers = [name for name in numbers if not _counts(table, name)]
        numbers = [name for name in numbers if not _marks_part(table, name)]
        return [name for name in numbers if not is_code(_values(table, name), labels)]
    longest = max(map(len, running.values()))
    best = [stem for stem, names in running.items() if len(names) == longest]
    if len(best) > 2 and _run_as_well(best):  # a picture: 1x1, 1x2, …, 28x28
        together = set[str]().union(*[running[stem] for stem in best])
        for name in together:
            _check_numbers(table, name)
        return [name for name in numbers if name in together]
    if len(best) > 1:
        examples = " and ".join(running[stem][0] for stem in best)
        raise UserError(
            f"{table.path} has {longest} columns each like {examples}; one of them are features",
            f"name the stem: --features {best[0]}",
        )
    for name in running[best[0]]:
        _check_numbers(table, name)
    return running[best[0]]


def _leave_out_ends(table: NumberTable, names: list[str]) -> None:
    """Take the first and last column of one stem away that are a count of rows, or classes."""
    real = any(_is_kind(table, name, "f") for name in names)
    if real and names[0] in table and _counts(table, names[0]):
        names.pop(0)
    for end in (0, -1):
        if len(names) > 2 and _is_kind(table, names[end], "U"):
            values = _values(table, names[end])
            if not table.columns[names[end]].odd and _repeats(values):
                names.pop(end)


def _is_kind(table: NumberTable, name: str, kind: str) -> bool:
    return name in table and _values(table, name).dtype.kind == kind


def _run_as_well(stems: Sequence[str]) -> bool:
    """Whether stems are alike but for running numbers: `1x`, `2x`, `3x`."""
    parts = [re.split(r"(\d+)", stem) for stem in stems]
    numbers = [int(part[-2]) for part in parts if len(part) > 2]
    alike = {(*part[:-2], part[-1]) for part in parts}
    if len(alike) > 1:
        return False
    return sorted(numbers) == list(range(min(numbers), min(numbers) + len(stems)))


def check_odd(table: NumberTable, name: str) -> None:
    """Refuse a column of numbers with a value that is none: without it, others were features."""
    column = table.lost.get(name) or table.columns[name]
    if column.odd:
        raise UserError(
            f"{table.path}: {name} is {column.odd}, and a number in most others",
            "correct it or leave that sample out, or name the features: --features NAME",
        )


def _check_numbers(table: NumberTable, name: str) -> None:
    """Refuse a column that holds no numbers and is called as features are."""
    check_odd(table, name)
    why = table.lost[name].why if name in table.lost else ""
    if not why and _values(table, name).dtype.kind == "U":
        why = "texts"
    if why:
        raise UserError(
            f"{table.path}: {name} holds no numbers ({why}), and is called as the features are",
            "correct it, rename it, or name the features: --features NAME",
        )


def _run(names: Sequence[str]) -> bool:
    """Whether the numbers of columns of one stem are running ones, in any order."""
    numbers = sorted(int(name[re.search(r"\d+$", name).start() :]) for name in names)  # type: ignore[union-attr]
    return numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def numbers_rows(table: NumberTable, name: str) -> bool:
    """Whether a column is the index of a table: it has no name, or that which pandas gives.

    Its numbers are whole and all different; where rows were drawn or shuffled, in any order.
    """
    values = _values(table, name)
    if not _without_name(name) and name.casefold() not in _INDEX:
        return False
    if values.dtype.kind not in "iuf" or values.ndim > 1 or not len(values):
        return False
    return bool((values == np.trunc(values)).all()) and not _repeats(values)


def _counts(table: NumberTable, name: str) -> bool:
    """Whether a column is the first and counts the rows, from 0 or 1, whatever its name."""
    values = _values(table, name)
    if name != next(iter(table)) or values.dtype.kind not in "iu" or len(values) < 3:
        return False
    return values[0] in (0, 1) and bool((np.diff(values) == 1).all())


def _marks_part(table: NumberTable, name: str) -> bool:
    """Whether a column is called as a mark of a part is, such as `is_train`, and holds 0 and 1."""
    return lists_rows(name) and {*np.unique(_values(table, name)).tolist()} <= {0, 1}


def is_code(values: Array, labels: Array | None) -> bool:
    """Whether whole numbers (N,) are another name of the labels (N,): one for each class."""
    if labels is None or values.dtype.kind not in "iu" or labels.shape != values.shape:
        return False
    codes, places = np.unique(values, return_inverse=True)
    classes, numbers = np.unique(labels, return_inverse=True)
    if len(codes) != len(classes) or not 1 < len(codes) < len(values) / 2:
        return False
    return len(np.unique(places * len(classes) + numbers)) == len(classes)


def _without_name(name: str) -> bool:
    return name.casefold().startswith("unnamed")


# --- tables whose columns have no names ---


def _name_columns(table: NumberTable, asked: Mapping[str, str | None]) -> dict[str, str]:
    """Call one column `labels`, and one of texts that are all different `ids`; say which they were.

    Labels are the only column of texts, or the last or the first column where it alone holds whole
    numbers, some of them more than once.
    """
    origin: dict[str, str] = {}
    texts = [name for name in table if _values(table, name).dtype.kind == "U"]
    repeated = [name for name in texts if _repeats(_values(table, name))]
    different = [name for name in texts if name not in repeated]
    if len(different) == 1:
        origin["ids"] = different[0]
    if asked["labels"] is None:
        if len(repeated) == 1:
            origin["labels"] = repeated[0]
        elif not repeated and (whole := _only_whole(table)):
            origin["labels"] = whole
    for what, name in origin.items():
        table.columns[what] = table.columns.pop(name)
    return origin


def _repeats(values: Array) -> bool:
    return len(np.unique(values)) < len(values)


def _only_whole(table: NumberTable) -> str | None:
    """The last or the first column, if it alone holds whole numbers, and repeats some."""
    whole = [name for name in table if _values(table, name).dtype.kind == "i"]
    whole = [name for name in whole if not _counts(table, name)]
    real = [name for name in table if _values(table, name).dtype.kind == "f"]
    names = list(table)
    if _counts(table, names[0]):
        names = names[1:]
    if len(whole) != 1 or not real or whole[0] not in (names[-1], names[0]):
        return None
    return whole[0] if _repeats(_values(table, whole[0])) else None
