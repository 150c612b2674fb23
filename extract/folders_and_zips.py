"""Sources that are folders or zip archives of samples.

Every directory is visited once, and only regular files are samples.
"""

import heapq
import os
import stat
import zipfile
from pathlib import Path, PurePosixPath

from embedbench.storage.regular_files import check_regular, explain_os_error, unreadable
from embedbench.storage.safe_zips import member_problem, open_archive

from .source import escape_name, id_problem, size_problem

IMAGE_SUFFIXES = frozenset(
    (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
)
SOUND_SUFFIXES = frozenset((".wav", ".wave", ".flac", ".ogg", ".mp3"))
TEXT_SUFFIXES = frozenset((".txt",))
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

    Real directories come first, then links to directories in the order of their paths; a directory
    that was visited under another path is not visited again, nor is one that holds the root. So
    links in circles end, and the paths do not depend on the order in which a disk lists its files.

    Parameters
    ----------
    known : frozenset of str
        The suffixes of samples.

    Attributes
    ----------
    paths : list of str
        POSIX paths from the root, in no order.
    refused : list of (str, str)
        Paths of what cannot be read, and why.
    not_followed : list of str
        Links to nothing, or to directories that are not visited again.

    Raises
    ------
    UserError
        The root itself cannot be read.
    """

    def __init__(self, root: str, known: frozenset[str] = MEDIA) -> None:
        self.root, self.known = root, known
        self.paths: list[str] = []
        self.refused: list[tuple[str, str]] = []
        self.not_followed: list[str] = []
        self._links: list[str] = []  # to directories; a heap
        real_root = os.path.realpath(root)
        visited: set[str] = set()
        waiting = [("", real_root)]
        while waiting or self._links:
            if not waiting:
                link = heapq.heappop(self._links)
                real = os.path.realpath(os.path.join(root, link))
                if real in visited or f"{real_root}/".startswith(f"{real.rstrip('/')}/"):
                    self.not_followed.append(link)
                else:
                    waiting.append((f"{link}/", real))
                continue
            inside, real = waiting.pop()
            if real not in visited:
                visited.add(real)
                waiting += [(f"{inside}{name}/", f"{real}/{name}") for name in self._scan(inside)]

    def _scan(self, inside: str) -> list[str]:
        """Take the files of one directory, and return the names of the directories in it."""
        directories = []
        try:
            with os.scandir(os.path.join(self.root, inside)) as entries:
                for entry in entries:
                    if is_hidden(entry.name):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        directories.append(entry.name)
                    else:
                        self._take(inside + entry.name, entry)
        except OSError as error:
            if not inside:
                raise unreadable(self.root, error) from error
            self.refused.append((escape_name(inside), explain_os_error(error)))
        return directories

    def _take(self, path: str, entry: os.DirEntry[str]) -> None:
        """Take a file, or what a link leads to; a broken link only if its name is of a sample."""
        is_sample, problem = bool(media_suffix(path, self.known)), ""
        if not entry.is_file(follow_symlinks=False):
            try:
                mode = entry.stat().st_mode
            except OSError as error:
                if not is_sample:
                    self.not_followed.append(path)
                broken = isinstance(error, FileNotFoundError)
                problem = "a link to nothing" if broken else explain_os_error(error)
            else:
                if stat.S_ISDIR(mode):
                    heapq.heappush(self._links, path)
                    return
                problem = _kind_problem(mode)
        if is_sample and (problem := id_problem(path) or problem):
            self.refused.append((escape_name(path), problem))
        elif is_sample:
            self.paths.append(path)


def _kind_problem(mode: int) -> str:
    """Return why a file of this mode is no sample; empty for a regular file."""
    try:
        check_regular(mode)
    except OSError as error:
        return explain_os_error(error)
    return ""


# --- zip archives: members are read one by one, never more than a bound ---


_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # of others, zipfile cannot bound the output


class Archive:
    """The samples, of `known` suffixes, in a zip archive: members by POSIX path.

    `refused` has the names of members that cannot be read, and why.
    """

    def __init__(self, file: Path, known: frozenset[str] = MEDIA) -> None:
        self._archive = open_archive(file)
        by_path: dict[str, list[zipfile.ZipInfo]] = {}
        for member in self._archive.infolist():
            if _is_sample(member, known):
                path = PurePosixPath(member.filename).as_posix()  # without `./`
                by_path.setdefault(path, []).append(member)
        self.members: dict[str, zipfile.ZipInfo] = {}
        self.refused: list[tuple[str, str]] = []
        for name, (member, *others) in by_path.items():
            problem = "it is there more than once" if others else _problem(name, member)
            if problem:
                self.refused.append((escape_name(name), problem))
            else:
                self.members[name] = member

    def read(self, member: zipfile.ZipInfo) -> bytes:
        """Return the bytes of a member; its checksum is compared."""
        with self._archive.open(member) as file:
            return file.read(member.file_size + 1)  # the bound of its size was checked


def _is_sample(member: zipfile.ZipInfo, known: frozenset[str]) -> bool:
    """Whether a member's name is that of a sample, and nothing in it is hidden."""
    parts = PurePosixPath(member.filename).parts
    return bool(media_suffix(member.filename, known)) and not any(
        is_hidden(part) for part in parts if part != ".."
    )


def _problem(name: str, member: zipfile.ZipInfo) -> str:
    """Return why a member cannot be read; empty if it can."""
    problem = member_problem(name, member, _METHODS)
    if problem.startswith("compression"):
        return f"{problem}; pack it anew with method 8, deflate"
    return problem or id_problem(name) or size_problem(member.file_size)
