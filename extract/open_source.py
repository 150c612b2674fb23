"""Opening sources of images, sounds and texts: lists of samples that are read in any order."""

import os
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from PIL import Image

from embedbench.errors import UserError
from embedbench.files.formats.mnist_idx import is_idx, read_idx
from embedbench.files.known_names import split_role, split_roles
from embedbench.files.sample_metadata import TEST, TRAIN
from embedbench.storage.regular_files import (
    check_regular,
    explain_errors,
    explain_os_error,
    read_text,
)
from embedbench.storage.safe_zips import member_problem, open_archive
from embedbench.text.undecoded_text import as_text

from .data_set_parts import official_split
from .extract_plugins import is_outside, outside_source
from .source import Source, escape_name, id_problem, read_sample, size_problem, unusable

TABLES = (".csv", ".tsv", ".jsonl", ".parquet")


def open_source(source: str, *, skip_bad: bool = False) -> Source:
    """Return the source for a word, a path or the name of a data set of a library.

    It is `demo`; a folder or zip of class folders, of images or sounds; a CUB-200-2011 folder; a
    folder of MNIST IDX files; a data set that a library reads, see `torchvision_source` (`torch/`)
    and `hub_source` (`hfds/`, and any table, as of texts); or a source of other people, an entry
    point or `package.module:function`, followed by `@TEXT` for it.
    With `skip_bad`, files that cannot be samples are left out, and are in `refused`.
    """
    opened = _demo() if source == "demo" else _open(source)
    if opened.refused and not skip_bad:
        name, problem = opened.refused[0]
        raise unusable(name, opened.name, problem)
    if not opened.ids:
        raise UserError(f"{source} holds no samples that can be used.")
    return opened


def _open(source: str) -> Source:
    if source.startswith("torch/"):
        from .torchvision_datasets import torchvision_source

        return torchvision_source(source)
    if source.startswith("hfds/"):
        from .hub_datasets import hub_source

        return hub_source(source)
    if is_outside(source):
        return outside_source(source)
    path = _existing(source)
    with explain_errors(f"{source} cannot be read", "give a folder or a zip archive of images"):
        if path.is_dir():
            read = cub_source if is_cub(path) else _idx if is_idx(path) else _class_folders
            return read(path)
        check_regular(path.stat().st_mode)
        is_zip = zipfile.is_zipfile(path)
    if is_zip:
        return _class_folders(path)
    if path.suffix.lower() in TABLES:
        from .hub_datasets import hub_source

        return hub_source(f"hfds/{source}")
    raise UserError(f"{source} is neither a folder nor a zip archive of images", "give one")


def _existing(name: str) -> Path:
    """Return the path of a file or folder that is there, or a link; `~` is a home directory."""
    path = Path(os.path.expanduser(name))  # as it is where there is no such user
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:  # also a zero byte
        raise UserError(
            f"there is no file or folder {name!r}",
            "a source is a folder or zip of images, 'demo', torch/NAME, hfds/NAME, or a source "
            "of a package (package.module:function)",
        ) from error
    return path


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
    kind, where = Folder if path.is_dir() else Archive, str(path)
    found = kind(path)
    paths, holds = _of_one_kind(found.paths, found.refused, where)
    above = _common_folder(paths) if kind is Archive else ""
    ids = [inside.removeprefix(above) for inside in paths]
    return Source(
        name=escape_name(path.stem if kind is Archive else path.resolve().name),
        ids=tuple(ids),
        read=lambda i: found.read(paths[i]),
        holds=holds,
        refused=tuple(sorted(found.refused)),
        **hierarchy(ids, where),
    )


def _of_one_kind(
    paths: list[str], refused: Sequence[tuple[str, str]], where: str
) -> tuple[list[str], str]:
    """Return the sorted paths of samples, and what they are: all images, or all sounds."""
    paths = sorted(paths)
    sounds, images = (
        [path for path in paths if media_suffix(path, known)]
        for known in (SOUND_SUFFIXES, IMAGE_SUFFIXES)
    )
    if sounds and images:
        raise UserError(
            f"{where} holds {len(images)} images (first {images[0]}) and {len(sounds)} sounds "
            f"(first {sounds[0]})",
            "keep them in two folders, and extract each by itself",
        )
    if not paths and not refused:
        raise UserError(
            f"no image and no sound in {where}; expected class folders of one kind (of texts, a "
            "CSV file with the columns text and label)"
        )
    return paths, "sounds" if sounds else "images"


def _common_folder(members: Sequence[str]) -> str:
    """Return "name/" if one folder holds all class folders, else ""."""
    tops = {member.split("/", 1)[0] for member in members}
    wrapped = len(tops) == 1 and all(member.count("/") >= 2 for member in members)
    if split_role(min(tops, default="")) not in (None, TRAIN):  # a test part alone is a split
        return ""
    return f"{tops.pop()}/" if wrapped else ""


