"""Data sets in a folder or file of this machine: their files, and the parts that these are."""

import glob
import itertools
import logging
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedbench.errors import UserError, import_extra, list_first
from embedbench.files.formats import arrow_files
from embedbench.files.known_names import PART_WORDS, missing_shards, split_roles
from embedbench.files.sample_metadata import TEST, TRAIN, VAL
from embedbench.storage import user_cache, value_digest
from embedbench.storage.regular_files import read_text

from . import own_files
from .media_files import KIND_OF_SUFFIX, is_hidden
from .source import escape_name
from .text_tables import SUFFIXES, read_text_tables

_PART_NAMES = {TRAIN: "train", VAL: "validation", TEST: "test"}  # as `datasets` calls them
_OTHERS = (*KIND_OF_SUFFIX, ".parquet", ".arrow")  # what `datasets` reads
_SHARDED = (*SUFFIXES, ".parquet", ".arrow", ".tar")  # what is cut into numbered files
_GAPS = re.compile(r"[-._ 0-9]+")  # as `datasets` parts the words of a name
NAMED = 3  # files that a phrase names


@dataclass(frozen=True)
class LocalData:
    """The parts of a data set by name: each a `TextTable`, or a `Dataset` of `datasets`."""

    parts: Mapping[str, Any]
    left_out: tuple[str, ...] = ()


def load_local(path: Path, config: str | None) -> LocalData:
    """Return the parts of a data set of this machine.

    Text tables are read as they are written, see `text_tables`, all else by `datasets`. In a folder
    whose card says nothing of its files, those whose name or folder is that of a part are that
    part; others beside them are left out.
    """
    where = Path(os.path.abspath(path))  # `datasets` would take a relative `csv` for its own word
    if not where.is_dir():
        if where.suffix.lower() in SUFFIXES:
            return LocalData({"train": read_text_tables([path])})
        alone = {"train": [_escape(where)]}
        return LocalData(load_by_datasets(str(where.parent), config, alone, place=where))
    if any((where / name).is_file() for name in own_files.SAVED):
        return LocalData(_by_part(own_files.load_from_disk(where)))
    files = _list_files(where)
    lost = missing_shards(name for name in files if Path(name).suffix.lower() in _SHARDED)
    if config or _card_says(where):
        _check_no_pattern(where)
        return LocalData(load_by_datasets(str(where), config, place=where), tuple(lost))
    if tables := _of_one_suffix(files):
        parts = _parts(tables)
        named = list(itertools.chain(*parts.values()))
        for name in named:
            own_files.check_inside(str(where / name), where)
        read = {
            part: read_text_tables([path / name for name in sorted(names)])
            for part, names in parts.items()
        }
        left = sorted({*files}.difference(named))
        return LocalData(read, (*_phrase(left, parts), *lost))
    others = [name for name in files if Path(name).suffix.lower() in _OTHERS]
    media = any(Path(name).suffix.lower() in KIND_OF_SUFFIX for name in others)
    parts = _parts(others, by_name=not media)  # a picture may be called train_1.png
    named = list(itertools.chain(*parts.values()))
    _check_class_names(where, named)
    patterns = _patterns(where, parts)
    data = load_by_datasets(str(where), config, patterns, place=where)
    left = sorted({*others}.difference(named))
    return LocalData(data, (*_phrase(left, parts), *lost))


def _check_class_names(where: Path, files: Sequence[str]) -> None:
    """Refuse Parquet files with other classes: `datasets` takes the names of the first for all."""
    shards = [name for name in files if name.lower().endswith(".parquet")]
    if len(shards) < 2:
        return
    for name in shards:
        own_files.check_inside(str(where / name), where)
    schemas = arrow_files.read_schemas([where / name for name in shards])
    if schemas:
        arrow_files.check_class_names(schemas)


def load_by_datasets(
    name: str,
    config: str | None,
    data_files: Mapping[str, Sequence[str]] | None = None,
    revision: str | None = None,
    *,
    place: Path | None = None,
) -> dict[str, Any]:
    """Return the parts that `datasets` reads, of the hub or of a file or folder, `place`.

    The columns of CSV stay texts: `datasets` takes words such as None for missing values and digits
    for numbers, unless it is told that a column holds texts and that only an empty cell is missing.
    """
    datasets = import_extra("datasets", "datasets", "hfds/")
    datasets.logging.set_verbosity(logging.CRITICAL)  # what fails is one sentence, and that is ours
    options: dict[str, Any] = {"data_files": data_files, "revision": revision}
    if place is not None:
        # `datasets` knows what it has read before by path and date alone; the description of its
        # configuration is one more part of that key
        options["description"] = value_digest.digest(*user_cache.identities(place).items())
        options["named"] = place.is_file()
    data = _by_part(own_files.load_dataset(name, config, **options))
    first = next(iter(data.values()))
    if getattr(first.info, "builder_name", "") != "csv":
        return data
    features = {
        column: feature if hasattr(feature, "names") else datasets.Value("string")
        for column, feature in first.features.items()
    }
    options |= {"features": datasets.Features(features), "keep_default_na": False}
    return _by_part(own_files.load_dataset(name, config, **options, na_values=[""]))


