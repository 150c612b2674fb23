"""Writing so that after a crash a file is there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from embedbench.errors import UserError


def publish(temporary: Path, path: Path) -> None:
    """Bring a finished file to the disk and then to its name."""
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Bring renames inside a directory to the disk."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_safely(path: Path, data: bytes) -> None:
    """Write a file so that after a crash it is there whole or not at all."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        raise UserError(f"could not write {path} ({error}); is the disk full?") from error
