"""The images and sounds below a folder or in a zip archive, and all that is left out there.

A file with the suffix of an image or a sound is a sample, whatever it holds. Of any other file, but
for texts, the first bytes are read: if they begin an image or a sound that is read here, it is a
sample, too.
"""

import os
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path, PurePosixPath

from embedbench.errors import UserError, list_first
from embedbench.storage.regular_files import explain_os_error, open_regular
from embedbench.storage.safe_zips import member_problem, open_archive

from .content_kinds import HEAD, IMAGES, SOUNDS, content_kind
from .source import escape_name, id_problem, read_bytes, size_problem

_KNOWN = {
    IMAGES: (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"),
    SOUNDS: (".wav", ".wave", ".flac", ".ogg", ".mp3"),
}
KIND_OF_SUFFIX = {suffix: kind for kind, suffixes in _KNOWN.items() for suffix in suffixes}
_TEXTS = (".txt", ".md", ".json", ".jsonl", ".xml", ".csv", ".tsv", ".html", ".yaml", ".yml")
LITTER = frozenset(("thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r"))  # of Windows, of macOS
NAMED = 3  # names of files that a phrase has, and twice as many suffixes
MANY = 10  # names of folders that hold no sample: classes may be among them


def is_hidden(name: str) -> bool:
    """Whether a file or folder of this name is left out, whatever it is."""
    return name.startswith((".", "__MACOSX")) or name.casefold() in LITTER


def suffix_of(name: str) -> str:
    """Return the suffix of a path in lower case; empty if there is none.

    >>> suffix_of("a/cat.JPG"), suffix_of("v1.2/cat"), suffix_of("cat.")
    ('.jpg', '', '')
    """
    _, dot, suffix = name.rpartition("/")[2].rpartition(".")
    return f".{suffix.lower()}" if dot and suffix else ""


class MediaFiles:
    """What was found below a root.

    Attributes
    ----------
    kinds : dict
        `images` or `sounds` by the POSIX path of each sample from the root, in no order.
    refused : list of (str, str)
        Paths of what cannot be read, and why.
    folders : list of str
        All folders that were looked into, but for the root.
    """

    def __init__(self) -> None:
        self.kinds: dict[str, str] = {}
        self.refused: list[tuple[str, str]] = []
        self.folders: list[str] = []
        self.unread: list[str] = []  # paths of files that are neither image nor sound
        self.hidden: list[str] = []
        self.seen: list[str] = []  # links to folders that are read under another path

    def take(self, path: str, problem: str, head: Callable[[], bytes]) -> None:
        """Take a file if it is a sample.

        `problem` says why it cannot be read, `head` returns its first bytes.
        """
        suffix = suffix_of(path)
        kind = KIND_OF_SUFFIX.get(suffix)
        if kind is None and not problem and suffix not in _TEXTS:
            kind = content_kind(head(), suffix)
        if not kind:
            self.unread.append(path)
        elif problem:
            self.refused.append((escape_name(path), problem))
        else:
            self.kinds[path] = kind

    def one_kind(self, where: str) -> tuple[list[str], str]:
        """Return the sorted paths of samples, and what they are: all images, or all sounds."""
        paths = sorted(self.kinds)
        images = [path for path in paths if self.kinds[path] == IMAGES]
        sounds = [path for path in paths if self.kinds[path] == SOUNDS]
        if sounds and images:
            raise UserError(
                f"{where} holds {len(images)} images (first {images[0]}) and {len(sounds)} sounds "
                f"(first {sounds[0]})",
                "keep them in two folders, and extract each by itself",
            )
        if not paths and not self.refused:
            holds = f", but {_by_suffix(self.unread)}" if self.unread else ""
            raise UserError(
                f"no image and no sound in {where}{holds}; expected class folders of one kind (of "
                "texts, a CSV file with the columns text and label, or hfds/./FOLDER for a folder "
                "of train.csv and test.csv)"
            )
        return paths, SOUNDS if sounds else IMAGES

    def left_out(self, holds: str) -> tuple[str, ...]:
        """Return phrases on what is no sample: files by their suffixes, folders, hidden files."""
        phrases = []
        if self.unread:
            files = f"{len(self.unread):,} files that are not read as {holds}"
            phrases.append(f"{files}: {_by_suffix(self.unread)}")
        if empty := self._empty_folders():
            phrases.append(f"folders without a sample: {_first(empty, MANY)}")
        if self.seen:
            phrases.append(
                f"links to folders that are read under another name: {_first(self.seen)}"
            )
        if self.hidden:
            phrases.append(f"hidden files, folders and litter: {_first(self.hidden)}")
        return tuple(phrases)

    def _empty_folders(self) -> list[str]:
        """Return the folders that hold no sample at any depth, without those inside of them."""
        full = set[str]()
        for path in [*self.kinds, *(name for name, _ in self.refused)]:
            full.update(str(folder) for folder in PurePosixPath(path).parents)
        empty = {folder for folder in self.folders if folder not in full}
        return sorted(folder for folder in empty if os.path.dirname(folder) not in empty)


def _first(names: Sequence[str], most: int = NAMED) -> str:
    return list_first([escape_name(name) for name in sorted(names)], most)


def _by_suffix(paths: Sequence[str]) -> str:
    """Return how many files there are of each suffix, and the first of all.

    >>> _by_suffix(["owl/2.heic", "owl/1.heic", "README"])
    '2 .heic, 1 without a suffix (first README)'
    """
    times = Counter(suffix_of(path) for path in paths)
    common = sorted(times, key=lambda suffix: (-times[suffix], suffix))
    shown = [f"{times[s]:,} {escape_name(s) or 'without a suffix'}" for s in common[: 2 * NAMED]]
    if others := sum(times[suffix] for suffix in common[2 * NAMED :]):
        shown.append(f"{others:,} others")
    return f"{', '.join(shown)} (first {escape_name(min(paths))})"


# --- folders: every directory is visited once, only regular files are samples ---


class Folder(MediaFiles):
    """The samples below a directory.

    In a directory real ones come first, then links to directories, each in the order of their
    names; a directory that was visited under another path is not visited again, nor is one that
    holds the root. So links in circles end, and no path depends on the order of the disk. What is
    no regular file is found when it is read.
    """

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        top = os.path.realpath(root)
        visited: set[str] = set()
        for here, folders, names in os.walk(root, onerror=self._refuse, followlinks=True):
            real = os.path.realpath(here)
            inside = os.path.relpath(here, root)
            holds_root = real != top and f"{top}/".startswith(f"{real.rstrip('/')}/")
            if holds_root or real in visited:
                folders.clear()
                self.seen.append(inside)
                continue
            visited.add(real)
            before = "" if inside == "." else f"{inside}/"
            if before:
                self.folders.append(inside)
            self.hidden += [before + name for name in [*folders, *names] if is_hidden(name)]
            shown = sorted(name for name in folders if not is_hidden(name))
            folders[:] = sorted(shown, key=lambda name: os.path.islink(os.path.join(here, name)))
            for name in names:
                if not is_hidden(name):
                    path = before + name
                    self.take(path, id_problem(path), partial(self._head, path))

    def read(self, path: str) -> bytes:
        """Return the bytes of a sample."""
        return read_bytes(f"{self.root}/{path}")

    def _head(self, path: str) -> bytes:
        """Return the first bytes of a file; none if it cannot be opened, or is no regular one."""
        try:
            with open_regular(f"{self.root}/{path}") as file:
                return file.read(HEAD)
        except OSError:
            return b""

    def _refuse(self, error: OSError) -> None:
        """Refuse a directory that cannot be listed; the root of all ends the work."""
        inside = os.path.relpath(error.filename, self.root)
        if inside == ".":
            raise error
        self.refused.append((escape_name(inside), explain_os_error(error)))


# --- zip archives: members are read one by one, never more than a bound ---


_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # of others, zipfile cannot bound the output
_IS_UTF8 = 0x800  # a member's flag


class Archive(MediaFiles):
    """The samples in a zip archive: members by POSIX path."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._archive = open_archive(file)
        self.unmarked: list[str] = []  # names that are no ASCII, in no encoding that is known
        by_path: dict[str, list[zipfile.ZipInfo]] = {}
        for member in self._archive.infolist():
            path = PurePosixPath(self._name(member))
            name = path.as_posix()  # without `./`
            if any(is_hidden(part) for part in path.parts if part != ".."):
                if not member.is_dir():
                    self.hidden.append(name)
                continue
            self.folders += [str(folder) for folder in path.parents if str(folder) not in "./"]
            if member.is_dir():
                self.folders.append(name)
            else:
                by_path.setdefault(name, []).append(member)
        self.folders = [*dict.fromkeys(self.folders)]
        self._members: dict[str, zipfile.ZipInfo] = {}
        for name, (member, *others) in by_path.items():
            problem = "it is there more than once" if others else _problem(name, member)
            self._members[name] = member
            self.take(name, problem, partial(self._head, member))

    def read(self, path: str) -> bytes:
        """Return the bytes of a member; its checksum is compared."""
        member = self._members[path]
        with self._archive.open(member) as file:
            return file.read(member.file_size + 1)  # the bound of its size was checked

    def _head(self, member: zipfile.ZipInfo) -> bytes:
        try:
            with self._archive.open(member) as file:
                return file.read(HEAD)
        except Exception:  # as when it is read: zipfile raises many kinds on damaged bytes
            return b""

    def _name(self, member: zipfile.ZipInfo) -> str:
        """Return a member's name; macOS writes UTF-8 and does not say so."""
        if member.flag_bits & _IS_UTF8 or member.filename.isascii():
            return member.filename
        try:
            return member.filename.encode("cp437").decode()
        except UnicodeError:
            self.unmarked.append(member.filename)
            return member.filename


def _problem(name: str, member: zipfile.ZipInfo) -> str:
    """Return why a member cannot be read; empty if it can."""
    problem = member_problem(name, member, _METHODS)
    return problem or id_problem(name) or size_problem(member.file_size)
