"""A bound on slow servers: one that sends a byte a second would be waited for without end.

A timeout bounds the time without any byte, and such a server never reaches it. So the time in which
bytes are waited for is added up, too: over each `WINDOW` seconds of it, `SLOWEST` bytes a second
must have come.
"""

import io
import socket
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any, TypeVar
from urllib.request import HTTPHandler, HTTPSHandler, Request

from embedbench.errors import UserError

SLOWEST = 1000  # bytes a second
WINDOW = 60.0  # seconds of waiting

R = TypeVar("R")


class SlowError(OSError):
    """A server that sends less than `SLOWEST` bytes a second."""


def too_slow(name: str) -> UserError:
    """The error of such a server, for whoever asked for `name`."""
    return UserError(
        f"the server of {name} sends less than {SLOWEST:,} bytes a second, for {WINDOW:.0f} "
        "seconds now",
        "run the command again later: what has arrived is kept; or download it by hand",
    )


class PacedHTTP(HTTPHandler):
    """`http:` by connections that give up on slow servers."""

    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_PacedConnection, req)


class PacedHTTPS(HTTPSHandler):
    """`https:` likewise."""

    def https_open(self, req: Request) -> HTTPResponse:
        context = getattr(self, "_context", None)
        return self.do_open(_PacedTLSConnection, req, context=context)


class _PacedConnection(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        self.sock: Any = _PacedSocket(self.sock)


class _PacedTLSConnection(HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        self.sock: Any = _PacedSocket(self.sock)


class _PacedSocket:
    """A socket that counts what it receives, and how long it waits for it."""

    def __init__(self, inner: socket.socket) -> None:
        self._inner = inner
        self._waited, self._received = 0.0, 0
        self._is_slow = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def recv_into(self, *given: Any) -> int:
        """Receive bytes.

        Raises
        ------
        SlowError
            Too few came in the last `WINDOW` seconds.
        """
        if self._is_slow:  # what had come by then was still given
            raise SlowError("too slow")
        began = time.monotonic()
        n = self._inner.recv_into(*given)
        self._waited += time.monotonic() - began
        self._received += n
        if self._waited >= WINDOW:
            if n and self._received < SLOWEST * self._waited:
                self._is_slow = True
            self._waited, self._received = 0.0, 0
        return n

    def makefile(self, *_: Any) -> io.BufferedReader:
        """The file that an answer is read from, as `socket.makefile` makes it."""
        raw = socket.SocketIO(self, "rb")  # type: ignore[arg-type]
        self._inner._io_refs += 1  # type: ignore[attr-defined]
        return io.BufferedReader(raw)


def in_time(call: Callable[[], R], seconds: float) -> R:
    """Call a library that has no such bound; after these seconds it is left to itself.

    Raises
    ------
    SlowError
        It has not ended.
    """
    ended: list[tuple[bool, Any]] = []

    def run() -> None:
        try:
            ended.append((True, call()))
        except BaseException as error:
            ended.append((False, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not ended:
        raise SlowError("too slow")
    worked, value = ended[0]
    if not worked:
        raise value
    result: R = value
    return result
