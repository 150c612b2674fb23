"""Leases: files that say which process works on what, in a directory that several share.

A lease only saves work: what is right never depends on one. It is a small JSON file that is made
by exclusive creation. One thread of its process moves a counter in it every few seconds. Another
process may take it over at once if the holder is known to have ended, and otherwise when the file
has not changed for a while by the clock of the process that wants it. Of the file system it takes
exclusive creation and atomic renaming.
"""

import contextlib
import hashlib
import json
import os
import platform
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from embedbench.config.json_records import ABSENT, JsonRecord, parse_json
from embedbench.errors import UserError

from .atomic_write import create, remove

BEAT = 5.0  # seconds from one move of the counter to the next
PATIENCE = 60.0  # seconds without a move until a lease may be taken over
DOING = 32  # characters of what a holder says it is doing
POLL = 0.5  # seconds between two looks at a lease that is waited for
LIMIT = 4096  # bytes; no lease is longer
COUNTER = re.compile("[0-9]{10}")
OPEN = os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC  # never waits for a FIFO, never leaves the file


@dataclass(frozen=True)
class Holder(JsonRecord):
    """The process that holds a lease; the contents of the file.

    Parameters
    ----------
    host, machine : str
        Name of the computer, for people; what tells it, see `machine_identity`.
    pid, started : int, str
        Number of the process, and when it was started.
    token, counter : str
        Of this lease alone; ten digits, so that the file keeps its length.
    doing : str or None
        What the process says it is doing, with spaces to a fixed length.
    """

    host: str
    machine: str
    pid: int
    started: str
    token: str
    counter: str
    doing: str | None = field(default=None, metadata=ABSENT)

    def __str__(self) -> str:
        return f"process {self.pid} on host {self.host_name}"

    @property
    def host_name(self) -> str:
        """The name of the computer, fit to be printed."""
        return "".join(c for c in self.host[:64] if c.isprintable())

    @property
    def moves(self) -> int:
        """Number of moves of the counter."""
        return int(self.counter) if COUNTER.fullmatch(self.counter) else 0

    def has_ended(self) -> bool:
        """Whether the process is known to have ended, which can be seen on its machine alone."""
        if not self.machine or self.machine != machine_identity():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except (OSError, OverflowError):  # a process of another user; no number of a process
            pass
        return process_start(self.pid) not in ("", self.started)


class Lease:
    """A lease of this process, which `take` gives. As a context manager it releases itself."""

    def __init__(self, path: Path) -> None:
        pid = os.getpid()
        self.token = secrets.token_hex(8)
        start = {"started": process_start(pid), "token": self.token, "counter": "0" * 10}
        start["doing"] = " " * DOING
        self._holder = Holder(host=platform.node(), machine=machine_identity(), pid=pid, **start)
        self.path = path

    def note(self, doing: str) -> None:
        """Let the file say what the holder is doing, from the next move of the counter on."""
        plain = "".join(c if c.isascii() and (c.isalnum() or c in " /.-") else "?" for c in doing)
        self._holder = replace(self._holder, doing=f"{plain[:DOING]:<{DOING}}")

    def is_mine(self) -> bool:
        """Whether no other process has taken the lease over."""
        return self._is_this(read_lease(self.path) or b"")

    def beat(self) -> None:
        """Move the counter.

        It is written into the open file and not renamed to its name, so that the lease of a process
        that takes it over in this moment is not replaced.
        """
        handle = os.open(self.path, os.O_RDWR | OPEN)
        try:
            if self._is_this(os.read(handle, LIMIT)):
                moved = f"{int(self._holder.counter) + 1:010}"
                self._holder = replace(self._holder, counter=moved)
                os.pwrite(handle, self.contents(), 0)
        finally:
            os.close(handle)

    def release(self) -> None:
        """Give the lease back, if it is still ours."""
        _held.pop(self.token, None)
        if self.is_mine():
            remove(self.path)

    def contents(self) -> bytes:
        """The bytes of the file."""
        return json.dumps(self._holder.to_json()).encode()

    def _is_this(self, contents: bytes) -> bool:
        holder = parse_holder(contents)
        return holder is not None and holder.token == self.token

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def take(path: Path) -> Lease | None:
    """Take a lease in a directory that exists, without waiting; None: another process holds it.

    A lease whose counter has not moved for `PATIENCE` seconds, as seen by calls of this process, is
    taken over.
    """
    lease = Lease(path)
    while is_free(path):
        if create(path, lease.contents()):
            _hold(lease)
            return lease
    return None


