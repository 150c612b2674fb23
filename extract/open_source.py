"""Opening sources of images, sounds and texts: lists of samples that are read in any order."""

import zipfile
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
from PIL import Image

from embedbench.errors import UserError
from embedbench.files.formats.mnist_idx import is_idx, read_idx
from embedbench.files.known_names import split_role
from embedbench.files.sample_metadata import TEST, TRAIN
from embedbench.storage.regular_files import (
    check_regular,
    explain_errors,
    read_text,
)
from embedbench.text.undecoded_text import as_text

from .data_set_parts import find_path
from .extract_plugins import is_outside, outside_source
from .folder_classes import read_folders
from .media_files import Archive, Folder
from .source import Source, escape_name, id_problem, read_bytes, unusable

TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")


def open_source(source: str, *, skip_bad: bool = False) -> Source:
    """Return the source for a word, a path or the name of a data set of a library.

    A path that is there goes before all else, whatever its letters. Else it is `demo`; or a data
    set that a library reads, see `torchvision_source` (`torch/`) and `hub_source` (`hfds/`); or a
    source of other people, an entry point or `package.module:function`, followed by `@TEXT` for it.
    A path is a folder or zip of class folders, of images or sounds; a CUB-200-2011 folder; a folder
    of MNIST IDX files; or a table, as of texts, which `hub_source` reads, too.
    With `skip_bad`, files that cannot be samples are left out, and are in `refused`.
    """
    opened = _open(source)
    if opened.refused and not skip_bad:
        name, problem = opened.refused[0]
        raise unusable(name, opened.name, problem)
    if not opened.ids:
        raise UserError(f"{source} holds no samples that can be used.")
    return opened


def is_demo(source: str) -> bool:
    """Whether the word for the shipped images is meant, and not a file or folder of that name."""
    return source == "demo" and find_path(source) is None


def _open(source: str) -> Source:
    """Return the source; a path that is there is meant before any other meaning of its letters."""
    path = find_path(source)
    if path is not None:
        return _open_path(path, source)
    if is_demo(source):
        return _demo()
    if source.startswith("torch/"):
        from .torchvision_datasets import torchvision_source

        return torchvision_source(source)
    if source.startswith("hfds/"):
        from .hub_datasets import hub_source

        return hub_source(source)
    if is_outside(source):
        return outside_source(source)
    raise UserError(
        f"there is no file or folder {source!r}",
        "a source is a folder or zip of images, a table of texts, 'demo', torch/NAME, hfds/NAME, "
        "or a source of a package (package.module:function)",
    )


def _open_path(path: Path, source: str) -> Source:
    """Return the source for a file or folder that is there, or a link to one."""
    with explain_errors(f"{source} cannot be read", "give a folder or a zip archive of images"):
        if path.is_dir():
            if is_cub(path):
                return cub_source(path)
            return _idx(path) if is_idx(path) else _class_folders(path)
        check_regular(path.stat().st_mode)
        is_zip = zipfile.is_zipfile(path)
    if is_zip:
        return _class_folders(path)
    if path.suffix.lower() in TABLES:
        from .hub_datasets import hub_source

        return hub_source(f"hfds/{source}")
    raise UserError(
        f"{source} is neither a folder nor a zip archive of images, nor a table of texts "
        f"({', '.join(TABLES)})",
        "give one",
    )


def _demo() -> Source:
    path = files("embedbench") / "assets" / "emoji-noto.zip"
    return replace(
        _class_folders(Path(str(path))),
        name="emoji-noto",
        revision="emoji-datasource-google 16.0.0",
        licence="Apache-2.0",
    )


def _idx(root: Path) -> Source:
    """Return MNIST as it is published: four IDX files, gzipped or not, in one folder."""
    samples, images = read_idx(root)
    return Source(
        name=as_text(root.resolve().name),
        ids=tuple(samples.ids.tolist()),
        labels=samples.labels,
        classes=samples.classes,
        parents=samples.parents,
        read=lambda i: Image.fromarray(images[i]),
        split=samples.split,
    )


