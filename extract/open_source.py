"""Opening sources of images, sounds and texts: lists of samples that are read in any order."""

import csv
import io
import json
import os
import stat
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from embedbench import plugins
from embedbench.array_types import Bytes, Ints
from embedbench.errors import UserError, short, unknown
from embedbench.files.formats.mnist_idx import is_idx
from embedbench.files.sample_metadata import SPLITS, TEST, TRAIN, VAL
from embedbench.storage.regular_files import check_regular, read_text, unreadable

from .extract_plugins import absolute_outside, is_outside, outside_source
from .folders_and_zips import (
    IMAGE_SUFFIXES,
    SOUND_SUFFIXES,
    TEXT_SUFFIXES,
    Archive,
    Folder,
    media_suffix,
)
from .source import Source, escape_name, id_problem, read_sample, unusable

SPLIT_FOLDERS = {"train": TRAIN, "val": VAL, "valid": VAL, "validation": VAL, "test": TEST}
TIMM_PREFIXES = ("torch/", "hfds/", "hfids/", "tfds/", "wds/")


def open_source(source: str, *, skip_bad: bool = False) -> Source:
    """Return the source for a word, a path or the name of a timm data set.

    It is `demo`; a folder or zip of class folders, of images, sounds or texts; a table of texts,
    see `text_table`; a CUB-200-2011 folder; a folder of MNIST IDX files; or a name that timm's
    `create_dataset` reads, such as `torch/cifar100`, followed by `@ROOT` if the data are in a
    folder ROOT; or a source of other people, an entry point or `package.module:function`, followed
    by `@TEXT` for it. With `skip_bad`, files that cannot be samples are left out, and are in
    `refused`.
    """
    opened = _demo() if source == "demo" else _open(source)
    if opened.refused and not skip_bad:
        name, problem = opened.refused[0]
        raise unusable(name, opened.name, problem)
    if not opened.ids:
        raise UserError(f"{source} holds no samples that can be used.")
    return opened


def absolute(source: str) -> str:
    """Return a source as a process in another directory names it.

    >>> absolute("demo"), absolute("torch/cifar100@/data")
    ('demo', 'torch/cifar100@/data')
    """
    if source == "demo":
        return source
    name, at, root = source.partition("@")
    if source.startswith(TIMM_PREFIXES):
        return name + at + (os.path.abspath(root) if root else "")
    if is_outside(source):
        return absolute_outside(source)
    return os.path.abspath(Path(source).expanduser())


def _open(source: str) -> Source:
    if source.startswith(TIMM_PREFIXES):
        from .timm_datasets import timm_source

        return timm_source(source)
    if is_outside(source):
        return outside_source(source)
    try:
        path = Path(source).expanduser()
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, RuntimeError, ValueError) as error:
        # also ~ of an unknown user, and a zero byte
        raise UserError(
            f"there is no file or folder {source!r}; a source is a folder or zip of images, "
            "'demo', a data set that timm reads (names beginning with "
            f"{', '.join(TIMM_PREFIXES)}), or a source of a package{_offered()}."
        ) from error
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return _directory(path)
        check_regular(mode)
        is_zip = zipfile.is_zipfile(path)
    except OSError as error:
        raise unreadable(source, error, "give a folder or a zip archive of images") from error
    if is_zip:
        return _zip(path)
    if path.suffix.lower() in TEXT_TABLES:
        return text_table(path, SPLIT_FOLDERS)
    raise UserError(f"{source} is neither a folder nor a zip archive of images; give one.")


def _offered() -> str:
    """The names of sources of installed packages, for an error message."""
    names = ", ".join(sorted(plugins.entry_points_by_name("sources")))
    return f" ({names}, or package.module:function)" if names else " (package.module:function)"


def _directory(path: Path) -> Source:
    if is_cub(path):
        return cub_source(path)
    if is_idx(path):
        from .timm_datasets import idx_source

        return idx_source(path)
    return _folder(path)


def _demo() -> Source:
    path = files("embedbench") / "assets" / "emoji-noto.zip"
    return replace(
        _zip(Path(str(path))),
        name="emoji-noto",
        revision="emoji-datasource-google 16.0.0",
        licence="Apache-2.0",
    )


def _folder(root: Path) -> Source:
    folder = Folder(str(root))
    if not folder.paths and not folder.refused:
        texts = Folder(str(root), TEXT_SUFFIXES)
        folder = texts if any("/" in path for path in texts.paths) else folder
    ids, holds = _of_one_kind(folder.paths, folder.refused, str(root))
    labels, classes, parents, split = hierarchy(ids, str(root))
    links = sorted(escape_name(link) for link in folder.not_followed)
    return Source(
        name=escape_name(root.resolve().name),
        ids=tuple(ids),
        labels=labels,
        classes=classes,
        parents=parents,
        read=lambda i: read_sample(f"{root}/{ids[i]}"),
        split=split,
        holds=holds,
        refused=tuple(sorted(folder.refused)),
        remark=f"left out {len(links)} links to nothing, or to folders that are read under another "
        f"path, first {links[0]}."
        if links
        else "",
    )


