"""Data sets of other people read their own files alone, and run no code.

A folder says in many places which files are its: in the YAML of its card, in the state that
`save_to_disk` writes, by links, and in rows. What names another file is refused before that is
opened: in YAML and states by its text, and once more as `datasets` has resolved it.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from embedbench.config.json_records import parse_json
from embedbench.errors import UserError, import_extra, short
from embedbench.storage.regular_files import read_text

from .source import read_bytes

CARDS = ("README.md", ".huggingface.yaml", "dataset_infos.json")
SAVED = ("dataset_dict.json", "state.json")  # what `save_to_disk` writes
# What reads a table or encoded samples. Others unpickle, or follow links and addresses within files
READERS = ("arrow", "audiofolder", "csv", "imagefolder", "json", "parquet", "text", "webdataset")
_CARD = re.compile(r"\A\s*^---\s*\n(.*?)^---\s*$", re.MULTILINE | re.DOTALL)
_REMEDY = "do not use it, or copy what you trust of it into a folder of its own"


def load_dataset(path: str, config: str | None, *, named: bool = False, **options: Any) -> Any:
    """Load a data set of the hub, or of a folder, as `datasets.load_dataset` does.

    Parameters
    ----------
    path : str
        A name on the hub, or a folder.
    config : str or None
        Its configuration.
    named : bool
        Whether `data_files` is what the user named, which may be a link.
    **options : object
        `data_files` of a folder, and further arguments of `datasets.load_dataset`.

    Raises
    ------
    UserError
        It names a file that is not its own, or needs a reader that runs code or follows links.
    """
    datasets = import_extra("datasets", "datasets", "hfds/")
    folder = Path(path)
    is_local = folder.is_dir()
    if is_local:
        _check_cards(folder)
    builder = datasets.load_dataset_builder(path, config, **options)
    module = type(builder).__module__.split(".")
    reader = module[2] if module[:2] == ["datasets", "packaged_modules"] else module[0]
    # what was prepared before is read from the cache, when the hub cannot be asked
    if reader not in READERS and (is_local or reader != "cache"):
        raise UserError(
            f"{path} needs the reader {short(reader)} of `datasets`, which is not used here",
            f"name files of {', '.join(READERS)}",
        )
    for names in (builder.config.data_files or {}).values():
        for name in names:
            if is_local and not named:
                check_inside(str(name), folder)
            elif is_local:
                _check_name(os.path.relpath(name, os.path.realpath(folder)), folder)
            elif not re.match(rf"hf://datasets/{re.escape(path)}[@/]", str(name)):
                raise _outside(str(name), path)
    try:
        builder.download_and_prepare()
    except datasets.exceptions.DatasetGenerationError as error:  # which says nothing of the reason
        raise error.__cause__ or error from None
    return builder.as_dataset()


def load_from_disk(folder: Path) -> Any:
    """Load what `save_to_disk` wrote, see `load_dataset`."""
    datasets = import_extra("datasets", "datasets", "hfds/")
    parts = [folder]
    if (folder / SAVED[0]).is_file():
        stated = _read_json(folder / SAVED[0], folder)
        names = stated.get("splits") if isinstance(stated, dict) else None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise UserError(f"{folder / SAVED[0]} must have a list of splits", "save it again")
        for name in names:
            _check_name(name, folder)
        parts = [folder / name for name in names]
    for part in parts:
        _read_json(part / "dataset_info.json", folder)
        for name in _file_names(_read_json(part / SAVED[1], folder)):
            _check_name(name, folder)
            check_inside(str(part / name), folder)
    return datasets.load_from_disk(str(folder))


def row_folders(name: str, folder: Path | None) -> list[Path]:
    """The folders in which files may lie that a row names by a path.

    They are the data set's own, or the hub's copy of it, and where archives are unpacked.
    """
    import datasets
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.file_download import repo_folder_name

    if folder is None:
        folder = Path(HF_HUB_CACHE) / repo_folder_name(repo_id=name, repo_type="dataset")
    return [folder, Path(datasets.config.HF_DATASETS_CACHE) / "downloads"]


def read_row_file(path: str | None, folders: Sequence[Path]) -> bytes:
    """Return the bytes of a file that a row names; one outside of the folders is a UserError."""
    if not path:
        raise UserError("it is empty")
    if "\0" in path or not any(_is_below(Path(path), folder) for folder in folders):
        raise _outside(path, "")
    return read_bytes(os.path.realpath(path))


# --- what a card and a state say ---


def _check_cards(folder: Path) -> None:
    """Refuse cards whose YAML names files elsewhere; `datasets` would ask the network for some."""
    import yaml

    for name in CARDS:
        path = folder / name
        if not path.is_file():
            continue
        check_inside(str(path), folder)
        if name.endswith(".json"):  # of earlier versions: types of columns alone
            continue
        text = read_text(path)
        if name.endswith(".md"):
            head = _CARD.match(text)
            text = head[1] if head else ""
        try:
            said = yaml.safe_load(text)
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            reason = str(error).partition("\n")[0][:200]
            raise UserError(f"{path} has no YAML that can be read ({reason})", "mend it") from None
        configs = said.get("configs") if isinstance(said, dict) else None
        for text in _texts(configs, 0):
            _check_name(text, folder)


def _texts(value: Any, depth: int) -> Iterator[str]:
    """Yield all texts in YAML, keys too: patterns of files, names of parts and configurations."""
    if depth > 20:
        raise UserError("a card with lists of files more than 20 levels deep", _REMEDY)
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(key, depth + 1)
            yield from _texts(inner, depth + 1)
    elif isinstance(value, list | tuple | set):
        for inner in value:
            yield from _texts(inner, depth + 1)


def _read_json(path: Path, folder: Path) -> Any:
    check_inside(str(path), folder)
    return parse_json(read_text(path), str(path))


def _file_names(state: Any) -> Iterator[str]:
    """Yield the names of files in the state of a saved data set."""
    lists = state.values() if isinstance(state, dict) else ()
    for entries in lists:
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and "filename" in entry:
                yield str(entry["filename"])


def _check_name(name: str, folder: Path) -> None:
    """Refuse a name, or a pattern, that leads out of the folder or to an address."""
    parts = re.split(r"[/\\]", name)
    leads_out = (
        parts[0] in ("", "~") or parts[0].startswith("~") or re.fullmatch("[A-Za-z]:", parts[0])
    )
    if name and (leads_out or ".." in parts or "://" in name or "::" in name or "\0" in name):
        raise _outside(name, str(folder))


# --- what it is, once it is resolved ---


def check_inside(name: str, folder: Path) -> None:
    """Refuse a file that does not lie in the folder, links followed."""
    if "://" in name or "::" in name or not _is_below(Path(name), _home(folder)):
        raise _outside(name, str(folder))


def _is_below(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def _home(folder: Path) -> Path:
    """The folder that holds all files of a data set: of a snapshot in the hub's cache, the copy.

    The files of a snapshot are links to `blobs` beside `snapshots`.
    """
    real = Path(os.path.realpath(folder))
    for above in real.parents:
        if above.name == "snapshots" and above.parent.name.startswith("datasets--"):
            return above.parent
    return real


def _outside(name: str, where: str) -> UserError:
    whose = f"the data set {where}" if where else "the data set"
    return UserError(f"{whose} names a file outside of itself, {short(name)}", _REMEDY)