def _by_part(data: Any) -> dict[str, Any]:
    return dict(data) if isinstance(data, dict) else {str(data.split or "all"): data}


# --- files, and the parts that they are ---


def _list_files(folder: Path) -> list[str]:
    """Return the POSIX paths of the files below a folder, sorted, without cards and hidden ones."""
    names = []
    for here, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not is_hidden(name)]
        inside = os.path.relpath(here, folder)
        before = "" if inside == "." else f"{inside}/"
        shown = [name for name in files if not is_hidden(name) and name not in own_files.CARDS]
        names += [before + name for name in shown]
    return sorted(names)


def _of_one_suffix(files: Sequence[str]) -> list[str]:
    """Return the text tables of the most common suffix; none beside images, sounds or Parquet."""
    suffixes = [Path(name).suffix.lower() for name in files]
    if any(suffix in _OTHERS for suffix in suffixes):
        return []
    times = Counter(suffix for suffix in suffixes if suffix in SUFFIXES)
    if not times:
        return []
    chosen = max(times, key=lambda suffix: (times[suffix], -SUFFIXES.index(suffix)))
    return [name for name in files if name.lower().endswith(chosen)]


def _parts(files: Sequence[str], *, by_name: bool = True) -> dict[str, dict[str, str]]:
    """Return by part, in order, its files, each with its path or that of a folder that says so.

    Folders say it first, the outermost before the others; else, `by_name`, the names of files.
    Without any part, all files are `train`.

    >>> _parts(["Test-00000-of-00001.parquet", "Train/cat/1.parquet", "more.parquet"])
    {'train': {'Train/cat/1.parquet': 'Train'}, \
'test': {'Test-00000-of-00001.parquet': 'Test-00000-of-00001.parquet'}}
    """
    words: set[str] = set()
    for name in files:
        words.update(_stem(word) for word in name.split("/"))
    known = {word: _word_role(word) for word in words}
    known |= {word: role for word, role in split_roles(sorted(words)).items() if role is not None}
    parts: dict[str, dict[str, str]] = {}
    for name in files:
        *folders, last = name.split("/")
        telling = [*folders, _stem(last)] if by_name else folders
        for depth, word in enumerate(telling, 1):
            role = known[word]
            if role is not None:
                parts.setdefault(_PART_NAMES[role], {})[name] = "/".join(name.split("/")[:depth])
                break
    ordered = {part: parts[part] for part in _PART_NAMES.values() if part in parts}
    return ordered or {"train": {name: name for name in files}}


def _stem(name: str) -> str:
    """Return a file's name without its suffixes; a folder has none that count."""
    return name.partition(".")[0] or name


def _word_role(name: str) -> int | None:
    """Return the part whose word is in a name, as `datasets` looks for it; None: none or two."""
    roles = {PART_WORDS.get(word) for word in _GAPS.split(name.casefold())} - {None}
    return roles.pop() if len(roles) == 1 else None


def _patterns(folder: Path, parts: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]] | None:
    """Return patterns for the files of each part; None: `datasets` finds them by itself.

    It knows the words in small letters, and reads the folder's own path as a pattern.
    """
    telling: set[str] = set()  # the files and folders that say what is which part
    for paths in parts.values():
        telling.update(paths.values())
    stems = [_stem(os.path.basename(path)) for path in telling]
    usual = all(PART_WORDS.keys() & set(_GAPS.split(stem)) for stem in stems)
    none = parts.keys() == {"train"} and all(name == path for name, path in parts["train"].items())
    misleading = none and any(map(_word_role, stems))
    if (usual or none) and not misleading and not glob.has_magic(str(folder)):
        return None
    if none:
        return {"train": [f"{_escape(folder)}/**"]}
    patterns: dict[str, list[str]] = {}
    for part, paths in parts.items():
        patterns[part] = []
        for path in sorted({*paths.values()}):
            is_file = path in paths
            pattern = _escape(folder / path)
            patterns[part].append(pattern if is_file else f"{pattern}/**")
    return patterns


def _phrase(left: Sequence[str], parts: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the phrase on files that are no part."""
    if not left:
        return ()
    named = list_first([escape_name(name) for name in left], NAMED)
    return (f"files beside {' and '.join(parts)}: {named}",)


# --- patterns and cards ---


def _escape(path: Path) -> str:
    """Return a path as a pattern that means it alone."""
    return glob.escape(str(path))


def _card_says(folder: Path) -> bool:
    """Whether a card names files, or types of columns."""
    for name in own_files.CARDS:
        path = folder / name
        if not path.is_file():
            continue
        own_files.check_inside(str(path), folder)
        head = read_text(path)
        if re.search(r"^(configs|dataset_info)\s*:", head, re.MULTILINE):
            return True
    return False


def _check_no_pattern(folder: Path) -> None:
    if glob.has_magic(str(folder)):
        raise UserError(
            f"{folder} has a card that names its files by patterns, and *, ? or [ in its own path "
            "would be one of them",
            "rename the folder, or name a file in it",
        )
