"""Who reads a source of `import`: by the suffix of a file, by what is in a folder."""

import itertools
import os
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.errors import UserError
from embedbench.text.undecoded_text import as_text

from .files_of_arrays import hold_one_array_each, join_files
from .formats import (
    arrow_files,
    foreign_hdf5,
    json_tables,
    matlab_files,
    number_tables,
    safetensors_and_torch,
)
from .formats.audioset import is_audioset, read_audioset
from .formats.feature_columns import join_feature_columns
from .formats.mnist_idx import is_idx, read_idx
from .formats.not_read_here import refuse_by_suffix
from .formats.number_tables import Column, NumberTable, read_number_table
from .formats.numpy_files import load_folder, load_npy, load_npz, npy_files
from .joined_sources import join_sources
from .known_names import KEYS, files_not_read, find_keys, without_common_words
from .label_files import names_file, take_labels
from .raw_pixels import pixels, pixels_recipe
from .source_arrays import Arrays, choose_arrays

SOURCES = (
    "give an npz, npy, mat, HDF5, CSV, TSV, JSON, JSON lines, Parquet, safetensors or .pt file, a "
    "directory of them of one kind, a data set that `datasets` saved, MNIST's IDX files, or "
    "AudioSet's folders of TFRecords"
)
Keys = Mapping[str, str | None]
_Reader = Callable[[Path], Mapping[str, Any]]
# Who reads a file, by its suffix, and a folder, by what is in it: each returns arrays by name.
_FILES: dict[str, _Reader] = {
    ".npz": load_npz,
    ".npy": load_npy,
    ".parquet": arrow_files.read_parquet,
    ".pq": arrow_files.read_parquet,
    ".safetensors": safetensors_and_torch.read_safetensors,
    ".pt": safetensors_and_torch.read_torch,
    ".pth": safetensors_and_torch.read_torch,
    ".mat": matlab_files.read_matlab,
    ".json": json_tables.read_json_table,
    **dict.fromkeys(json_tables.LINES, json_tables.read_json_table),
    **dict.fromkeys(number_tables.SUFFIXES, number_tables.read_number_table),
    **dict.fromkeys(foreign_hdf5.SUFFIXES, foreign_hdf5.read_hdf5),
}
_FOLDERS: list[tuple[Callable[[Path], bool], _Reader]] = [
    (arrow_files.is_saved_data_set, arrow_files.read_saved_data_set),
    (lambda path: bool(arrow_files.parquet_files(path)), arrow_files.read_parquet),
    (lambda path: bool(npy_files(path)), load_folder),
]
# What papers on two domains call the features and labels of each, in one file.
_DOMAINS = {"source": ("Xs", "Ys"), "target": ("Xt", "Yt")}
_MEDIA = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".wav", ".flac", ".mp3", ".ogg", ".zip")
_MOST = 1000  # files of a folder that are looked at to say what it holds


class _Found(ChainMap[str, Any]):
    """Arrays by name, with more of them in front; what was said of them goes with them."""

    def __init__(self, more: dict[str, Any], found: Mapping[str, Any]) -> None:
        super().__init__(more, found)  # type: ignore[arg-type]
        self.not_read: list[str] = [*getattr(found, "not_read", ())]
        self.remarks: list[str] = [*getattr(found, "remarks", ())]
        self.origin: dict[str, str] = {}
        # a text says no type of its numbers, and may name its columns
        self.untyped = isinstance(found, NumberTable)
        self.joined = getattr(found, "joined", ())


def read_sources(paths: Sequence[Path], keys: Keys) -> Arrays:
    """Read features, labels and whatever else some sources have; several are joined.

    Parameters
    ----------
    keys : mapping
        The keys that the user named for `features`, `labels` and `groups`. Labels may be a file,
        and groups a rule for the ids instead.
    """
    if len(paths) == 1:
        files = _inside(paths[0])
        if files == [paths[0]]:
            return _read_source(paths[0], keys)
        source = read_sources(files, keys)
        return replace(source, left_out=[*source.left_out, *files_not_read(paths[0], files)])
    if hold_one_array_each(without_common_words([path.stem for path in paths])):
        tables = {path: _as_table(_read_arrays(path), keys) for path in paths}
        return _choose(join_files(tables), paths[0].parent, keys)
    sources = {path: _read_source(path, keys, alone=False) for path in paths}
    return join_sources(sources, as_text(paths[0].resolve().parent.name))


def _inside(folder: Path) -> Sequence[Path]:
    """The files of a folder that are read one by one and joined; else the folder or file itself."""
    if not folder.is_dir() or is_audioset(folder) or is_idx(folder):
        return [folder]
    if any(is_folder(folder) for is_folder, _ in _FOLDERS):
        return [folder]
    if _holds_media(folder):
        return [folder]
    files = [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]
    suffixes = _FILES.keys() - {".txt"}  # a README
    tables = [path for path in files if path.suffix.lower() in suffixes]
    if len({path.suffix.lower() for path in tables}) == 1:
        return tables
    return [folder]


def _read_source(src: Path, keys: Keys, *, alone: bool = True) -> Arrays:
    """Read one source: a folder with its own layout, two domains in one file, or named arrays.

    One that is not alone takes labels of a file by id only.
    """
    if src.is_dir() and (is_audioset(src) or is_idx(src)):
        return _read_own_layout(src, keys)
    found = _read_arrays(src)
    has_domains = {*_DOMAINS["source"], *_DOMAINS["target"]} <= found.keys()
    if has_domains and not any(keys.values()):
        return _read_domains(found, src, keys)
    return _choose(found, src, keys, alone=alone)


