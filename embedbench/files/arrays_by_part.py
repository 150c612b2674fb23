"""Arrays whose names have a part in them: `X_train` and `X_test`; `train_idx`, `val_mask`.

The first are tables that are kept apart, and are joined. The second say which rows of one table
are which part. Others, such as the loss curves `train_loss` and `val_loss`, are neither.
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from embedbench.array_types import Array, Bytes, Ints, Strings
from embedbench.errors import UserError
from embedbench.storage.regular_files import explain_errors

from .hdf5_layout import COLUMNS
from .known_names import HELD_WORDS, KEYS, PART_WORDS, find_keys, split_roles
from .numbered_labels import check_counts
from .sample_metadata import SPLITS, TEST, TRAIN

LAYER = "layer/"
FIT = "all of one part need as many rows, and rows of one name one shape"
_NUMBERS = ("idx", "index", "indexes", "indices", "ind", "inds", "rows")
ROW_WORDS = (*_NUMBERS, *(f"split_{word}" for word in _NUMBERS))
MASK_WORDS = ("mask", "is", "in", "flag", "split_mask")
WEAK_WORDS = ("ids", "id", "split", "")  # lists of rows only where two parts have one
_NONE = 255  # in a split under way: a row of no part

_WORD = "|".join(sorted((*PART_WORDS, *HELD_WORDS, "trainval"), key=len, reverse=True))
_WORD = f"(?P<word>(?i:{_WORD}))"
_FORMS = (
    re.compile(f"{_WORD}(?:[-_./ ]|(?=[A-Z]))(?P<rest>.+)"),  # train_X, trainX
    re.compile(f"(?P<rest>.+?)(?:[-_./ ]|(?<=[a-z])(?=[A-Z])){_WORD}"),  # X_train, featuresTrain
    re.compile(f"(?P<rest>[XxYy]){_WORD}"),  # Xtrain
    re.compile(f"{_WORD}(?P<rest>[XxYy])"),
    re.compile(f"(?P<rest>is){_WORD}"),  # istrain
    re.compile(f"{_WORD}(?P<rest>)"),
)


def parse_key(key: str) -> tuple[str, str] | None:
    """Return the part's word in the name of an array, and the rest of it; None without such a word.

    >>> parse_key("X_train"), parse_key("valIdx"), parse_key("test"), parse_key("layer/b_test")
    (('train', 'X'), ('val', 'Idx'), ('test', ''), ('test', 'layer/b'))
    >>> parse_key("contest"), parse_key("train_test_split"), parse_key("layer/train")
    (None, None, None)
    """
    if key.startswith(LAYER):
        inner = parse_key(key.removeprefix(LAYER))
        return (inner[0], LAYER + inner[1]) if inner and inner[1] else None
    for form in _FORMS:
        match = form.fullmatch(key)
        if match and match["word"]:
            word = match["word"].casefold()
            rest = match["rest"]
            return None if _begins_with_part(rest) else (word, rest)
    return None


def _begins_with_part(rest: str) -> bool:
    """Whether a second word of a part follows: `train_test_split` is about both."""
    return re.match(f"{_WORD}(?![a-z])", rest) is not None


@dataclass(frozen=True)
class JoinedArrays:
    """Arrays by name after the parts were joined.

    Parameters
    ----------
    split : array of int or None
        (N,) TRAIN, VAL or TEST of the joined rows; None: nothing was joined.
    origin : mapping
        The names in the source, of each joined array, and of `split`.
    """

    arrays: Mapping[str, Any]
    split: Bytes | None
    origin: Mapping[str, str]


def join_parts(
    arrays: Mapping[str, Any], asked: Mapping[str, str | None], where: str
) -> JoinedArrays:
    """Join features and labels that are kept apart, such as `X_train`, `y_train`, `X_test`, ….

    What is joined gets the name without the part; rows are in the order train, val, test. Ids,
    groups, layers and optional columns of the same parts are joined, too.

    Parameters
    ----------
    asked : mapping
        The names that the user gave `features`, `labels` and `groups`.

    Raises
    ------
    UserError
        A part has features and no labels, or other numbers of them; or a whole table is there,
        too, whose rows are not those of the parts.
    """
    unjoined = JoinedArrays(arrays, None, {})
    if any(asked[what] in arrays for what in ("features", "labels")) or "split" in arrays:
        return unjoined
    by_rest: dict[str, dict[str, str]] = {}  # the keys by word, of each rest
    for key in arrays:
        parsed = parse_key(key)
        if parsed is not None:
            by_rest.setdefault(parsed[1], {})[parsed[0]] = key
    features = _parted("features", by_rest, asked)
    labels = _parted("labels", by_rest, asked)
    if features is None or labels is None:
        return unjoined
    if len(by_rest[features]) == len(by_rest[labels]) == 1:
        return unjoined
    roles = _roles_of_parts(by_rest, features, labels, where)
    words = sorted(roles, key=lambda word: roles[word])
    wanted = [features, labels]
    wanted += [rest for rest in by_rest if _goes_with(rest, asked) and rest not in wanted]
    joined = {rest: by_rest[rest] for rest in wanted if by_rest[rest].keys() == roles.keys()}
    taken: set[str] = set()
    for keys in joined.values():
        taken.update(keys.values())
    out = {key: value for key, value in arrays.items() if key not in taken}
    with explain_errors(f"{where}: {', '.join(sorted(taken))} do not fit together", FIT):
        for word in words:
            _check_rows({keys[word]: len(arrays[keys[word]]) for keys in joined.values()}, where)
        tables = {rest: [arrays[keys[word]] for word in words] for rest, keys in joined.items()}
        for rest, several in tables.items():
            _check_forms([joined[rest][word] for word in words], several, where)
        check_counts({joined[labels][word]: arrays[joined[labels][word]] for word in words})
        rows = [len(part) for part in tables[features]]
        out |= {rest: np.concatenate(parts) for rest, parts in tables.items()}
    for what, rest in (("features", features), ("labels", labels)):
        usual = find_keys(KEYS[what], arrays) if asked[what] is None else []
        for key in usual:
            if key != rest:  # the parts take the place of a whole table of their name
                _check_whole(arrays[key], out[rest], key, list(by_rest[rest].values()), where)
    origin = {rest: ", ".join(keys[word] for word in words) for rest, keys in joined.items()}
    split = np.repeat([roles[word] for word in words], rows).astype(np.uint8)
    return JoinedArrays(out, split, {**origin, "split": f"the names {origin[features]}"})


def _check_rows(rows: Mapping[str, int], where: str) -> None:
    """Refuse arrays of one part that have other numbers of rows."""
    first, *others = rows
    for key in others:
        if rows[key] != rows[first]:
            raise UserError(
                f"{where}: {first} has {rows[first]} rows, and {key} has {rows[key]}",
                "give one of each for every sample of a part",
            )


_WHOLE = "whole numbers"
_KINDS = {"i": _WHOLE, "u": _WHOLE, "f": "real numbers", "b": "True and False", "U": "texts"}


def _check_forms(keys: Sequence[str], parts: Sequence[Any], where: str) -> None:
    """Refuse parts of one table with rows of other shapes, or of other kinds of values."""
    for key, part in zip(keys[1:], parts[1:], strict=True):
        shapes = [_row_shape(table) for table in (parts[0], part)]
        if shapes[0] != shapes[1]:
            raise UserError(
                f"{where}: a row of {keys[0]} has {shapes[0]}, and one of {key} has {shapes[1]}",
                "give all parts the features of one backbone",
            )
        kinds = [_KINDS.get(np.asarray(table).dtype.kind, "objects") for table in (parts[0], part)]
        if kinds[0] != kinds[1]:
            raise UserError(
                f"{where}: {keys[0]} holds {kinds[0]}, and {key} holds {kinds[1]}",
                "make all parts in one way",
            )


def _row_shape(table: Any) -> str:
    """Return in words how many values a row has."""
    sizes = np.shape(table)[1:]
    if len(sizes) == 1:
        return f"{sizes[0]} values"
    return " × ".join(map(str, sizes)) if sizes else "one value"


def _check_whole(whole: Any, joined: Array, key: str, parts: Sequence[str], where: str) -> None:
    """Refuse a whole table beside its parts, unless it holds the rows of the parts in order.

    Which of its rows is in which part cannot be known by position, and ids and groups may be its.
    """
    if not np.array_equal(whole, joined):
        raise UserError(
            f"{where}: {key} is there beside {', '.join(parts)}, and its rows are others, or in "
            "another order",
            "remove the one or the other, or name the whole tables with --features and --labels",
        )


def _parted(
    what: str, by_rest: Mapping[str, Mapping[str, str]], asked: Mapping[str, str | None]
) -> str | None:
    """The rest of the names of an array that is kept apart; None if there is none."""
    usual = KEYS[what] if asked[what] is None else (str(asked[what]),)
    for name in usual:
        for rest in by_rest:
            if rest.casefold() == name.casefold():
                return rest
    return None


def _goes_with(rest: str, asked: Mapping[str, str | None]) -> bool:
    """Whether an array of this name has a value for each row of features, and is of use."""
    known = (*KEYS["ids"], *KEYS["groups"], *COLUMNS)
    return rest.startswith(LAYER) or rest == asked["groups"] or rest.casefold() in known


def _roles_of_parts(
    by_rest: Mapping[str, Mapping[str, str]], features: str, labels: str, where: str
) -> dict[str, int]:
    """Return what each part is; all have features and labels."""
    rows = by_rest[features]
    targets = by_rest[labels]
    for has, lacks, what in ((rows, targets, "labels"), (targets, rows, "features")):
        alone = [has[word] for word in has if word not in lacks]
        if alone:
            raise UserError(
                f"{where}: {alone[0]} has no {what} beside it, as {next(iter(rows.values()))} has",
                f"add them, or remove {alone[0]}",
            )
    return _different_roles(rows, where)


def _different_roles(keys: Mapping[str, str], where: str) -> dict[str, int]:
    """Return what part each word of some keys names; no two are one part."""
    roles: dict[str, int] = {}
    for word, role in split_roles(keys).items():
        if role is None:
            raise UserError(
                f"{where}: {keys[word]} may be any part beside {', '.join(keys.values())}",
                "name it train, val or test",
            )
        if role in roles.values():
            other = next(known for known, there in roles.items() if there == role)
            raise UserError(
                f"{where}: {keys[other]} and {keys[word]} are both {SPLITS[role]}", "remove one"
            )
        roles[word] = role
    return roles


# --- keys that say which rows are which part ---


@dataclass(frozen=True)
class RowSplit:
    """The split (N,) that some arrays say by row numbers or masks.

    Parameters
    ----------
    kept : array of bool
        (N,) whether a row is in any part.
    keys : sequence of str
        The arrays.
    remark : str
        What became of rows that are in none of them; empty if all are.
    """

    split: Bytes
    kept: Array
    keys: Sequence[str]
    remark: str


def split_by_rows(
    arrays: Mapping[str, Any], n: int, ids: Strings | None, used: Iterable[str], where: str
) -> RowSplit | None:
    """Return the split of n rows by keys such as `train_idx` or `test_mask`; None without any.

    A key alone decides for the other rows, too: they are train, or test beside train. Of two and
    more, rows that none names are in no part, and are to be left out.

    Parameters
    ----------
    ids : array of str or None
        (N,) of the samples: `train_ids` may list them.
    used : iterable of str
        Keys that are something else.

    Raises
    ------
    UserError
        Row numbers are out of range, twice there or in two parts; or it is no such list.
    """
    keys = _row_keys(arrays, set(used))
    if not keys:
        return None
    for word, several in keys.items():
        if len(several) > 1:
            listed = " and ".join(several)
            raise UserError(f"{where}: {listed} both say which rows are {word}", "remove one")
    one_a_word = {word: several[0] for word, several in keys.items()}
    roles = _different_roles(one_a_word, where)
    split = np.full(n, _NONE, np.uint8)
    for word, role in roles.items():
        key = one_a_word[word]
        rows = _rows(arrays[key], key, n, ids, where)
        other = split[rows]
        if (other != _NONE).any():
            row = int(rows[other != _NONE][0])
            part = SPLITS[split[row]]
            raise UserError(
                f"{where}: row {row} is in {key}, and in {part} too", "put it in one part only"
            )
        split[rows] = role
    names = list(one_a_word.values())
    missing = int((split == _NONE).sum())
    if not missing:
        return RowSplit(split, np.full(n, True), names, "")
    if len(roles) == 1:
        rest = TEST if TRAIN in roles.values() else TRAIN
        split[split == _NONE] = rest
        remark = f"the {missing:,} rows that {names[0]} does not name are {SPLITS[rest]}"
        return RowSplit(split, np.full(n, True), names, remark)
    remark = f"{missing:,} of {n:,} rows, which are in none of {', '.join(names)}"
    return RowSplit(split, split != _NONE, names, remark)


def _row_keys(arrays: Mapping[str, Any], used: set[str]) -> dict[str, list[str]]:
    """Return the keys that list rows or mark them, by the part's word."""
    keys: dict[str, list[str]] = {}
    weak: dict[str, list[str]] = {}
    for key in arrays:
        parsed = None if key in used else parse_key(key)
        if parsed is None:
            continue
        word = parsed[0]
        rest = parsed[1].casefold()
        if rest in (*ROW_WORDS, *MASK_WORDS) and np.ndim(arrays[key]):
            keys.setdefault(word, []).append(key)
        elif rest in WEAK_WORDS and _may_list_rows(arrays[key]):
            weak.setdefault(word, []).append(key)
    if keys:
        return keys
    # `train` or `train_id` alone may be anything, unless it is a mask
    has_masks = any(arrays[key].dtype == bool for key in itertools.chain(*weak.values()))
    return weak if has_masks or len(weak) > 1 else {}