def _zip(path: Path) -> Source:
    archive = Archive(path)
    if not archive.members and not archive.refused:
        archive = Archive(path, TEXT_SUFFIXES)
    members, holds = _of_one_kind(list(archive.members), archive.refused, str(path))
    prefix = _common_folder(members)
    ids = [name[len(prefix) :] for name in members]
    labels, classes, parents, split = hierarchy(ids, str(path))
    return Source(
        name=escape_name(path.stem),
        ids=tuple(ids),
        labels=labels,
        classes=classes,
        parents=parents,
        read=lambda i: archive.read(archive.members[members[i]]),
        split=split,
        holds=holds,
        refused=tuple(sorted(archive.refused)),
    )


def _of_one_kind(
    paths: list[str], refused: Sequence[tuple[str, str]], where: str
) -> tuple[list[str], str]:
    """Return the sorted paths of samples, and what they are: all texts, or images, or sounds."""
    paths = sorted(paths)
    if paths and media_suffix(paths[0], TEXT_SUFFIXES):
        return paths, "texts"
    sounds = [path for path in paths if media_suffix(path) in SOUND_SUFFIXES]
    if sounds and len(sounds) < len(paths):
        images = [path for path in paths if media_suffix(path) in IMAGE_SUFFIXES]
        raise UserError(
            f"{where} holds {len(images)} images (first {images[0]}) and {len(sounds)} sounds "
            f"(first {sounds[0]}); keep them in two folders, and extract each by itself."
        )
    if not paths and not refused:
        raise UserError(
            f"no image in {where}, no sound, no .txt file; expected class folders of one kind."
        )
    if sounds:
        from .sound_files import check_readable

        check_readable(sounds)
    return paths, "sounds" if sounds else "images"


def _common_folder(members: Sequence[str]) -> str:
    """Return "name/" if one folder holds all class folders, else ""."""
    tops = {member.split("/", 1)[0] for member in members}
    wrapped = len(tops) == 1 and all(member.count("/") >= 2 for member in members)
    return f"{tops.pop()}/" if wrapped else ""


def hierarchy(ids: Sequence[str], where: str) -> tuple[Ints, tuple[str, ...], Ints, Bytes | None]:
    """Return labels (N,), classes (C,), parents (C,) and the official split of paths.

    The folder of a file is its class; the folders above are the ancestors of the class. If every
    top folder is called train, val or test, these are the split and not classes.
    """
    folders = [tuple(name.split("/")[:-1]) for name in ids]
    tops = {parts[0] for parts in folders if parts}
    split = None
    if len(tops) > 1 and all(parts and parts[0] in SPLIT_FOLDERS for parts in folders):
        split = np.array([SPLIT_FOLDERS[parts[0]] for parts in folders], np.uint8)
        if TEST not in split:
            split[split == VAL] = TEST  # ImageNet's validation images are used as its test images
        folders = [parts[1:] for parts in folders]
    for name, parts in zip(ids, folders, strict=True):
        if not parts:
            raise UserError(f"{name} in {where} lies in no class folder; move it into one.")
    leaves = sorted(set(folders))
    inner = sorted({leaf[:depth] for leaf in leaves for depth in range(1, len(leaf))})
    both = set(leaves) & set(inner)
    if both:
        raise UserError(
            f"{'/'.join(min(both))} in {where} holds files and class folders; "
            "put its files into a folder of their own."
        )
    order = leaves + inner
    index = {folder: i for i, folder in enumerate(order)}
    labels = np.array([index[folder] for folder in folders], np.int64)
    parents = np.array([index.get(folder[:-1], -1) for folder in order], np.int64)
    return labels, tuple(_names(leaves) + _names(inner)), parents, split


def _names(folders: Sequence[tuple[str, ...]]) -> list[str]:
    """Return each folder's name; its whole path if the name is not unique."""
    times = Counter(folder[-1] for folder in folders)
    return [folder[-1] if times[folder[-1]] == 1 else "/".join(folder) for folder in folders]


# --- CUB-200-2011 ---


def is_cub(root: Path) -> bool:
    """Whether a folder holds CUB-200-2011's lists."""
    return (root / "images.txt").is_file() and (root / "image_class_labels.txt").is_file()


