"""Atomic writing, and reading regular files alone.

After a crash a file is either complete or absent. All files are written through this module:
`write_safely` takes bytes or text; `writing` gives a temporary name to a library that opens its
files itself. `open_regular` opens files of other people: no FIFO and no device.
"""

import errno
import io
import os
import platform
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from embedbench.errors import UserError

_DENIED = "no permission to write there; choose another directory"
_HINTS = {
    errno.ENOSPC: "the disk is full; free some space and run the command again",
    errno.EDQUOT: "the disk quota is used up; free some space and run the command again",
    errno.EROFS: "the file system is read-only; choose another directory",
    errno.EACCES: _DENIED,
    errno.EPERM: _DENIED,
}
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a directory",
}


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
        raise UserError(f"{path} is a directory or a device; name a file")
    temporary = temporary_name(path, within)
    try:
        yield temporary
        if sync:
            sync_path(temporary)
        temporary.replace(path)
        if sync:
            sync_path(path.parent)
    except OSError as error:
        hint = _HINTS.get(error.errno or 0, "is the disk in order?")
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            hint = f"make {path.parent} first"
        raise UserError(f"cannot write {path} ({error.strerror or error}); {hint}") from error
    finally:
        with suppress(OSError):  # the directory may be a file
            temporary.unlink(missing_ok=True)


@contextmanager
def continuing(path: Path, name: object) -> Iterator[BinaryIO]:
    """Open a private file to be continued; what is written is kept after an error.

    It is for large files that are made again otherwise; they get their name when they are complete,
    by `rename`. `name` is what the file will be, for messages.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "r+b") as file:
            yield file
            file.flush()
            os.fsync(handle)
    except OSError as error:
        hint = _HINTS.get(error.errno or 0, "is the disk in order?")
        raise UserError(f"cannot write {name} ({error.strerror or error}); {hint}") from error


def name_complete(path: Path, new: Path) -> None:
    """Give a complete file its name, on the same file system; an existing one is replaced."""
    sync_path(path)
    path.replace(new)
    sync_path(new.parent)


def second_name(path: Path, new: Path) -> None:
    """Give a file a second name, or a copy of that name where files have one name only."""
    with writing(new) as temporary:
        try:
            os.link(path, temporary)
        except OSError:
            shutil.copyfile(path, temporary)


def read_text(path: Path, most: int = 2**26) -> str:
    """Read a text file of another person."""
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size > most:
                raise UserError(f"{path} is longer than {most:,} bytes, so it is no such file")
            # without a byte order mark, if there is one
            with io.TextIOWrapper(file, encoding="utf-8-sig") as text:
                return text.read()
    except ValueError:
        raise UserError(f"{path} is not a text file in UTF-8") from None
    except OSError as error:
        raise unreadable(path, error, "give a text file") from error


def open_regular(path: str | Path) -> BinaryIO:
    """Open a regular file for reading; what is no regular file is never opened.

    `why` has the reason of an OSError in words.
    """
    check_regular(os.stat(path).st_mode)
    # a FIFO that has taken the file's place since then is opened without waiting, and refused
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")
    try:
        check_regular(os.fstat(file.fileno()).st_mode)
    except OSError:
        file.close()
        raise
    return file


def check_regular(mode: int) -> None:
    """Raise OSError unless the mode of a file is that of a regular one."""
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "a special file")
        raise OSError(errno.EINVAL, f"{kind}, not a regular file")


def why(error: OSError) -> str:
    """Return why a file cannot be read, without its path: the same words on every machine."""
    if isinstance(error, PermissionError):
        return "no permission to read it"
    if isinstance(error, FileNotFoundError):
        return "not there, or a link to nothing"
    if error.errno == errno.ELOOP:
        return "a link that leads to itself"
    return error.strerror or str(error)


def unreadable(path: str | Path, error: OSError, remedy: str = "") -> UserError:
    """Return the error for a file or directory that cannot be read.

    `remedy` says what to do; there is one for missing permission.
    """
    if isinstance(error, PermissionError):
        return UserError(f"no permission to read {path}; ask its owner for it (chmod).")
    return UserError(f"{path} cannot be read ({why(error)})" + (f"; {remedy}." if remedy else "."))


def create(path: Path, data: bytes) -> bool:
    """Write a file of a name that is free; False if it is taken. A power cut may undo it."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        return False
    except OSError as error:
        raise UserError(f"cannot write {path} ({error.strerror}); is it yours to write?") from error
    try:
        os.write(handle, data)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise UserError(f"cannot write {path} ({error.strerror})") from error
    finally:
        os.close(handle)
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
