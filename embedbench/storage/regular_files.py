"""Regular files alone are opened for reading: no FIFO, no device, no directory."""

import errno
import io
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from embedbench.errors import UserError, error_text

_STYLES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")  # colours and bold letters of a terminal


def read_text(path: Path, most: int = 2**26) -> str:
    """Read a text file of another person."""
    remedy = "give a text file in UTF-8"
    with explain_errors(f"{path} cannot be read", remedy), open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise UserError(f"{path} is longer than {most:,} bytes, so it is no such file")
        # without a byte order mark, if there is one
        with io.TextIOWrapper(file, encoding="utf-8-sig") as text:
            return text.read()


def open_regular(path: str | Path) -> BinaryIO:
    """Open a regular file for reading; what is no regular file is never opened.

    `explain_os_error` has the reason of an OSError in words.
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
        raise OSError(errno.EINVAL, "not a regular file")


def explain_os_error(error: OSError) -> str:
    """Return why a file cannot be read, without its path: the same words on every machine."""
    if isinstance(error, PermissionError):
        return "no permission to read it"
    if isinstance(error, FileNotFoundError):
        return "not there, or a link to nothing"
    return error.strerror or str(error)


@contextmanager
def explain_errors(failed: str, remedy: str = "") -> Iterator[None]:
    """Say in one sentence what failed and why: libraries, and code of others, raise any error."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        kind = type(error).__name__
        reason = _STYLES.sub("", error_text(error)).partition("\n")[0][: len(kind) + 202]
        if isinstance(error, NameError):  # a fault of the library, on its own variables
            reason = kind
        if isinstance(error, OSError) and error.errno is not None:  # of the system, not a library
            reason = explain_os_error(error)
        raise UserError(f"{failed} ({reason})" + (f"; {remedy}." if remedy else ".")) from error
