"""Writing so that after a crash a file is there whole or not at all.

Every file of the project is written here: `write_safely` takes its bytes or its text, `writing`
serves libraries that write to a name of their own.
"""

from __future__ import annotations

import os
import platform
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from embedbench.errors import UserError


def write_safely(path: Path, data: bytes | str) -> None:
    """Write a file, whole or not at all, over what is there; text as UTF-8.

    Raises
    ------
    UserError
        It cannot be written.
    """
    with writing(path) as temporary:
        temporary.write_bytes(data.encode() if isinstance(data, str) else data)


@contextmanager
def writing(path: Path, *, within: Path | None = None) -> Iterator[Path]:
    """Give a temporary name to write to; it becomes `path` at the end, or goes after an error.

    Parameters
    ----------
    path : Path
        The file to write, over what is there.
    within : Path or None
        Directory of the temporary name, on the same file system; None: that of `path`.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    temporary = temporary_name(path, within)
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_directory(path.parent)
    except OSError as error:
        hint = "is the disk full?" if path.parent.is_dir() else f"make {path.parent} first"
        reason = error.strerror or error
        raise UserError(f"cannot write {path} ({reason}); {hint}") from error
    finally:
        temporary.unlink(missing_ok=True)


def temporary_name(path: Path, within: Path | None = None) -> Path:
    """A hidden name for unfinished work, unique among the writers of one host and of several."""
    writer = f"{platform.node()[:32]}-{os.getpid()}-{secrets.token_hex(4)}"
    return (within or path.parent) / f".{path.name}.{writer}.tmp"


def _sync_directory(directory: Path) -> None:
    """Bring renames inside a directory to the disk."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
