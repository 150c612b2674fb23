"""A small server on loopback: files by ranges, faults on demand, and the hub's way to resolve."""

import hashlib
import os
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "0123456789" * 4
TOKEN = "hf_verySecret123"


@dataclass
class Served:
    """What a server has, by path, and what it was asked: (path, Range, Authorization) each.

    A fault of a path is a status; `cut N`, N bytes an answer; `redirect URL`; `no-ranges`;
    `no-length`; `less`, a byte less than it says; `late`, from the next byte on; `says N` or
    `no-ranges says N`, N bytes in all; `chunk N`, the length of a chunk; `reset`, no byte of it
    comes; or `mute`, no answer. The faults `lfs` and `size` are what the hub says instead of the
    SHA-256 and the size of a large file. `commit` is what the branch `main` of every repository is;
    `elsewhere` is where the hub sends for large files, which it gives itself if that is None.
    Repositories `org/statusN` are answered with status N.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    address: str = ""
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    commit: str = COMMIT
    elsewhere: "Served | None" = None

    def asked_for(self, path: str) -> list[str]:
        """The ranges that were asked of a path."""
        return [r for p, r, _ in self.asked if p == path]


class Handler(BaseHTTPRequestHandler):
    store: Any

    @classmethod
    @contextmanager
    def listening(cls, store: Any) -> Iterator[str]:
        """Serve what a store has on a free port of loopback; gives the address."""
        handler = type("Handler", (cls,), {"store": store})
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            yield f"http://127.0.0.1:{server.server_address[1]}"
            server.shutdown()

    def do_HEAD(self) -> None:
        """Answer for a file, or as the hub does for a name of a repository."""
        path = self.path
        login = self.headers.get("Authorization", "")
        self.store.asked.append((path, self.headers.get("Range", ""), login))
        match = re.fullmatch(r"/datasets/(\w+/\w+)/resolve/([^/]+)/(.+)", path)
        if match:
            self._resolve(*match.groups(), login)
        elif (fault := self.store.faults.get(path, "")).isdecimal():
            self._end(int(fault))
        elif fault == "mute":
            return
        elif fault.startswith("redirect "):
            self._end(302, Location=fault.partition(" ")[2], **{"Content-Length": "1" + "0" * 24})
        elif path not in self.store.files:
            self._end(404)
        else:
            self._send(self.store.files[path], fault)

    do_GET = do_HEAD  # noqa: N815

    def _resolve(self, repo: str, revision: str, path: str, login: str) -> None:
        if repo == "org/gated" and login != f"Bearer {TOKEN}":
            self._end(403, **{"X-Error-Code": "GatedRepo"})
        elif repo == "org/private" and login != f"Bearer {TOKEN}":
            self._end(401, **{"X-Error-Code": "RepoNotFound"})
        elif repo.startswith("org/status"):
            self._end(int(repo[10:]))
        elif revision not in ("main", self.store.commit):
            self._end(404, **{"X-Error-Code": "RevisionNotFound"})
        elif f"/lfs/{path}" not in (self.store.elsewhere or self.store).files:
            self._end(404, **{"X-Error-Code": "EntryNotFound"})
        elif self.store.elsewhere is None:
            self._send(self.store.files[f"/lfs/{path}"], "", **{"X-Repo-Commit": COMMIT})
        else:
            data = self.store.elsewhere.files[f"/lfs/{path}"]
            said = self.store.faults.get("lfs") or hashlib.sha256(data).hexdigest()
            about = {"X-Repo-Commit": self.store.commit, "X-Linked-ETag": f'"{said}"'}
            where = f"{self.store.elsewhere.address}/lfs/{path}?Signature=hidden"
            size = self.store.faults.get("size") or str(len(data))
            self._end(302, Location=where, **about, **{"X-Linked-Size": size})

    def _send(self, data: bytes, fault: str, **more: str) -> None:
        match = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        says = fault.partition("says ")[2]
        tag = f'"{hashlib.md5(data).hexdigest()}"'
        if (
            match is None
            or fault.startswith(("no-ranges", "no-length"))
            or self.headers.get("If-Range", tag) != tag
        ):
            length = {} if fault == "no-length" else {"Content-Length": says or str(len(data))}
            self._end(200, data, ETag=tag, **length, **more)
            return
        start, end = int(match[1]), min(int(match[2] or len(data)) + 1, len(data))
        total = says or len(data) + (fault == "less")
        says_start = start + (fault == "late")
        span = {"Content-Range": f"bytes {says_start}-{end - 1}/{total}", "ETag": tag}
        part = data[start:end]
        if fault.startswith("cut "):
            part = part[: int(fault.split()[1])]
        if fault.startswith("chunk "):
            chunk = fault.split()[1].encode() + b"\r\n"
            self._end(206, chunk + part, **span, **{"Transfer-Encoding": "chunked"}, **more)
            return
        if fault == "reset" and end - start > 1:
            self._end(206, **span, **{"Content-Length": str(end - start)}, **more)
            self.wfile.flush()
            time.sleep(0.1)  # the headers arrive
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            os.close(self.connection.detach())
            return
        self._end(206, part, **span, **{"Content-Length": str(end - start)}, **more)

    def _end(self, status: int, data: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if not data and not {"Content-Length", "Transfer-Encoding"} & {*headers}:
            self.send_header("Content-Length", "0")
        self.end_headers()
        if self.command != "HEAD":
            with suppress(ConnectionError):  # a client that was killed
                self.wfile.write(data)

    def parse_request(self) -> bool:
        """As usual; a query is no part of a file's name."""
        fine = super().parse_request()
        self.path = getattr(self, "path", "").partition("?")[0]
        return fine

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(files: dict[str, bytes] | None = None) -> Iterator[Served]:
    """Serve files on loopback."""
    served = Served(files or {})
    with Handler.listening(served) as served.address:
        yield served
