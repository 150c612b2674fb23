"""The path that an embedding file is written to, and the unfinished work on it beside it.

Unfinished work is a directory `.NAME.partial`, which holds:

===================  =============================================================================
`job.json`           what determines the rows
`block-000000.bin`   a complete block, see `embedbench.files.resumable_file`
`work.lease`         which process is at it, see `embedbench.storage.leases`
===================  =============================================================================
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from embedbench.errors import UserError
from embedbench.storage import regular_files


@dataclass(frozen=True)
class Target:
    """The path that an embedding file is written to; `check_target` makes it."""

    path: Path
    overwrite: bool

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
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is a directory or a device; give the name of a file.")
    target = Target(path, overwrite)
    target.check_free()
    if not path.parent.is_dir():
        raise UserError(f"there is no directory {path.parent}; make it first (mkdir -p).")
    return target


# --- unfinished work ---


def text_digest(text: str) -> str:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def read_text(path: Path) -> str:
    """The text of a small file; empty if it cannot be read."""
    try:
        return regular_files.read_text(path)
    except UserError:
        return ""
