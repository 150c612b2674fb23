"""Opening sources of images, sounds and texts: lists of samples that are read in any order."""

import os
import stat
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from embedbench import plugins
from embedbench.errors import UserError
from embedbench.files.formats.mnist_idx import is_idx, read_idx
from embedbench.files.sample_metadata import TRAIN
from embedbench.storage.regular_files import check_regular, unreadable

from . import folders_and_zips
from .cub_lists import cub_source, is_cub
from .data_set_parts import SPLIT_NAMES, official_split
from .extract_plugins import is_outside, outside_source
from .source import Source, escape_name, read_sample, unusable
from .text_tables import TEXT_TABLES, text_table

IMAGE_FOLDER = ("torch/image_folder", "torch/folder")  # torchvision's name for class folders
STREAMED = ("hfids/", "tfds/", "wds/")
LIBRARIES = ("torch/", "hfds/", *STREAMED)


def open_source(source: str, *, skip_bad: bool = False) -> Source:
    """Return the source for a word, a path or the name of a timm data set.

    It is `demo`; a folder or zip of class folders, of images, sounds or texts; a table of texts,
    see `text_table`; a CUB-200-2011 folder; a folder of MNIST IDX files; a data set that a library
    reads, see `torchvision_source` (`torch/`), `hub_source` (`hfds/`) and `streamed_source`; or a
    source of other people, an entry point or `package.module:function`, followed by `@TEXT` for it.
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
    name, _, root = source.partition("@")
    if name in IMAGE_FOLDER:
        return _folder(Path(root).expanduser())
    if source.startswith("torch/"):
        from .torchvision_datasets import torchvision_source

        return torchvision_source(source)
    if source.startswith("hfds/"):
        from .hub_datasets import hub_source

        return hub_source(source)
    if source.startswith(STREAMED):
        from .streamed_datasets import streamed_source

        return streamed_source(source)
    if is_outside(source):
        return outside_source(source)
    try:
        path = Path(source).expanduser()
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, RuntimeError, ValueError) as error:
        # also ~ of an unknown user, and a zero byte
        raise UserError(
            f"there is no file or folder {source!r}; a source is a folder or zip of images, "
            "'demo', a data set of a library (names beginning with "
            f"{', '.join(LIBRARIES)}), or a source of a package{_offered()}."
        ) from error
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            read = cub_source if is_cub(path) else _idx if is_idx(path) else _folder
            return read(path)
        check_regular(mode)
        is_zip = zipfile.is_zipfile(path)
    except OSError as error:
        raise unreadable(source, error, "give a folder or a zip archive of images") from error
    if is_zip:
        return _zip(path)
    if path.suffix.lower() in TEXT_TABLES:
        return text_table(path)
    raise UserError(f"{source} is neither a folder nor a zip archive of images; give one.")


def _offered() -> str:
    """The names of sources of installed packages, for an error message."""
    names = ", ".join(sorted(plugins.entry_points_by_name("sources")))
    return f" ({names}, or package.module:function)" if names else " (package.module:function)"


def _demo() -> Source:
    path = files("embedbench") / "assets" / "emoji-noto.zip"
    return replace(
        _zip(Path(str(path))),
        name="emoji-noto",
        revision="emoji-datasource-google 16.0.0",
        licence="Apache-2.0",
    )


def _idx(root: Path) -> Source:
    """Return MNIST as it is published: four IDX files, gzipped or not, in one folder."""
    samples, images = read_idx(root)
    return Source(
        name=root.resolve().name,
        ids=tuple(samples.ids.tolist()),
        labels=samples.labels,
        classes=samples.classes,
        parents=samples.parents,
        read=lambda i: Image.fromarray(images[i]),
        split=samples.split,
    )


def _folder(root: Path) -> Source:
    folder = folders_and_zips.Folder(str(root))
    if not folder.paths and not folder.refused:
        texts = folders_and_zips.Folder(str(root), folders_and_zips.TEXT_SUFFIXES)
        folder = texts if any("/" in path for path in texts.paths) else folder
    ids, holds = _of_one_kind(folder.paths, folder.refused, str(root))
    fields = hierarchy(ids, str(root))
    links = sorted(escape_name(link) for link in folder.not_followed)
    if links:
        left = (
            f"left out {len(links)} links to nothing, or to folders that are read under another "
            f"path, first {links[0]}."
        )
        fields["remark"] = f"{fields['remark']} {left}".strip()
    return Source(
        name=escape_name(root.resolve().name),
        ids=tuple(ids),
        read=lambda i: read_sample(f"{root}/{ids[i]}"),
        holds=holds,
        refused=tuple(sorted(folder.refused)),
        **fields,
    )


def _zip(path: Path) -> Source:
    archive = folders_and_zips.Archive(path)
    if not archive.members and not archive.refused:
        archive = folders_and_zips.Archive(path, folders_and_zips.TEXT_SUFFIXES)
    members, holds = _of_one_kind(list(archive.members), archive.refused, str(path))
    prefix = _common_folder(members)
    ids = [name[len(prefix) :] for name in members]
    return Source(
        name=escape_name(path.stem),
        ids=tuple(ids),
        read=lambda i: archive.read(archive.members[members[i]]),
        holds=holds,
        refused=tuple(sorted(archive.refused)),
        **hierarchy(ids, str(path)),
    )


def _of_one_kind(
    paths: list[str], refused: Sequence[tuple[str, str]], where: str
) -> tuple[list[str], str]:
    """Return the sorted paths of samples, and what they are: all texts, or images, or sounds."""
    paths = sorted(paths)
    if paths and folders_and_zips.media_suffix(paths[0], folders_and_zips.TEXT_SUFFIXES):
        return paths, "texts"
    sounds, images = (
        [path for path in paths if folders_and_zips.media_suffix(path, known)]
        for known in (folders_and_zips.SOUND_SUFFIXES, folders_and_zips.IMAGE_SUFFIXES)
    )
    if sounds and images:
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
    if SPLIT_NAMES.get(min(tops, default=""), TRAIN) != TRAIN:  # a test part alone is a split
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
    named = {top: SPLIT_NAMES.get(top) for top in tops}
    split, remark = None, ""
    if ids and None not in named.values() and set(named.values()) != {TRAIN}:
        official, remark = official_split(named)
        split = np.array([official[parts[0]] for parts in folders], np.uint8)
        folders = [parts[1:] for parts in folders]
        remark = f"{where}: {remark}." if remark else ""
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