def is_free(path: Path) -> bool:
    """Whether no living process holds a lease; an abandoned one is removed. See `take`."""
    there = read_lease(path)
    if there is None:
        _seen.pop(path, None)
        return True
    if not _is_abandoned(path, there):
        return False
    mark = hashlib.sha256(there).hexdigest()[:16]
    right = take(path.with_name(f".{path.name}.{mark}.tmp"))
    if right is None:  # another process is removing it
        return False
    with right:
        if read_lease(path) == there:
            remove(path)
        return read_lease(path) is None


def holder(path: Path) -> Holder | None:
    """The holder of a lease; None if there is none, or the file is damaged."""
    return parse_holder(read_lease(path) or b"")


def wait(
    path: Path, done: Callable[[], bool], what: str, notify: Callable[[str], None]
) -> Lease | None:
    """Take a lease as soon as no living process holds it; None: it is `done()`.

    If there is something to wait for, `notify` takes a sentence on `what` the lease is for.
    """
    waits = False
    while not done():
        lease = take(path)
        if lease is not None and not done():
            return lease
        if lease is not None:
            lease.release()
        elif not waits:
            maker = holder(path) or "another process"
            notify(f"waiting for {what}, which {maker} is making")
            waits = True
        else:
            time.sleep(POLL)
    return None


def lease_path(path: Path) -> Path:
    """The lease on a file or a directory, beside it."""
    return path.with_name(f".{path.name}.lease")


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Be the only process that writes a file, after `sweep`; another one is waited for."""
    if not path.parent.is_dir():
        raise UserError(f"cannot write {path}", f"make {path.parent} first")
    lease = wait(lease_path(path), lambda: False, str(path), lambda _: None)
    with lease or contextlib.nullcontext():
        sweep(path)
        yield


def sweep(path: Path) -> None:
    """Remove what killed processes left beside a file or directory, whose lease is held."""
    name = re.escape(path.name)
    left = re.compile(rf"\.({name}|\.{name}\.lease)\.[^.]+\.tmp")
    for beside in path.parent.iterdir():
        if left.fullmatch(beside.name):
            remove(beside)


def read_lease(path: Path) -> bytes | None:
    """The contents of a lease file: nothing if it cannot be read, None if there is none."""
    try:
        handle = os.open(path, os.O_RDONLY | OPEN)
        try:
            return os.read(handle, LIMIT)
        finally:
            os.close(handle)
    except FileNotFoundError:
        return None
    except OSError:
        return b""


def parse_holder(contents: bytes) -> Holder | None:
    """The holder in the contents of a lease file; None if they are damaged."""
    try:
        return Holder.from_json(parse_json(contents, "the lease"))
    except UserError:
        return None


_held: dict[str, Lease] = {}  # leases of this process, by token
_seen: dict[Path, tuple[bytes, float]] = {}  # leases of others: contents, and since when
_thread: threading.Thread | None = None
_lock = threading.Lock()


def _hold(lease: Lease) -> None:
    """Move the counter of a lease from now on."""
    global _thread
    with _lock:
        _held[lease.token] = lease
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(target=_beat_all, name="leases", daemon=True)
            _thread.start()


def _beat_all() -> None:
    while True:
        time.sleep(BEAT)
        for lease in list(_held.values()):
            with contextlib.suppress(OSError):
                lease.beat()


def _forget() -> None:
    """A forked process holds no lease of its parent."""
    global _lock
    _held.clear()
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)


def _is_abandoned(path: Path, there: bytes) -> bool:
    """Whether the holder has ended, or the file has not changed for `PATIENCE` seconds."""
    known = parse_holder(there)
    if known is not None and known.has_ended():
        return True
    now = time.monotonic()
    before, since = _seen.get(path, (None, now))
    if before != there:
        _seen[path], since = (there, now), now
    return now - since >= PATIENCE


def machine_identity() -> str:
    """The machine since it was started, and its processes that can be seen; empty if not known."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def process_start(pid: int) -> str:
    """The start of a process, `ended` for one that has ended; empty if not known."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return "ended" if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        return ""
