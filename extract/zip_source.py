"""Zip archives of samples: their members are read one by one, never more than a bound."""

import zipfile
from pathlib import Path, PurePosixPath

from embedbench.storage.safe_zips import member_problem, open_archive

from .folders import MEDIA, is_hidden, media_suffix
from .source import escape_name, id_problem, size_problem

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # of others, zipfile cannot bound the output


class Archive:
    """The samples in a zip archive.

    Parameters
    ----------
    path : Path
        The archive.
    known : frozenset of str
        The suffixes of samples.

    Attributes
    ----------
    members : dict of str to ZipInfo
        Members by POSIX path.
    refused : list of (str, str)
        Names of members that cannot be read, and why.

    Raises
    ------
    UserError
        It is no zip archive that can be read, or its members share their bytes.
    """

    def __init__(self, path: Path, known: frozenset[str] = MEDIA) -> None:
        self._archive = open_archive(path)
        by_path: dict[str, list[zipfile.ZipInfo]] = {}
        for member in self._archive.infolist():
            if _is_sample(member, known):
                by_path.setdefault(_path(member), []).append(member)
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


def _path(member: zipfile.ZipInfo) -> str:
    """Return a member's name without parts that say nothing, such as `./`."""
    return PurePosixPath(member.filename).as_posix()


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
