"""Unfinished work on an embedding file: the directory `.NAME.partial` beside it.

It appears and goes by one rename, and holds:

===================  =============================================================================
`job.json`           what determines the rows
`origin`             a token of this directory, and the digest of the file that it is to replace
`block-000000.bin`   a complete block, see `embedbench.files.resumable_file`
`*.lease`            who is at a block, at the end, or at any of it; see `embedbench.storage.leases`
===================  =============================================================================
"""

import glob
import hashlib
import shutil
from contextlib import suppress
from pathlib import Path

from embedbench.errors import UserError
from embedbench.storage import atomic_write, regular_files

from . import file_digests
from .embedding_file import EmbeddingFile


def work_directory(path: Path) -> Path:
    """Directory of unfinished work on a file."""
    return path.with_name(f".{path.name}.partial")


def made_at(path: Path) -> tuple[str, str] | None:
    """Digests of the job and of the provenance of an embedding file; None if there is none."""
    if not path.is_file():
        return None
    try:
        made = EmbeddingFile.open(path).provenance
    except UserError:
        return None
    return str(made.get("job_sha256")), text_digest(file_digests.canonical_json(made))


def text_digest(text: str) -> str:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def read_text(path: Path) -> str:
    """The text of a small file; empty if it cannot be read."""
    try:
        return regular_files.read_text(path)
    except UserError:
        return ""


def drop(directory: Path) -> None:
    """Remove unfinished work; no process sees a part of it."""
    try:
        directory.rename(atomic_write.temporary_name(directory).with_suffix(".old"))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise UserError(f"cannot remove {directory} ({error.strerror}).") from error
    _sweep(directory)


def _sweep(directory: Path) -> None:
    """Remove what processes left that were killed while they made or dropped the directory.

    One that is making it in this moment sees at once that its directory is gone, and starts again.
    """
    name = f".{glob.escape(directory.name)}"
    for left in directory.parent.glob(f"{name}.*.tmp"):
        with suppress(OSError):
            left.rename(left.with_suffix(".old"))
    for left in directory.parent.glob(f"{name}.*.old"):
        shutil.rmtree(left, ignore_errors=True)


def drop_leftover(path: Path) -> None:
    """Remove what work left that was killed just after the file was complete.

    The file is then one that this work has made, and not the one that it is to replace.
    """
    directory = work_directory(path)
    _sweep(directory)
    if directory.is_dir() and (made := made_at(path)):
        replaces = read_text(directory / "origin").partition("\n")[2]
        if made[0] == text_digest(read_text(directory / "job.json")) and made[1] != replaces:
            drop(directory)