def hierarchy(ids: Sequence[str], where: str) -> dict[str, Any]:
    """Return labels (N,), classes (C,), parents (C,), split and remark of a `Source` of paths.

    The folder of a file is its class; the folders above are the ancestors of the class. If every
    top folder is called train, val or test, or another usual name of these, they are the split and
    not classes; but train alone is no split. The remark says what is no matter of course in it.
    """
    folders = [tuple(name.split("/")[:-1]) for name in ids]
    tops = sorted({parts[0] if parts else "" for parts in folders})
    named = split_roles(tops)
    split, remark = None, ""
    if ids and None not in named.values() and set(named.values()) != {TRAIN}:
        official, remark = official_split(named)
        split = np.array([official[parts[0]] for parts in folders], np.uint8)
        folders = [parts[1:] for parts in folders]
        remark = f"{where}: {remark}." if remark else ""
    for name, parts in zip(ids, folders, strict=True):
        if not parts:
            raise UserError(f"{name} in {where} lies in no class folder", "move it into one")
    leaves = sorted(set(folders))
    inner = sorted({leaf[:depth] for leaf in leaves for depth in range(1, len(leaf))})
    both = set(leaves) & set(inner)
    if both:
        raise UserError(
            f"{'/'.join(min(both))} in {where} holds files and class folders",
            "put its files into a folder of their own",
        )
    order = leaves + inner
    index = {folder: i for i, folder in enumerate(order)}
    return {
        "labels": np.array([index[folder] for folder in folders], np.int64),
        "classes": tuple(_names(leaves) + _names(inner)),
        "parents": np.array([index.get(folder[:-1], -1) for folder in order], np.int64),
        "split": split,
        "remark": remark,
    }


def _names(folders: Sequence[tuple[str, ...]]) -> list[str]:
    """Return each folder's name; its whole path if the name is not unique."""
    times = Counter(folder[-1] for folder in folders)
    return [folder[-1] if times[folder[-1]] == 1 else "/".join(folder) for folder in folders]


# --- folders: every directory is visited once, only regular files are samples ---


IMAGE_SUFFIXES = frozenset(
    (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
)
SOUND_SUFFIXES = frozenset((".wav", ".wave", ".flac", ".ogg", ".mp3"))
MEDIA = IMAGE_SUFFIXES | SOUND_SUFFIXES


def is_hidden(name: str) -> bool:
    """Whether a file or folder of this name is left out, whatever it is."""
    return name.startswith((".", "__MACOSX"))


def media_suffix(name: str, known: frozenset[str] = MEDIA) -> str:
    """Return the suffix, one of `known`, of a sample in lower case; empty for other files.

    >>> media_suffix("a/cat.JPG"), media_suffix("notes.txt")
    ('.jpg', '')
    """
    suffix = f".{name.rpartition('.')[2].lower()}"
    return suffix if suffix in known else ""


class Folder:
    """The samples below a directory.

    In a directory real ones come first, then links to directories, each in the order of their
    names; a directory that was visited under another path is not visited again, nor is one that
    holds the root. So links in circles end, and no path depends on the order of the disk.

    Attributes
    ----------
    paths : list of str
        POSIX paths from the root, in no order; what is no regular file is found when it is read.
    refused : list of (str, str)
        Paths of what cannot be read, and why.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths: list[str] = []
        self.refused: list[tuple[str, str]] = []
        top = os.path.realpath(root)
        visited: set[str] = set()
        for here, folders, names in os.walk(root, onerror=self._refuse, followlinks=True):
            real = os.path.realpath(here)
            holds_root = real != top and f"{top}/".startswith(f"{real.rstrip('/')}/")
            if holds_root or real in visited:
                folders.clear()
                continue
            visited.add(real)
            shown = sorted(name for name in folders if not is_hidden(name))
            folders[:] = sorted(shown, key=lambda name: os.path.islink(os.path.join(here, name)))
            inside = os.path.relpath(here, root)
            for name in names:
                self._take(name if inside == "." else f"{inside}/{name}", name)

    def read(self, path: str) -> bytes:
        """Return the bytes of a sample."""
        return read_sample(f"{self.root}/{path}")

    def _take(self, path: str, name: str) -> None:
        """Take a file if its name is that of a sample."""
        if is_hidden(name) or not media_suffix(name):
            return
        if problem := id_problem(path):
            self.refused.append((escape_name(path), problem))
        else:
            self.paths.append(path)

    def _refuse(self, error: OSError) -> None:
        """Refuse a directory that cannot be listed; the root of all ends the work."""
        inside = os.path.relpath(error.filename, self.root)
        if inside == ".":
            raise error
        self.refused.append((escape_name(inside), explain_os_error(error)))


# --- zip archives: members are read one by one, never more than a bound ---


_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # of others, zipfile cannot bound the output


class Archive:
    """The samples in a zip archive: members by POSIX path.

    `paths` has the names of samples, `refused` those of members that cannot be read, and why.
    """

    def __init__(self, file: Path) -> None:
        self._archive = open_archive(file)
        by_path: dict[str, list[zipfile.ZipInfo]] = {}
        for member in self._archive.infolist():
            path = PurePosixPath(member.filename)
            hidden = any(is_hidden(part) for part in path.parts if part != "..")
            if media_suffix(member.filename) and not hidden:
                by_path.setdefault(path.as_posix(), []).append(member)  # without `./`
        self._members: dict[str, zipfile.ZipInfo] = {}
        self.refused: list[tuple[str, str]] = []
        for name, (member, *others) in by_path.items():
            problem = "it is there more than once" if others else _problem(name, member)
            if problem:
                self.refused.append((escape_name(name), problem))
            else:
                self._members[name] = member
        self.paths = list(self._members)

    def read(self, path: str) -> bytes:
        """Return the bytes of a member; its checksum is compared."""
        member = self._members[path]
        with self._archive.open(member) as file:
            return file.read(member.file_size + 1)  # the bound of its size was checked


def _problem(name: str, member: zipfile.ZipInfo) -> str:
    """Return why a member cannot be read; empty if it can."""
    problem = member_problem(name, member, _METHODS)
    return problem or id_problem(name) or size_problem(member.file_size)


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
    problems = {key: _cub_problem(path) for key, path in paths.items()}
    kept = [key for key in paths if not problems[key]]
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
            (escape_name(f"images/{paths[key]}"), problem)
            for key, problem in problems.items()
            if problem
        ),
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
