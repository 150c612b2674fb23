"""Standard output as it may be: of another encoding than UTF-8, closed by its reader, or full."""

import codecs
import errno
import os
import sys
from contextlib import suppress
from typing import TextIO

from embedbench.errors import UserError

ESCAPING = "embedbench-escaping"  # the name of the error handler below
READER_GONE = 141  # as the shell says of a command that SIGPIPE ended

_escaped: set[str] = set()  # encodings that lack a character which was printed


def prepare_streams() -> None:
    """Let stdout and stderr take any text, and be there.

    A character that the encoding of the terminal or locale lacks is written as an escape, `\\xb1`.
    """
    codecs.register_error(ESCAPING, _escape)
    if sys.stdout is None:  # closed by whoever started the command: `>&-`
        sys.stdout = _nowhere()
    if sys.stderr is None:
        sys.stderr = _nowhere()
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):  # a stream of another kind takes any text
            stream.reconfigure(errors=ESCAPING)  # type: ignore[union-attr]


def _escape(error: UnicodeError) -> tuple[str | bytes, int]:
    """Escape what cannot be encoded, and remember that."""
    if isinstance(error, UnicodeEncodeError):
        _escaped.add(error.encoding)
    return codecs.backslashreplace_errors(error)


def finish_output() -> str:
    """Write what is left of stdout; return a remark on what could not be written as it is.

    Raises
    ------
    BrokenPipeError
        Nobody reads it any more, as in `embedbench list | head -1`.
    UserError
        It cannot be written, as on a full disk.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as e:
        drop_output()
        raise UserError(unwritable_output(e) or str(e)) from e
    if not _escaped:
        return ""
    named = " and ".join(sorted(_escaped))
    _escaped.clear()
    return (
        f"the output is {named}, which lacks some characters: they are written as \\x.. or "
        "\\u....; PYTHONIOENCODING=utf-8 writes them as they are"
    )


def unwritable_output(error: OSError) -> str:
    """The sentence on an output that cannot be written; "" where the error is another.

    Files that are written have names, and errors of their own.
    """
    if error.filename or error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO):
        return ""
    return f"the output cannot be written ({error.strerror}); free some space, or name a file"


def drop_output() -> None:
    """Forget what could not be written, so that Python does not try again when it ends."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _nowhere() -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
