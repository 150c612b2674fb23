"""Atomic writing: after a crash a file is either complete or absent.

All files are written through this module. `write_safely` takes bytes or text; `writing` gives a
temporary name to a library that opens its files itself.
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
    """Write a file atomically; an existing one is replaced. Text is written as UTF-8.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    with writing(path) as temporary:
        temporary.write_bytes(data.encode() if isinstance(data, str) else data)


@contextmanager
def writing(path: Path, *, within: Path | None = None) -> Iterator[Path]:
    """Yield a temporary name to write to.

    At the end the temporary file is renamed to `path`; after an error it is removed.

    Parameters
    ----------
    path : Path
        The file to write; an existing one is replaced.
    within : Path or None
        Directory of the temporary file, on the same file system; None: that of `path`.

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
    """A hidden name for unfinished work, unique across processes and hosts."""
    writer = f"{platform.node()[:32]}-{os.getpid()}-{secrets.token_hex(4)}"
    return (within or path.parent) / f".{path.name}.{writer}.tmp"


def _sync_directory(directory: Path) -> None:
    """Sync a directory, so that renames inside it survive a crash."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
