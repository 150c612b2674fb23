"""Open zip archives of other people safely, and say why a member must not be read."""

import zipfile
from collections.abc import Collection
from itertools import pairwise
from pathlib import Path

from embedbench.errors import UserError
from embedbench.text.printable_text import printable

from .regular_files import open_regular, unreadable

_ENCRYPTED, _PATCH, _STRONG = 0x1, 0x20, 0x40  # bits of a member's flags


def open_archive(path: Path) -> zipfile.ZipFile:
    """Open a zip archive."""
    try:
        archive = zipfile.ZipFile(open_regular(path))
    except OSError as error:
        raise unreadable(path, error) from error
    except UnicodeDecodeError as error:
        name = printable(error.object.decode(errors="backslashreplace"))
        raise UserError(
            f"{path} has a member {name}, whose name is not UTF-8; pack it anew."
        ) from error
    except Exception as error:  # zipfile raises many kinds of errors on damaged archives
        raise UserError(f"{path} cannot be read as a zip archive ({error}).") from error
    places = sorted((m.header_offset, m.header_offset + m.compress_size) for m in archive.filelist)
    places.append((archive.start_dir, archive.start_dir))  # nothing reaches into the directory
    if any(end > start for (_, end), (start, _) in pairwise(places)):
        archive.close()
        raise UserError(f"{path} is a zip archive whose members overlap; pack it anew.")
    return archive


def member_problem(name: str, member: zipfile.ZipInfo, methods: Collection[int]) -> str:
    """Why a member cannot be read, or not by these `methods` of compression; empty if it can."""
    if "\0" in member.orig_filename:
        return "its name holds a NUL"
    if name.startswith("/") or ".." in name.split("/"):
        return "its name leads out of the archive"
    if member.flag_bits & (_ENCRYPTED | _STRONG):
        return "it is encrypted"
    if member.flag_bits & _PATCH:
        return "it is a patch of another file"
    if member.compress_type not in methods:
        return f"compression method {member.compress_type}"
    return ""
