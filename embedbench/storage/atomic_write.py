"""Atomic writing: after a crash a file is either complete or absent.

All files are written through this module: `write_safely` takes bytes or text; `writing` gives a
temporary name to a library that opens its files itself.
"""

import os
import platform
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedRandom
from pathlib import Path

from embedbench.errors import UserError


def _unwritable(name: object, error: OSError, hint: str = "") -> UserError:
    hint = hint or "free some space or choose another directory, and run the command again"
    # of the system's errors in its words: libraries add addresses and offsets
    reason = os.strerror(error.errno) if error.errno else str(error)
    return UserError(f"cannot write {name} ({reason})", hint)


def write_safely(path: Path, data: bytes | str, *, sync: bool = True) -> None:
    """Write a file atomically; an existing one is replaced. Text is written as UTF-8.

    Without `sync` a power cut may undo it: for what can be made again.
    """
    with writing(path, sync=sync) as temporary:
        temporary.write_bytes(data.encode() if isinstance(data, str) else data)


@contextmanager
def writing(path: Path, *, within: Path | None = None, sync: bool = True) -> Iterator[Path]:
    """Yield a temporary name to write to, within a directory on the same file system.

    At the end the temporary file is renamed to `path`, whose file it replaces; after an error it is
    removed. With `sync` it survives a power cut from then on.
    """
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is a directory or a device", "name a file")
    temporary = temporary_name(path, within)
    try:
        yield temporary
        if sync:
            sync_path(temporary)
        temporary.replace(path)
        if sync:
            sync_path(path.parent)
    except OSError as error:
        lost = isinstance(error, FileNotFoundError | NotADirectoryError)
        raise _unwritable(path, error, f"make {path.parent} first" if lost else "") from error
    except Exception as error:
        if number := _system_error(error):
            raise _unwritable(path, OSError(number, os.strerror(number))) from error
        raise
    finally:
        with suppress(OSError):  # it has its name, or the directory is a file
            temporary.unlink()


def _system_error(error: Exception) -> int:
    """The number of the system's error that a library's own error quotes; 0 if it quotes none.

    The libraries of safetensors and HDF5 open files themselves, and do not raise an OSError.

    >>> _system_error(RuntimeError("I/O error: No space left on device (os error 28)"))
    28
    """
    quoted = re.search(r"\b(?:os error|errno =) (\d{1,4})\b", str(error), re.ASCII)
    return int(quoted[1]) if quoted else 0


@contextmanager
def continuing(path: Path, name: object) -> Iterator[BufferedRandom]:
    """Open a private file to be continued; what is written is kept after an error.

    It is for large files that are made again otherwise; they get their name when they are complete,
    by a rename. `name` is what the file will be, for messages.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "r+b") as file:
            yield file
            file.flush()
            os.fsync(handle)
    except OSError as error:
        raise _unwritable(name, error) from error


def create(path: Path, data: bytes) -> bool:
    """Write a file of a name that is free; False if it is taken. A power cut may undo it."""
    made = False
    try:
        with open(path, "xb") as file:
            made = True
            file.write(data)
    except FileExistsError:
        return False
    except OSError as error:
        if made:  # a file that another process made stays
            remove(path)
        raise _unwritable(path, error) from error
    return True


def temporary_name(path: Path, within: Path | None = None) -> Path:
    """A hidden name for unfinished work, unique across processes and hosts."""
    host = platform.node()[:32].replace(".", "-")  # `leases.sweep` tells it from names by the dots
    writer = f"{host}-{os.getpid()}-{secrets.token_hex(4)}"
    return (within or path.parent) / f".{path.name}.{writer}.tmp"


def remove(path: Path) -> None:
    """Remove a file or a directory, as far as it can be."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def sync_path(path: Path) -> None:
    """Sync a file, or a directory so that renames inside it survive a crash."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
