"""Data sets of Hugging Face's hub, or of its forms in a folder, by the package `datasets`.

Reading runs no code of a data set, and reads no file outside of it, see `own_files`.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from embedbench.errors import UserError, unknown
from embedbench.files.hdf5_layout import COLUMNS
from embedbench.storage.regular_files import explain_errors

from . import own_files
from .data_set_parts import SPLIT_NAMES, Part, join_parts, name_labels, parse_address
from .source import Content, Source

_HOLDS = {"image": "images", "audio": "sounds", "text": "texts"}  # by the option for its column
_NAMED = ("label", "text", "whole")  # kinds of columns whose values can be names
_FITS = {  # the kinds of columns that an option takes
    **{option: (option,) for option in _HOLDS},
    **dict.fromkeys(("label", "domain", "group"), _NAMED),
    "time": ("whole", "real", "time"),
}
_USUAL = {  # names of columns that are taken first
    "text": ("text", "sentence", "content"),
    "label": ("label", "labels", "fine_label", "target", "class", "category", "wnid", "class_name"),
}
_VALUES = {  # types of plain values
    "text": "(large_)?string",
    "whole": "u?int.*|bool",
    "real": "float.*",
    "time": "timestamp.*",
}
_COMMIT = re.compile(r"@([0-9a-f]{40})/")


def hub_source(source: str) -> Source:
    """Return a data set that `datasets` reads: `hfds/NAME?OPTION=COLUMN@REVISION`.

    Parameters
    ----------
    source : str
        NAME is a name on the hub; a folder of Parquet files, of images, or one that `save_to_disk`
        wrote; or a file: CSV, TSV, JSONL or Parquet. Options are `image`, `audio` or `text`,
        `label`, `domain`, `group` and `time`, which name columns, an empty one no column; `config`;
        and `split`, the parts to take: `split=train,held_out:test`. What is not said is guessed
        from the columns' types, and the source's remark has it.
    """
    name, options, revision = parse_address(source)
    address = source.partition("@")[0]
    for key in options:
        if key not in (known := (*_FITS, "config", "split")):
            raise unknown(f"option of {address}:", key, known)
    splits = _load(name, options.get("config"), revision)
    local = os.path.exists(os.path.expanduser(name))
    roles = _choose_splits(splits, options.get("split", ""), address)
    first = splits[next(iter(roles))]
    taken = _choose_columns(first.features, options, address)
    (kind,) = _HOLDS.keys() & taken.keys()
    phrases = [", ".join(f"{option}={column}" for option, column in taken.items())]
    left = [f"column {column}" for column in first.features if column not in taken.values()]
    left += [f"split {part}" for part in splits if part not in roles]
    phrases += [f"left out: {', '.join(left)}"] if left else []
    parts = []
    for part, role in roles.items():
        data = splits[part]
        values = {
            option: _values(data, column, option, address)
            for option, column in taken.items()
            if option != kind
        }
        classes = getattr(first.features[taken["label"]], "names", ())
        folders = own_files.row_folders(name, Path(os.path.expanduser(name)) if local else None)
        read = _reader(data, taken[kind], folders)
        parts.append(Part(part, role, values.pop("label"), classes, read, values))
    return join_parts(
        f"hfds/{Path(name).name}{address[len(name) + 5 :]}" if local else address,
        parts,
        phrases,
        holds=_HOLDS[kind],
        revision=_revision(first.info, revision),
        licence=getattr(first.info, "license", "") or "not stated",
    )


# --- the data set and its parts ---


def _load(name: str, config: str | None, revision: str) -> dict[str, Any]:
    """Return the parts by name."""
    folder = Path(os.path.expanduser(name))
    expected = (
        "expected a name on the hub, with ?config=NAME where it has several, or a folder, "
        "hfds/./FOLDER; without a network, get the data set's files first and name their folder"
    )
    with explain_errors(f"hfds/{name} cannot be opened", expected):
        if any((folder / f).is_file() for f in own_files.SAVED):
            data = own_files.load_from_disk(folder)
        else:
            path, file = str(folder) if folder.is_dir() else name, None
            if folder.is_file():
                path, file = str(folder.parent), folder.name
            asked = {"data_files": file, "revision": revision or None}
            data = own_files.load_dataset(path, config, named=file is not None, **asked)
    return dict(data) if isinstance(data, dict) else {str(data.split or "all"): data}


def _choose_splits(splits: Mapping[str, Any], wanted: str, address: str) -> dict[str, int | None]:
    """Return what each part is that is taken."""
    roles: dict[str, int | None] = {}
    for item in filter(None, wanted.split(",")):
        part, _, role = item.partition(":")
        if part not in splits:
            raise unknown(f"split of {address}", part, splits)
        if role and role not in SPLIT_NAMES:
            raise unknown("part", role, SPLIT_NAMES)
        roles[part] = SPLIT_NAMES.get(role or part)
    if not wanted:
        roles = {part: SPLIT_NAMES[part] for part in splits if part in SPLIT_NAMES}
        if not roles and len(splits) == 1:
            roles = dict.fromkeys(splits)
    if not roles or (len(roles) > 1 and None in roles.values()):
        raise UserError(
            f"{address} has the splits {', '.join(splits)[:300]}",
            "say which to take, and what each is: ?split=NAME:train,NAME:test",
        )
    return roles


def _revision(info: Any, revision: str) -> str:
    """Return the commit that was read, else the revision that was asked for, or a version."""
    for url in getattr(info, "download_checksums", None) or ():
        if commit := _COMMIT.search(url):
            return commit[1]
    return revision or str(getattr(info, "version", None) or "").replace("0.0.0", "")


# --- columns ---


def _kind(feature: Any) -> str:
    """Return what a column holds; empty for what no option takes."""
    name = type(feature).__name__
    if name in ("Image", "Audio"):
        return name.lower()
    if name == "ClassLabel":
        return "label"
    dtype = feature.dtype if name == "Value" else ""
    return next((kind for kind, pattern in _VALUES.items() if re.fullmatch(pattern, dtype)), "")


def _choose_columns(
    features: Mapping[str, Any], options: Mapping[str, str], address: str
) -> dict[str, str]:
    """Return the column of each option, in the order of the options."""
    kinds = {name: _kind(feature) for name, feature in features.items()}
    taken = {}
    for option in _FITS:
        if column := options.get(option):
            if kinds.get(column) not in _FITS[option]:
                raise UserError(
                    f"column {column!r} of {address} is not there, or cannot be the {option}",
                    f"name one of {_described(features)}",
                )
            taken[option] = column
    if len(_HOLDS.keys() & taken.keys()) > 1:
        raise UserError(f"{address} names two of image, audio and text; samples are of one kind")
    for option in COLUMNS:
        if option not in options and kinds.get(option) in _FITS[option]:
            taken[option] = option
    for group in (("label",), tuple(_HOLDS)):  # texts are what is no label
        if not taken.keys() & group:
            taken |= _guess(group, features, set(taken.values()), address)
    return {option: taken[option] for option in _FITS if option in taken}


def _guess(
    group: Sequence[str], features: Mapping[str, Any], used: set[str], address: str
) -> dict[str, str]:
    """Return the first option of a group that a column fits, with the column.

    It has one of the usual names, or is the only one of its kind; for a label, of those with names
    for numbers.
    """
    kinds = {name: _kind(feature) for name, feature in features.items() if name not in used}
    for option in group:
        fitting = [name for name in kinds if kinds[name] in _FITS[option]]
        usual = [name for name in _USUAL.get(option, ()) if name in fitting]
        alone = [name for name in fitting if kinds[name] == option]
        if usual or len(alone) == 1:
            return {option: (usual or alone)[0]}
        if fitting:
            break
    raise UserError(
        f"which column of {address} is the {' or '.join(group)}? Expected one that its type or "
        "name gives away",
        f"the columns are {_described(features)}. Say it: "
        f"'{address}{'&' if '?' in address else '?'}{group[0]}=COLUMN'.",
    )


def _described(features: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} ({_kind(f) or '?'})" for name, f in features.items())[:300]


def _values(data: Any, column: str, option: str, address: str) -> list[Any]:
    """Return the values of a column: names, or numbers for `time`; None for a missing label."""
    with explain_errors(f"column {column!r} of {address} cannot be read", "get it again"):
        values = data.select_columns([column])[:][column]
    if names := getattr(data.features[column], "names", None):
        values = name_labels(values, names, f"column {column!r} of {address}")
    if option != "label" and any(value is None or value == "" for value in values):
        raise UserError(
            f"column {column!r} of {address} has rows without a value",
            f"leave it out, {option}=, or name another",
        )
    if option == "time":
        return [float(v.timestamp() if hasattr(v, "timestamp") else v) for v in values]
    return [None if value is None else str(value) for value in values]


# --- contents ---


def _reader(data: Any, column: str, folders: Sequence[Path]) -> Callable[[int], Content]:
    """Return what reads the encoded content of a sample; files of rows lie in `folders`."""
    feature = data.features[column]
    rows = data.select_columns([column])
    if _kind(feature) != "text":
        rows = rows.cast_column(column, type(feature)(decode=False))

    def read(i: int) -> Content:
        with explain_errors("its row cannot be read"):
            value = rows[i][column]
        if isinstance(value, str):
            return value.encode("utf-8", "replace")
        if value is None:
            raise UserError("it is empty")
        content: bytes | None = value["bytes"]
        return own_files.read_row_file(value["path"], folders) if content is None else content

    return read