def _read_own_layout(src: Path, keys: Keys) -> Arrays:
    """A folder of AudioSet's records or of IDX files (MNIST), in which no key can be named."""
    if named := [name for name in keys.values() if name is not None]:
        raise UserError(f"{src} has its own layout and no key {named[0]!r}", "do not name it")
    if is_audioset(src):
        return Arrays(*read_audioset(src))
    samples, images = read_idx(src)
    source = {"name": as_text(src.resolve().name), "revision": "", "licence": ""}
    return Arrays(samples, pixels(images), {**pixels_recipe(), "source": source})


def _read_domains(found: Mapping[str, Any], src: Path, keys: Keys) -> Arrays:
    """The two domains of a file of domain adaptation, as two files would be joined."""
    pairs = {
        Path(domain): _choose({key: found[key] for key in pair}, src, keys)
        for domain, pair in _DOMAINS.items()
    }
    others = [key for key in found if not any(key in pair for pair in _DOMAINS.values())]
    joined = join_sources(pairs, as_text(src.stem))
    left_out = [*others, *getattr(found, "not_read", ())]
    return replace(joined, left_out=[*joined.left_out, *left_out])


def _read_arrays(src: Path) -> Mapping[str, Any]:
    """Return the arrays of a file or folder by name."""
    if not os.path.exists(src):
        raise UserError(f"there is no file or folder {str(src)!r}", "correct the path")
    readers = [_FILES.get(src.suffix.lower())] if src.is_file() else []
    if src.is_dir():
        readers = [read for is_folder, read in _FOLDERS if is_folder(src)]
    if readers and readers[0] is not None:
        return readers[0](src)
    if src.is_file():
        refuse_by_suffix(src)
    raise UserError(f"{src} is nothing that import reads", _find_way(src))


def _choose(found: Mapping[str, Any], src: Path, keys: Keys, *, alone: bool = True) -> Arrays:
    """Return what some arrays are, with the labels of a file where it is named."""
    more: dict[str, Any] = {}
    origin: dict[str, str] = {}
    remarks: list[str] = []
    left_out: list[str] = []
    asked = dict(keys)
    file = names_file(keys["labels"], list(found))
    if file is not None:
        asked["labels"] = str(file)
        listed = take_labels(
            _read_arrays(file), file, found, src, in_order=alone, group=keys["groups"]
        )
        more = {str(file): listed.labels, **listed.columns}
        remarks.append(listed.said)
        left_out += listed.left_out
    found = _as_table(found, asked)
    if isinstance(found, NumberTable):
        found = _with_names(found, asked["groups"])
        origin = join_feature_columns(found, asked, _plain_labels(more.get(str(file))))
        if "features" in origin:
            asked["features"] = "features" if asked["features"] is not None else None
    joined = _Found(more, found)
    joined.origin = origin
    joined.remarks += remarks
    joined.not_read += left_out
    return choose_arrays(joined, src, asked)


def _plain_labels(labels: Any) -> Any:
    """Labels (N,) of a file, of categories their names; None if there is none."""
    if isinstance(labels, arrow_files.NamedLabels):
        return labels.names[labels.values]
    return labels


def _with_names(table: NumberTable, group: str | None) -> NumberTable:
    """The table, in which groups that are numbers with a point are texts as they are written."""
    if (
        group is None
        or group not in table
        or table.path.suffix.lower() not in number_tables.SUFFIXES
    ):
        return table
    values = table.columns[group].values
    if values is None or values.dtype.kind != "f":
        return table
    return read_number_table(table.path, unnamed=not table.named, as_texts=[group])


def _as_table(found: Mapping[str, Any], asked: Keys) -> Mapping[str, Any]:
    """Return a Parquet file whose columns are values as a table; others as they are."""
    if not isinstance(found, arrow_files.Columns) or not _is_wide(found, asked):
        return found
    return NumberTable(found.first, {name: _wide_column(found, name) for name in found})


def _is_wide(found: arrow_files.Columns, asked: Keys) -> bool:
    """Whether each column of a Parquet file holds one number or text: none is features alone."""
    if asked["features"] in found.names:
        return False
    lists = any(arrow_files.holds_vectors(field.type) for field in found.schema)
    return not lists and not find_keys(KEYS["features"], found.names)


def _wide_column(found: arrow_files.Columns, name: str) -> Column:
    """A column of a Parquet file; one that cannot be read is refused where it is taken."""
    try:
        return Column(found[name])
    except UserError as error:
        kind = found.schema.field(name).type
        if not arrow_files.holds_values(kind):
            return Column(None, why=str(kind))
        dtype = float if arrow_files.is_number(kind) else np.str_
        return Column(np.zeros(sum(found.rows), dtype), wrong=error)


def _holds_media(src: Path) -> bool:
    inside = src.rglob("*") if src.is_dir() else iter([src])
    return any(path.suffix.lower() in _MEDIA for path in itertools.islice(inside, _MOST))


def _find_way(src: Path) -> str:
    """Return what to do with a source that is not read here."""
    if _holds_media(src):
        return "images and sounds go in by `extract`, where a --backbone makes features of them"
    return SOURCES