def cub_source(root: Path) -> Source:
    """Return CUB-200-2011 as its lists say; see the README inside its archive."""
    paths = _table(root / "images.txt")
    numbers = _table(root / "image_class_labels.txt")
    training = _table(root / "train_test_split.txt")
    names = _table(root / "classes.txt")
    if not paths.keys() == numbers.keys() == training.keys():
        raise UserError(
            f"images.txt, image_class_labels.txt and train_test_split.txt in {root} "
            "list different images; restore the three files from the data set's archive."
        )
    if len(set(names.values())) < len(names) or any("\0" in name for name in names.values()):
        raise UserError(f"classes.txt in {root} has a name twice, or one with a zero byte.")
    index = {number: i for i, number in enumerate(names)}
    unknown = sorted(set(numbers.values()) - index.keys())
    if unknown:
        raise UserError(f"class {unknown[0]} of image_class_labels.txt is not in classes.txt.")
    times = Counter(paths.values())
    problems = {
        f"images/{path}": "it is listed more than once" if times[path] > 1 else _problem(path)
        for path in paths.values()
    }
    kept = [key for key, path in paths.items() if not problems[f"images/{path}"]]
    ids = tuple(f"images/{paths[key]}" for key in kept)
    return Source(
        name="CUB-200-2011",
        ids=ids,
        labels=np.array([index[numbers[key]] for key in kept], np.int64),
        classes=tuple(names.values()),
        parents=np.full(len(names), -1, np.int64),
        read=lambda i: read_sample(root / ids[i]),
        split=np.array([TRAIN if training[key] == "1" else TEST for key in kept], np.uint8),
        refused=tuple(
            (escape_name(name), problem) for name, problem in problems.items() if problem
        ),
    )


def _problem(path: str) -> str:
    """Return why an image of the list cannot be read; empty if it can."""
    if path.startswith("/") or ".." in path.split("/"):
        return "its path leads out of the folder"
    return id_problem(f"images/{path}")


def _table(path: Path) -> dict[str, str]:
    """Return the lines "key value" of a text file, in order."""
    if not path.is_file():
        raise UserError(f"{path} is missing; CUB-200-2011's layout has it beside images.txt.")
    rows: dict[str, str] = {}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if line.strip():
            key, _, value = line.strip().partition(" ")
            if not value or key in rows:
                raise UserError(f"{path}, line {number}: expected 'id value', each id once.")
            rows[key] = value
    return rows


# --- texts in one table: CSV, TSV or JSONL with the columns `text` and `label`, and maybe `id` and
# `split`; texts in class folders of .txt files are read as images are ---


TEXT_TABLES = frozenset((".csv", ".tsv", ".jsonl"))
_NEEDED, _READ = ("text", "label"), ("text", "label", "id", "split")


def text_table(path: Path, splits: dict[str, int]) -> Source:
    """Return the texts of a table as a source; `splits` says what a value of `split` means.

    The first line of a CSV or TSV file names its columns.
    """
    rows = list(_rows(path))
    if not rows:
        raise UserError(f"{path} has no rows; give a line for each text.")
    names = sorted({row["label"] for row in rows}, key=lambda n: (len(n) if n.isdigit() else 0, n))
    index = {name: i for i, name in enumerate(names)}
    split = None
    if "split" in rows[0]:
        for row in rows:
            if row["split"] not in splits:
                raise unknown("split", row["split"], splits)
        split = np.array([splits[row["split"]] for row in rows], np.uint8)
    ids = tuple(
        row.get("id") or (f"{i:06d}" if split is None else f"{SPLITS[split[i]]}/{i:06d}")
        for i, row in enumerate(rows)
    )
    for name in ids:
        if problem := id_problem(name):
            raise UserError(f"{path} has an id that cannot be one: {problem}.")
    texts = [row["text"].encode("utf-8", "replace") for row in rows]
    return Source(
        name=escape_name(path.stem),
        ids=ids,
        labels=np.array([index[row["label"]] for row in rows], np.int64),
        classes=tuple(names),
        parents=np.full(len(names), -1),
        read=lambda i: texts[i],
        split=split,
        holds="texts",
    )


def _rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield the values of each line that are read, as texts."""
    content = read_text(path, 2**30)
    lines = _json_lines(content) if path.suffix.lower() == ".jsonl" else _csv_lines(path, content)
    try:
        first: list[str] | None = None
        for number, line in enumerate(lines, 1):
            where = f"{path}, row {number}"
            if not isinstance(line, dict):
                raise UserError(f"{where} is no object; write one with text and label in a line.")
            row = {key: line[key] for key in _READ if key in line}
            first = first or list(row)
            missing = [key for key in {*_NEEDED, *first} if _empty(row.get(key))]
            if missing:
                raise UserError(
                    f"{where} has no {min(missing)!r}; its columns are "
                    f"{short(', '.join(map(str, line)))}, and every row needs "
                    f"{' and '.join(_NEEDED)}."
                )
            yield {key: str(value) for key, value in row.items()}
    except (csv.Error, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}); write it again as UTF-8.") from error


def _empty(value: Any) -> bool:
    return isinstance(value, bool | dict | list) or value is None or str(value) == ""


def _json_lines(content: str) -> Iterator[Any]:
    return (json.loads(line) for line in content.splitlines() if line.strip())


def _csv_lines(path: Path, content: str) -> Iterator[Any]:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    before = csv.field_size_limit(2**24)  # of the whole process
    try:
        yield from csv.DictReader(
            io.StringIO(content, newline=""), delimiter=delimiter, strict=True
        )
    finally:
        csv.field_size_limit(before)
