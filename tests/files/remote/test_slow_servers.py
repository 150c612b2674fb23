"""A server that sends a byte now and then is given up in a stated time, wherever it is slow."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from embedbench.errors import UserError
from embedbench.files.remote import slow_servers
from embedbench.files.remote.fetch import local
from embedbench.files.remote.remote_servers import ask_server

SIZE = 20_000
HEAD = b"HTTP/1.1 206 x\r\nContent-Range: bytes %d-%d/%d\r\nContent-Length: %d\r\nETag: a\r\n\r\n"


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A window of half a second in the place of a minute."""
    monkeypatch.setattr(slow_servers, "WINDOW", 0.5)
    monkeypatch.setenv("EMBEDBENCH_CACHE", str(tmp_path / "cache"))


def answer(connection: socket.socket, slow: str, pause: float) -> None:
    """Answer one request; a part of it comes byte by byte."""
    with connection, suppress(OSError):
        request = connection.recv(65536)
        first, _, last = request.partition(b"bytes=")[2].partition(b"\r\n")[0].partition(b"-")
        n = int(last) - int(first) + 1
        head, body = HEAD % (int(first), int(last), SIZE, n), bytes(n)
        quick, trickle = (b"", head + body) if slow == "head" else (head, body)
        connection.sendall(quick)
        for i in range(len(trickle)):
            connection.sendall(trickle[i : i + 1])
            time.sleep(pause)


@contextmanager
def serving(slow: str, pause: float = 0.02) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    given = (connection, slow, pause)
                    threading.Thread(target=answer, args=given, daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/a.h5"
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("slow", ["head", "body"])
def test_a_byte_now_and_then_is_given_up(slow: str) -> None:
    began = time.monotonic()
    with serving(slow) as url, pytest.raises(UserError, match="sends less than 1,000 bytes a sec"):
        local(url)
    assert time.monotonic() - began < 5


def test_what_has_come_is_kept(tmp_path: Path) -> None:
    with serving("body") as url, pytest.raises(UserError, match="what has arrived is kept"):
        local(url)
    (partial,) = (tmp_path / "cache/files").glob("*.partial")
    assert 5 < partial.stat().st_size < SIZE


def test_a_steady_server_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """50 bytes a second are enough where 10 are asked for, however long it takes."""
    monkeypatch.setattr(slow_servers, "SLOWEST", 10)
    monkeypatch.setattr(slow_servers, "WINDOW", 0.2)
    with serving("body") as url:
        remote = ask_server(url, url)
        assert b"".join(remote.read(0, 40)) == bytes(40)


def test_a_pause_of_the_reader_is_not_the_servers() -> None:
    with serving("body", pause=0.0) as url:
        pieces = ask_server(url, url).read(0, SIZE)
        got = len(next(pieces))
        time.sleep(0.7)
        assert got + sum(map(len, pieces)) == SIZE


def test_a_library_without_a_bound_gets_one() -> None:
    with pytest.raises(slow_servers.SlowError):
        slow_servers.in_time(lambda: time.sleep(3), 0.05)


def test_what_a_library_raises_is_raised() -> None:
    with pytest.raises(KeyError):
        slow_servers.in_time(lambda: {}["a"], 5)
