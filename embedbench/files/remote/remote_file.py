"""One file of a server or a store: its facts, and how its bytes are read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from embedbench.errors import UserError, printable

PIECE = 2**20  # bytes read at a time


@dataclass(frozen=True)
class Remote:
    """A file elsewhere, as it is now.

    Parameters
    ----------
    url : str
        Its name; of a file of the hub with the commit.
    version : str
        Changes whenever the file does: a commit, an ETag, …; "" where the server says nothing.
    size : int
        Bytes.
    read : callable
        (start, end) → pieces of the bytes from `start` to before `end`. It ends early where the
        server does.
    commit : str or None
        The commit of a file of the hub.
    sha256 : str or None
        SHA-256 of the bytes, where the server says it.
    by_ranges : bool
        Whether the server sends parts of the file.
    """

    url: str
    version: str
    size: int
    read: Callable[[int, int], Iterator[bytes]] = field(repr=False)
    commit: str | None = None
    sha256: str | None = None
    by_ranges: bool = True


class LostError(UserError):
    """A connection that failed; another attempt may succeed."""


def lost(url: str, reason: object) -> LostError:
    """The error of a connection that failed, for a reason: an exception or a text."""
    short = getattr(reason, "strerror", None) or type(reason).__name__
    why = printable(reason if isinstance(reason, str) else str(short))
    return LostError(
        f"{url} could not be reached ({why}); check the network, and run the command again: what "
        "has arrived is kept"
    )


def access_denied(url: str, what: str) -> UserError:
    """The error of a file that only some users get."""
    return UserError(f"{url} is not given to everybody: {what}")


def missing(url: str, what: str = "file") -> UserError:
    """The error of a name that means nothing."""
    return UserError(f"there is no {what} {url}; check the name")


def file_changed(url: str) -> UserError:
    """The error of a file that is another one than at the first question."""
    return UserError(f"{url} changed while it was read; run the command again")
