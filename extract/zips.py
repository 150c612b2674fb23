"""Zip archives of samples: their members are read one by one, never more than a bound."""

from __future__ import annotations

import zipfile
from itertools import pairwise
from pathlib import Path, PurePosixPath

from embedbench.disk import open_regular, unreadable
from embedbench.errors import UserError

from .folders import MEDIA, hidden, suffix_of
from .source import escaped, id_problem, size_problem

_ENCRYPTED, _PATCH, _STRONG = 0x1, 0x20, 0x40  # bits of a member's flags
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
        try:
            self._archive = zipfile.ZipFile(open_regular(path))
        except OSError as error:
            raise unreadable(path, error) from error
        except UnicodeDecodeError as error:
            name = error.object.decode(errors="backslashreplace")
            raise UserError(
                f"{path} has a member {escaped(name)}, whose name is not UTF-8; pack it anew."
            ) from error
        except Exception as error:  # zipfile raises many kinds of errors on damaged archives
            raise UserError(f"{path} cannot be read as a zip archive ({error}).") from error
        listed = self._archive.infolist()
        places = sorted((m.header_offset, m.header_offset + m.compress_size) for m in listed)
        if any(end > start for (_, end), (start, _) in pairwise(places)):
            raise UserError(f"{path} is a zip archive whose members overlap; pack it anew.")
        by_path: dict[str, list[zipfile.ZipInfo]] = {}
        for member in listed:
            if _is_sample(member, known):
                by_path.setdefault(_path(member), []).append(member)
        self.members: dict[str, zipfile.ZipInfo] = {}
        self.refused: list[tuple[str, str]] = []
        for name, (member, *others) in by_path.items():
            problem = "it is there more than once" if others else _problem(name, member)
            if problem:
                self.refused.append((escaped(name), problem))
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
    return bool(suffix_of(member.filename, known)) and not any(
        hidden(part) for part in parts if part != ".."
    )


def _problem(name: str, member: zipfile.ZipInfo) -> str:
    """Return why a member cannot be read; empty if it can."""
    if name.startswith("/") or ".." in name.split("/"):
        return "its name leads out of the archive"
    if member.flag_bits & (_ENCRYPTED | _STRONG):
        return "it is encrypted"
    if member.flag_bits & _PATCH:
        return "it is a patch of another file"
    if member.compress_type not in _METHODS:
        return f"compression method {member.compress_type}; pack it anew with method 8, deflate"
    return id_problem(name) or size_problem(member.file_size)
