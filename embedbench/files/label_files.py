"""Labels that lie in a file of their own, `--labels FILE`: in the order of the rows, or by id."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Array
from embedbench.errors import UserError, list_first, short

from .arrays_by_part import lists_rows
from .formats.arrow_files import Columns, NamedLabels
from .formats.number_tables import SUFFIXES as TEXTS
from .formats.number_tables import NumberTable, read_number_table, read_rows
from .known_names import FILE_NAMES, KEYS, LISTED, MAYBE_SPLIT, find_keys
from .numbered_labels import flat_column

_IDS = (*KEYS["ids"], *FILE_NAMES)
# Other columns that are taken, where a source has none of their kind.
SPLITS_BY_NAME = (*KEYS["split"], *MAYBE_SPLIT)
_TAKEN = (SPLITS_BY_NAME, KEYS["groups"], ("domain",), ("time",))
USEFUL = tuple(name for several in _TAKEN for name in several)


@dataclass(frozen=True)
class ListedLabels:
    """What a file of labels says of the rows of a source.

    Parameters
    ----------
    labels : array or NamedLabels
        One a row.
    columns : dict
        Other columns, by name, one value a row: split, groups, ids, domain, time.
    said : str
        How the lines were found.
    left_out : sequence of str
        Phrases on what was not used.
    """

    labels: Any
    columns: dict[str, Any]
    said: str
    left_out: Sequence[str]


def take_labels(
    read: Mapping[str, Any],
    path: Path,
    found: Mapping[str, Any],
    src: Path,
    *,
    in_order: bool = True,
    group: str | None = None,
) -> ListedLabels:
    """Return the labels of a file for the rows of a source, and the other columns that it has.

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
    group : str or None
        The column that the user named for the groups.

    Raises
    ------
    UserError
        The file has no labels, or none for some of the ids; or its ids are others.
    """
    if isinstance(read, NumberTable) and _has_no_names(read, found):
        read = read_number_table(path, unnamed=True)
    key = label_column(read, path)
    labels = _plain(read, key)
    lists, left_out = _other_columns(read, key, len(labels))
    rest = labels
    if path.suffix.lower() == ".txt" and len(read) == 1 and labels.dtype.kind == "U":
        lists["the first word"], rest = _words_apart(path)
    by_id = _find_rows(lists, path, found)
    if by_id is not None:
        name, rows = by_id
        unused = len(rest) - len(np.unique(rows))
        more = f"; {unused:,} of its lines are of no row of {src}" if unused else ""
        said = f"labels are those of {path} by {name}{more}."
        others = {other: lists[other][rows] for other in lists if other != name}
        columns, unneeded = _useful(others, found, group)
        left_out += _left_out(unneeded, path, src)
        return ListedLabels(rest[rows], columns, said, left_out)
    if not in_order:
        raise UserError(
            f"{path} has no column with the ids of {src}, and is for several files",
            "give lines of id and label, or import the files one by one",
        )
    lists.pop("the first word", None)
    _check_ids(lists, path, found, src)
    if isinstance(read, NumberTable) and len(read) == 1:
        labels = _with_first_line(read, path, labels, found)
    columns, unneeded = _useful(lists, found, group)
    said = f"labels are those of {path}, in the order of the rows."
    return ListedLabels(labels, columns, said, [*left_out, *_left_out(unneeded, path, src)])


def _other_columns(read: Mapping[str, Any], key: str, n: int) -> tuple[dict[str, Array], list[str]]:
    """The columns beside the labels with one value for each, and phrases on the others.

    Raises
    ------
    UserError
        Ids are missing.
    """
    lists = {}
    left_out = [*getattr(read, "not_read", ())]
    for name in read:
        if name == key:
            continue
        try:
            values = _plain(read, name)
        except UserError as error:
            if find_keys(_IDS, [name]):
                raise
            left_out.append(f"{name} ({error.what})")
            continue
        if values.shape == (n,):
            lists[name] = values
        else:
            left_out.append(f"{name} (not one value for each label)")
    return lists, left_out


def _find_rows(
    lists: Mapping[str, Array], path: Path, found: Mapping[str, Any]
) -> tuple[str, Array] | None:
    """The column of a list that names the rows of a source, and which of its lines each is."""
    texts = [name for name, values in lists.items() if values.dtype.kind == "U"]
    for name in dict.fromkeys([*find_keys(_IDS, lists), *texts, *lists]):  # an index comes last
        for column in _same_columns(name, found):
            try:
                wanted = found[column]
            except UserError:  # it lacks a value, and cannot name the rows
                continue
            rows = _rows_by_id(lists[name], wanted, path, name)
            if rows is not None:
                return name, rows
    return None


def _check_ids(lists: Mapping[str, Array], path: Path, found: Mapping[str, Any], src: Path) -> None:
    """Refuse labels in order where both the list and the source name the rows, and otherwise."""
    ours = [name for name in _same_columns("ids", found) if _names_rows(found, name)]
    ours = [name for name in ours if not counts(_plain(found, name))]
    theirs = find_keys(_IDS, lists)
    if len(lists) == 1 and not theirs:
        theirs = [name for name in lists if lists[name].dtype.kind == "U"]
    theirs = [name for name in theirs if _names_rows(lists, name) and not counts(lists[name])]
    if not ours or not theirs:
        return
    wanted = _plain(found, ours[0])
    listed = lists[theirs[0]]
    there = int(np.isin(wanted.astype(np.str_), listed.astype(np.str_)).sum())
    raise UserError(
        f"{path} has {theirs[0]} such as {short(str(listed[0]))}, and {src} has {ours[0]} such as "
        f"{short(str(wanted[0]))}: {there:,} of {len(wanted):,} rows are found by them",
        "write both alike, or give the labels alone, one a row in order",
    )


def _names_rows(arrays: Mapping[str, Any], name: str) -> bool:
    """Whether a column has another text or whole number in each row."""
    try:
        values = _plain(arrays, name)
    except UserError:
        return False
    plain = values.ndim == 1 and len(values) > 1 and values.dtype.kind in "iuU"
    return plain and len(np.unique(values)) == len(values)


def counts(values: Array) -> bool:
    """Whether whole numbers count the rows, from 0 or 1."""
    if values.dtype.kind not in "iu" or not len(values) or values[0] not in (0, 1):
        return False
    return bool((np.diff(values) == 1).all())


def _useful(
    lists: Mapping[str, Array], found: Mapping[str, Any], group: str | None
) -> tuple[dict[str, Array], dict[str, str]]:
    """The columns of a list that are taken, and those that are not, with the reason."""
    columns: dict[str, Array] = {}
    left_out = dict.fromkeys(lists, "")
    has_rows = any(map(lists_rows, found))
    wanted = [*_TAKEN, (group,)] if group is not None else _TAKEN
    for usual in wanted:
        for name in find_keys(usual, left_out):
            if usual == ("time",) and lists[name].dtype.kind not in "iuf":
                left_out[name] = "no numbers"
            elif find_keys(usual, found) or (usual is SPLITS_BY_NAME and has_rows):
                left_out[name] = "the source has its own"
            else:
                columns[name] = lists[name]
                del left_out[name]
    if not find_keys(_IDS, found):
        for name in find_keys(_IDS, left_out):
            if _names_rows(lists, name) and not counts(lists[name]):
                columns[name] = lists[name]
                del left_out[name]
                break
    return columns, left_out


def _left_out(unneeded: Mapping[str, str], path: Path, src: Path) -> list[str]:
    """Phrases on columns of a list, those of one reason together."""
    reasons: dict[str, list[str]] = {}
    for name, reason in unneeded.items():
        reasons.setdefault(reason, []).append(name)
    phrases = []
    for reason, names in reasons.items():
        why = f" ({reason.replace('the source', src.name)})" if reason else ""
        phrases.append(f"{list_first(names, LISTED)} of {path.name}{why}")
    return phrases


def _words_apart(path: Path) -> tuple[Array, Array]:
    """The first word of each line, which may be an id, and the rest of it."""
    words = []
    rests = []
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


def label_column(read: Mapping[str, Any], path: Path) -> str:
    """The column that holds the labels: by its name, the only one, or the one beside the ids."""
    names = list(read)
    if known := find_keys(KEYS["labels"], names):
        return known[0]
    if len(names) == 1:
        return names[0]
    no_labels = find_keys((*_IDS, *USEFUL), names)
    others = [name for name in names if name not in no_labels]
    if len(others) == 1:
        return others[0]
    if len(others) == 2:
        repeated = [name for name in others if not _names_rows(read, name)]
        if len(repeated) == 1 or len(names) == 2:
            return repeated[0] if len(repeated) == 1 else names[1]
    raise UserError(
        f"{path} holds {', '.join(names[:10])}, and none of them is called label",
        "name the column of the labels so, or keep it beside one column of ids",
    )


def _same_columns(name: str, found: Mapping[str, Any]) -> list[str]:
    """Columns of a source that may hold the ids of a column of this name, the likely first."""
    same = find_keys([name], found)
    ids = find_keys(_IDS, found)
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
    if len(row_of) < len(texts) and not find_keys(_IDS, [name]):
        return None  # such as a part or a place, which several samples have
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
        return {len(column.values) for column in found.columns.values()}  # type: ignore[arg-type]
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