def lists_rows(key: str) -> bool:
    """Whether a key is called as a list of rows or a mask is.

    >>> lists_rows("train_idx"), lists_rows("train_loss")
    (True, False)
    """
    parsed = parse_key(key)
    return parsed is not None and parsed[1].casefold() in (*ROW_WORDS, *MASK_WORDS, *WEAK_WORDS)


def _may_list_rows(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "biuU"


def _rows(values: Array, key: str, n: int, ids: Strings | None, where: str) -> Ints:
    """Return the numbers of the rows that an array lists or marks."""
    name = f"{where}: {key}"
    if not isinstance(values, np.ndarray):
        raise UserError(f"{name} holds categories", "expected row numbers or marks")
    if values.ndim != 1:
        raise UserError(
            f"{name} is {values.dtype} of shape {values.shape}; expected row numbers, or one mark "
            f"for each of {n} rows",
            "keep one split, and flatten it",
        )
    flags = values.dtype.kind in "iu" and len(values) == n > 2 and np.isin(values, (0, 1)).all()
    if values.dtype.kind == "b" or flags:
        if len(values) != n:
            raise UserError(f"{name} marks {len(values)} rows, and features have {n}")
        return np.flatnonzero(values)
    rows = _rows_of_ids(values, key, ids)
    if rows is None:
        rows = _row_numbers(values, name, n)
    counts = np.bincount(rows, minlength=n)
    if (counts > 1).any():
        raise UserError(f"{name} has row {int(counts.argmax())} twice", "list every row once")
    return rows


def _row_numbers(values: Array, name: str, n: int) -> Ints:
    if values.dtype.kind not in "iu":
        raise UserError(
            f"{name} is {values.dtype} of shape {values.shape}; expected row numbers or a mask",
            "convert it, or remove it",
        )
    if len(values) and not 0 <= values.min() <= values.max() < n:
        hint = " (does it count from 1?)" if values.min() >= 1 and values.max() == n else ""
        raise UserError(
            f"{name} has row numbers from {values.min()} to {values.max()}{hint}, and features "
            f"have rows 0 to {n - 1}",
            "correct it, or remove it",
        )
    return values.astype(np.int64)


def _rows_of_ids(values: Array, key: str, ids: Strings | None) -> Ints | None:
    """Return the rows of the samples whose ids are listed; None if they are no ids."""
    if ids is None or not len(values):
        return None
    row_of = {name: row for row, name in enumerate(ids.tolist())}
    rows = [row_of.get(name, -1) for name in values.astype(np.str_).tolist()]
    if -1 in rows:
        return None
    found = np.array(rows, np.int64)
    whole = values.dtype.kind in "iu" and values.min() >= 0 and values.max() < len(ids)
    if whole and not np.array_equal(found, values):
        raise UserError(
            f"{key} may list row numbers or sample ids, and these differ", "give ids as texts"
        )
    return found
