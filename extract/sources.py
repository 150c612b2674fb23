"""Opening sources of images and sounds: lists of samples that are read in any order."""

from __future__ import annotations

import os
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from embedbench.errors import UserError
from embedbench.files.formats.idx import is_idx
from embedbench.files.samples import TEST, TRAIN, VAL

from .source import Source

IMAGE_SUFFIXES = frozenset(
    (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
)
SOUND_SUFFIXES = frozenset((".wav", ".wave"))
SPLIT_FOLDERS = {"train": TRAIN, "val": VAL, "valid": VAL, "validation": VAL, "test": TEST}
TIMM_PREFIXES = ("torch/", "hfds/", "hfids/", "tfds/", "wds/")


def open_source(source: str) -> Source:
    """Return the source for a word, a path or the name of a timm data set.

    Parameters
    ----------
    source : str
        `demo`; a folder or zip of class folders, of images or of WAV files; a CUB-200-2011
        folder; a folder of MNIST IDX files; or a name that timm's `create_dataset` reads, such
        as `torch/cifar100`, followed by `@ROOT` if the data are in a folder ROOT.

    Raises
    ------
    UserError
        There is no such source, or it holds no images or sounds in classes, or it holds both.
    """
    if source == "demo":
        return _demo()
    if source.startswith(TIMM_PREFIXES):
        from .datasets import timm_source

        return timm_source(source)
    path = Path(source).expanduser()
    if path.is_dir():
        if (path / "images.txt").is_file() and (path / "image_class_labels.txt").is_file():
            return _cub(path)
        if is_idx(path):
            from .datasets import idx_source

            return idx_source(path)
        return _folder(path)
    if zipfile.is_zipfile(path):
        return _zip(path)
    if path.exists():
        raise UserError(f"{source} is neither a folder nor a zip archive of images; give one.")
    raise UserError(
        f"there is no source {source!r}: expected 'demo', a folder or zip of images, or a data set "
        f"that timm reads (names beginning with {', '.join(TIMM_PREFIXES)})."
    )


def _demo() -> Source:
    path = files("embedbench") / "assets" / "emoji-noto.zip"
    return replace(
        _zip(Path(str(path))),
        name="emoji-noto",
        revision="emoji-datasource-google 16.0.0",
        licence="Apache-2.0",
    )


def _folder(root: Path) -> Source:
    paths = [
        (Path(folder) / name).relative_to(root).as_posix()
        for folder, _, names in os.walk(root, followlinks=True)
        for name in names
    ]
    ids, holds = _of_one_kind(paths, str(root))
    labels, classes, parents, split = _hierarchy(ids, str(root))
    return Source(
        name=root.resolve().name,
        ids=tuple(ids),
        labels=labels,
        classes=classes,
        parents=parents,
        read=lambda i: (root / ids[i]).read_bytes(),
        split=split,
        holds=holds,
    )


def _zip(path: Path) -> Source:
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as error:
        raise UserError(f"{path} cannot be read as a zip archive ({error}).") from error
    members, holds = _of_one_kind(archive.namelist(), str(path))
    prefix = _common_folder(members)
    ids = [name[len(prefix) :] for name in members]
    labels, classes, parents, split = _hierarchy(ids, str(path))
    return Source(
        name=path.stem,
        ids=tuple(ids),
        labels=labels,
        classes=classes,
        parents=parents,
        read=lambda i: archive.read(members[i]),
        split=split,
        holds=holds,
    )


def _of_one_kind(paths: Sequence[str], where: str) -> tuple[list[str], str]:
    """Return the sorted paths of images or of sounds, and which of the two they are.

    Hidden files and all other files are left out.
    """
    by_kind: dict[str, list[str]] = {"images": [], "sounds": []}
    for path in sorted(paths):
        suffix = PurePosixPath(path).suffix.lower()
        if any(part.startswith((".", "__MACOSX")) for part in PurePosixPath(path).parts):
            continue
        if suffix in IMAGE_SUFFIXES | SOUND_SUFFIXES:
            by_kind["images" if suffix in IMAGE_SUFFIXES else "sounds"].append(path)
    images, sounds = by_kind["images"], by_kind["sounds"]
    if images and sounds:
        raise UserError(
            f"{where} holds {len(images)} images (first {images[0]}) and {len(sounds)} sounds "
            f"(first {sounds[0]}); keep them in two folders, and extract each by itself."
        )
    if not images and not sounds:
        raise UserError(
            f"no image in {where}, and no WAV file; expected class folders of one or the other."
        )
    return (images, "images") if images else (sounds, "sounds")


def _common_folder(members: Sequence[str]) -> str:
    """Return "name/" if one folder holds all class folders, else ""."""
    tops = {member.split("/", 1)[0] for member in members}
    wrapped = len(tops) == 1 and all(member.count("/") >= 2 for member in members)
    return f"{tops.pop()}/" if wrapped else ""


def _hierarchy(
    ids: Sequence[str], where: str
) -> tuple[NDArray[np.int64], tuple[str, ...], NDArray[np.int64], NDArray[np.uint8] | None]:
    """Return labels (N,), classes (C,), parents (C,) and the official split of paths.

    The folder of a file is its class; the folders above are the ancestors of the class. If every
    top folder is called train, val or test, these are the split and not classes.
    """
    folders = [PurePosixPath(name).parts[:-1] for name in ids]
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


def _cub(root: Path) -> Source:
    """Read CUB-200-2011's own lists; see the README inside its archive."""
    paths = _table(root / "images.txt")
    numbers = _table(root / "image_class_labels.txt")
    training = _table(root / "train_test_split.txt")
    names = _table(root / "classes.txt")
    if not paths.keys() == numbers.keys() == training.keys():
        raise UserError(
            f"images.txt, image_class_labels.txt and train_test_split.txt in {root} "
            "list different images; restore the three files from the data set's archive."
        )
    index = {number: i for i, number in enumerate(names)}
    unknown = sorted(set(numbers.values()) - index.keys())
    if unknown:
        raise UserError(f"class {unknown[0]} of image_class_labels.txt is not in classes.txt.")
    ids = tuple(f"images/{path}" for path in paths.values())
    return Source(
        name="CUB-200-2011",
        ids=ids,
        labels=np.array([index[numbers[i]] for i in paths], np.int64),
        classes=tuple(names.values()),
        parents=np.full(len(names), -1, np.int64),
        read=lambda i: (root / ids[i]).read_bytes(),
        split=np.array([TRAIN if training[i] == "1" else TEST for i in paths], np.uint8),
    )


def _table(path: Path) -> dict[str, str]:
    """Return the lines "key value" of a text file, in order."""
    if not path.is_file():
        raise UserError(f"{path} is missing; CUB-200-2011's layout has it beside images.txt.")
    rows: dict[str, str] = {}
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if line.strip():
            key, _, value = line.strip().partition(" ")
            if not value or key in rows:
                raise UserError(f"{path}, line {number}: expected 'id value', each id once.")
            rows[key] = value
    return rows
