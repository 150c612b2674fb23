"""Open zip archives of other people safely, and say why a member must not be read."""

import zipfile
from collections.abc import Collection
from itertools import pairwise
from pathlib import Path

from embedbench.errors import UserError

from .regular_files import explain_errors, open_regular

_UNREADABLE = 0x1 | 0x20 | 0x40  # a member's flags: encrypted, a patch, strongly encrypted


def open_archive(path: Path) -> zipfile.ZipFile:
    """Open a zip archive."""
    with explain_errors(f"{path} cannot be read as a zip archive"):
        archive = zipfile.ZipFile(open_regular(path))
    places = sorted((m.header_offset, m.header_offset + m.compress_size) for m in archive.filelist)
    places.append((archive.start_dir, archive.start_dir))  # nothing reaches into the directory
    if any(end > start for (_, end), (start, _) in pairwise(places)):
        archive.close()
        raise UserError(f"{path} is a zip archive whose members overlap", "pack it anew")
    return archive


def member_problem(name: str, member: zipfile.ZipInfo, methods: Collection[int]) -> str:
    """Why a member cannot be read, or not by these `methods` of compression; empty if it can."""
    if "\0" in member.orig_filename:
        return "its name holds a NUL"
    if name.startswith("/") or ".." in name.split("/"):
        return "its name leads out of the archive"
    if member.flag_bits & _UNREADABLE:
        return "it is encrypted, or a patch of another file"
    if member.compress_type not in methods:
        return f"compression method {member.compress_type}"
    return ""
