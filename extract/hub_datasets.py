"""Data sets of Hugging Face's hub, or of its forms in a folder, by the package `datasets`.

Reading runs no code of a data set, and reads no file outside of it, see `own_files`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from embedbench.errors import UserError, unknown
from embedbench.files.hdf5_layout import COLUMNS
from embedbench.files.known_names import PART_WORDS, find_keys, split_role, split_roles
from embedbench.storage.regular_files import explain_errors

from . import own_files
from .data_set_parts import Part, cut_part, find_path, join_parts, name_labels, parse_address
from .local_data_sets import LocalData, load_by_datasets, load_local
from .source import Content, Source
from .text_tables import TextTable, as_number, encode_text

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
READABLE = (  # what is read of this machine
    "expected Parquet, CSV, TSV or JSON, class folders of images or sounds, or what save_to_disk "
    "wrote"
)
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
    name, options, revision = parse_address(source, path_first=True)
    query = "&".join(f"{key}={value}" for key, value in options.items())
    address = f"hfds/{name}{'?' if query else ''}{query}"
    for key in options:
        if key not in (known := (*_FITS, "config", "split")):
            raise unknown(f"option of {address}:", key, known)
    loaded, local = _load(name, options.get("config"), revision)
    splits = {part: _as_table(data, name, local, address) for part, data in loaded.parts.items()}
    roles = _choose_splits(splits, options.get("split", ""), address)
    first = splits[next(iter(roles))]
    taken = _choose_columns(first.kinds, options, address)
    (kind,) = _HOLDS.keys() & taken.keys()
    parts = []
    for part, role in roles.items():
        data = splits[part]
        values = {
            option: _values(data, column, option, address)
            for option, column in taken.items()
            if option != kind
        }
        read = data.reader(taken[kind])
        classes = first.class_names(taken["label"])
        label = values.pop("label")
        parts.append(Part(part, role, label, classes, read, values, data.place))
    said = dict(taken)
    if len(parts) == 1 and (column := _split_column(first, taken)):
        parts, said["split"] = cut_part(parts[0], first.values(column), address), column
    phrases = [", ".join(f"{option}={column}" for option, column in said.items())]
    left = [f"column {column}" for column in first.kinds if column not in said.values()]
    left += [f"split {part}" for part in splits if part not in roles]
    if left:
        phrases.append(f"left out: {', '.join(left)}")
    facts: dict[str, Any] = {}
    if isinstance(first, HubTable):
        facts = {"revision": first.revision(revision), "licence": first.licence}
        if first.kinds.get(taken.get("time", "")) == "time" and not first.has_zone(taken["time"]):
            phrases.append(f"{taken['time']} names no zone and is read as UTC")
    return join_parts(
        f"hfds/{local.name}{address[len(name) + 5 :]}" if local else address,
        parts,
        phrases,
        holds=_HOLDS[kind],
        left_out=loaded.left_out,
        **facts,
    )


# --- the data set and its parts ---


def _load(name: str, config: str | None, revision: str) -> tuple[LocalData, Path | None]:
    """Return the parts by name, and the path of a data set of this machine."""
    if not name:
        raise UserError("hfds/ names no data set", "write hfds/ORG/NAME, or hfds/./FOLDER")
    path = find_path(name)
    if path is not None:
        if revision:
            raise UserError(f"hfds/{name} is a path, which has no revision", f"drop @{revision}")
        with explain_errors(f"hfds/{name} cannot be opened", READABLE):
            return load_local(path, config), path.resolve() if path.name in ("", "..") else path
    if name.startswith((".", "/", "~")):
        raise UserError(f"there is no file or folder {name!r}", "name one that is there")
    expected = (
        "expected a name on the hub, with ?config=NAME where it has several, or a folder, "
        "hfds/./FOLDER; without a network, get the data set's files first and name their folder"
    )
    with explain_errors(f"hfds/{name} cannot be opened", expected):
        return LocalData(load_by_datasets(name, config, revision=revision or None)), None


def _choose_splits(splits: Mapping[str, Any], wanted: str, address: str) -> dict[str, int | None]:
    """Return what each part is that is taken."""
    roles: dict[str, int | None] = {}
    for item in filter(None, wanted.split(",")):
        part, _, role = item.partition(":")
        if part not in splits:
            raise unknown(f"split of {address}", part, splits)
        if role and split_role(role) is None:
            raise unknown("part", role, PART_WORDS)
        roles[part] = split_role(role or part)
    if not wanted:
        roles = {part: role for part, role in split_roles(splits).items() if role is not None}
        if not roles and len(splits) == 1:
            roles = dict.fromkeys(splits)
    if not roles or (len(roles) > 1 and None in roles.values()):
        raise UserError(
            f"{address} has the splits {', '.join(splits)[:300]}",
            "say which to take, and what each is: ?split=NAME:train,NAME:test",
        )
    return roles


class HubTable:
    """A part that `datasets` has read, with the methods of `TextTable`.

    Files that a row names by a path lie in `folders`; sentences call the data set `address`.
    """

    def __init__(self, data: Any, folders: Sequence[Path], address: str) -> None:
        self._data, self._folders, self._address = data, folders, address
        self.kinds = {name: _kind(feature) for name, feature in data.features.items()}
        self.licence = getattr(data.info, "license", "") or "not stated"

    def class_names(self, column: str) -> Sequence[str]:
        """Return the declared names of classes; none where values are names themselves."""
        return getattr(self._data.features[column], "names", ())

    def values(self, column: str) -> list[Any]:
        """Return the values of a column, names for numbers of classes; None for a missing one."""
        where = f"column {column!r} of {self._address}"
        with explain_errors(f"{where} cannot be read", "get it again"):
            values = self._data.select_columns([column])[:][column]
        if names := self.class_names(column):
            return name_labels(values, names, where)
        return list(values)

    def place(self, row: int) -> str:
        """Return where a row is, for people; as Python counts them."""
        return f"row {row}"

    def reader(self, column: str) -> Callable[[int], Content]:
        """Return what reads the encoded content of a row."""
        feature = self._data.features[column]
        rows = self._data.select_columns([column])
        if self.kinds[column] != "text":
            rows = rows.cast_column(column, type(feature)(decode=False))

        def read(i: int) -> Content:
            value = rows[i][column]
            if isinstance(value, str):
                return encode_text(value)
            if value is None:
                raise UserError("it is empty")
            content: bytes | None = value["bytes"]
            if content is not None:
                return content
            return own_files.read_row_file(value["path"], self._folders)

        return read

    def has_zone(self, column: str) -> bool:
        """Whether the times of a column say their zone."""
        return "tz=" in self._data.features[column].dtype

    def revision(self, asked: str) -> str:
        """Return what was read, see `_revision`."""
        return _revision(self._data.info, asked)


def _as_table(data: Any, name: str, path: Path | None, address: str) -> TextTable | HubTable:
    """Return a part as a table; CSV that `datasets` has read keeps its texts."""
    if isinstance(data, TextTable):
        return data
    if getattr(data.info, "builder_name", "") == "csv" and not _has_class_labels(data):
        return TextTable({name: list(data[name]) for name in data.features}, typed=False)
    return HubTable(data, own_files.row_folders(name, path), address)


def _has_class_labels(data: Any) -> bool:
    return any(hasattr(feature, "names") for feature in data.features.values())


def _revision(info: Any, revision: str) -> str:
    """Return the commit that was read, else the revision that was asked for, or a version."""
    for url in getattr(info, "download_checksums", None) or ():
        if commit := _COMMIT.search(url):
            return commit[1]
    return revision or str(getattr(info, "version", None) or "").replace("0.0.0", "")


def _split_column(data: "TextTable | HubTable", taken: Mapping[str, str]) -> str | None:
    """Return the column of a table that says the part of each row; None if there is none."""
    texts = [name for name, kind in data.kinds.items() if kind in ("text", "label")]
    free = [name for name in texts if name not in taken.values()]
    return next(iter(find_keys(("split",), free)), None)


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
    kinds: Mapping[str, str], options: Mapping[str, str], address: str
) -> dict[str, str]:
    """Return the column of each option, in the order of the options."""
    taken = {}
    for option in _FITS:
        if column := options.get(option):
            if kinds.get(column) not in _FITS[option]:
                raise UserError(
                    f"column {column!r} of {address} is not there, or cannot be the {option}",
                    f"name one of {_described(kinds)}",
                )
            taken[option] = column
    if len(_HOLDS.keys() & taken.keys()) > 1:
        raise UserError(f"{address} names two of image, audio and text; samples are of one kind")
    for option in COLUMNS:
        if option not in options and kinds.get(option) in _FITS[option]:
            taken[option] = option
    for group in (("label",), tuple(_HOLDS)):  # texts are what is no label
        if not taken.keys() & group:
            taken |= _guess(group, kinds, set(taken.values()), address)
    return {option: taken[option] for option in _FITS if option in taken}


def _guess(
    group: Sequence[str], kinds: Mapping[str, str], used: set[str], address: str
) -> dict[str, str]:
    """Return the first option of a group that a column fits, with the column.

    It has one of the usual names, or is the only one of its kind; for a label, of those with names
    for numbers.
    """
    free = {name: kind for name, kind in kinds.items() if name not in used}
    for option in group:
        fitting = [name for name in free if free[name] in _FITS[option]]
        usual = [name for name in _USUAL.get(option, ()) if name in fitting]
        alone = [name for name in fitting if free[name] == option]
        if usual or len(alone) == 1:
            return {option: (usual or alone)[0]}
        if fitting:
            break
    raise UserError(
        f"which column of {address} is the {' or '.join(group)}? Expected one that its type or "
        "name gives away",
        f"the columns are {_described(kinds)}. Say it: "
        f"'{address}{'&' if '?' in address else '?'}{group[0]}=COLUMN'.",
    )


def _described(kinds: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({kind or '?'})" for name, kind in kinds.items())[:300]


def _values(data: TextTable | HubTable, column: str, option: str, address: str) -> list[Any]:
    """Return the values of a column: names, or numbers for `time`; None for a missing label."""
    if column not in data.kinds:
        raise UserError(
            f"a part of {address} has no column {column!r}, which another part has",
            "name the parts to take, ?split=train, or the column",
        )
    values = data.values(column)
    if option == "time":
        values = [_seconds(value) for value in values]
    missing = [row for row, value in enumerate(values) if value is None or value == ""]
    if option != "label" and missing:
        behind = "&" if "?" in address else "?"
        raise UserError(
            f"column {column!r} of {address} has {len(missing)} rows without a value (first "
            f"{data.place(missing[0])})",
            f"fill them, or leave the column out: '{address}{behind}{option}='",
        )
    if option == "time":
        return values
    return [None if value is None else str(value) for value in values]


def _seconds(value: Any) -> float | None:
    """Return a time as seconds or as the number that it is.

    A time without a zone is read as UTC: the zone of the machine would change the numbers, and in
    the hour that a clock skips their order.
    """
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    return as_number(value)
