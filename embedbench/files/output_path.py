"""The path that an embedding file is written to, and the unfinished work on it beside it.

Unfinished work is a directory `.NAME.partial`. It appears and goes by one rename, and holds:

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
from dataclasses import dataclass, replace
from pathlib import Path

from embedbench.errors import UserError
from embedbench.storage import atomic_write, regular_files

from . import file_digests
from .embedding_file import EmbeddingFile


@dataclass(frozen=True)
class Target:
    """The path that an embedding file is written to; `check_target` makes it.

    Parameters
    ----------
    before : str
        Digest of the provenance of the file that was there; empty if there was none.
    """

    path: Path
    overwrite: bool
    before: str = ""

    @property
    def directory(self) -> Path:
        """Of unfinished work on the file."""
        return self.path.with_name(f".{self.path.name}.partial")

    def check_free(self) -> None:
        """Raise UserError if there is a file that must not be replaced."""
        if self.path.exists() and not self.overwrite:
            raise UserError(
                f"{self.path} exists; choose another name, or replace it with --overwrite."
            )


def check_target(path: Path, *, overwrite: bool) -> Target:
    """Raise UserError where `path` cannot be written."""
    if path.is_dir():
        raise UserError(f"{path} is a directory; give a file name, such as {path / 'features.h5'}.")
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is a device; give the name of a file.")
    target = Target(path, overwrite)
    _sweep(target.directory)
    if target.directory.is_dir() and (made := made_at(path)):
        # left by work that was killed just after it had made the file, not one that it replaces
        replaces = read_text(target.directory / "origin").partition("\n")[2]
        job = text_digest(read_text(target.directory / "job.json"))
        if made[0] == job and made[1] != replaces:
            drop(target.directory)
    target.check_free()
    if not path.parent.is_dir():
        raise UserError(f"there is no directory {path.parent}; make it first (mkdir -p).")
    made = made_at(path)
    return replace(target, before=made[1]) if made else target


# --- unfinished work ---


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