def _class_folders(path: Path) -> Source:
    """Return the samples in class folders, maybe zipped: images or sounds."""
    zipped = not path.is_dir()
    where = str(path)
    found: Folder | Archive = Archive(path) if zipped else Folder(path)
    paths, holds = found.one_kind(where)
    above = _common_folder(paths) if zipped else ""
    fields = read_folders([inside.removeprefix(above) for inside in paths], where)
    ids = fields["ids"]
    more = fields.pop("left_out")
    if isinstance(found, Archive) and found.unmarked:
        line = f"{where}: names in no encoding that is known, such as {found.unmarked[0]}."
        fields["remark"] = " ".join(filter(None, (fields["remark"], line)))
    return Source(
        name=escape_name(path.stem if zipped else path.resolve().name),
        read=lambda i: found.read(above + ids[i]),
        holds=holds,
        refused=tuple(sorted(found.refused)),
        left_out=(*more, *found.left_out(holds)),
        **fields,
    )


def _common_folder(members: Sequence[str]) -> str:
    """Return "name/" if one folder holds all class folders, else ""."""
    tops = {member.split("/", 1)[0] for member in members}
    wrapped = len(tops) == 1 and all(member.count("/") >= 2 for member in members)
    if split_role(min(tops, default="")) not in (None, TRAIN):  # a test part alone is a split
        return ""
    return f"{tops.pop()}/" if wrapped else ""


# --- CUB-200-2011 as it is published ---


def is_cub(root: Path) -> bool:
    """Whether a folder holds CUB-200-2011's lists."""
    return (root / "images.txt").is_file() and (root / "image_class_labels.txt").is_file()


def cub_source(root: Path) -> Source:
    """Return CUB-200-2011 as its lists say; see the README inside its archive."""
    paths = _table(root / "images.txt")
    numbers = _table(root / "image_class_labels.txt")
    training = _table(root / "train_test_split.txt")
    names = _table(root / "classes.txt")
    index = {number: i for i, number in enumerate(names)}
    listed = paths.keys() == numbers.keys() == training.keys()
    if not listed or len({*paths.values()}) < len(paths) or {*numbers.values()} - names.keys():
        raise UserError(
            f"images.txt, image_class_labels.txt, train_test_split.txt and classes.txt in {root} "
            "do not fit each other, or list an image twice",
            "restore the four files from the data set's archive",
        )
    kept = []
    refused = []
    for key, path in paths.items():
        problem = _cub_problem(path)
        if problem:
            refused.append((escape_name(f"images/{path}"), problem))
        else:
            kept.append(key)
    ids = tuple(f"images/{paths[key]}" for key in kept)
    return Source(
        name="CUB-200-2011",
        ids=ids,
        labels=np.array([index[numbers[key]] for key in kept], np.int64),
        classes=tuple(names.values()),
        parents=np.full(len(names), -1, np.int64),
        read=lambda i: read_bytes(root / ids[i]),
        split=np.array([TRAIN if training[key] == "1" else TEST for key in kept], np.uint8),
        refused=tuple(refused),
    )


def _cub_problem(path: str) -> str:
    """Return why an image of the list cannot be read; empty if it can."""
    if path.startswith("/") or ".." in path.split("/"):
        return "its path leads out of the folder"
    return id_problem(f"images/{path}")


def _table(path: Path) -> dict[str, str]:
    """Return the lines "key value" of a text file, in order."""
    if not path.is_file():
        raise UserError(f"{path} is missing; CUB-200-2011's layout has it beside images.txt")
    pairs = [line.split(maxsplit=1) for line in read_text(path).splitlines() if line.strip()]
    rows = {key: "".join(value).rstrip() for key, *value in pairs}
    if len(rows) < len(pairs) or not all(rows.values()):
        raise UserError(f"{path}: expected lines 'id value', each id once.")
    return rows
