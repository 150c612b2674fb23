"""Who holds a lease, read from its file without touching it; see `embedbench.storage.leases`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from embedbench.config.json_types import ABSENT, JsonRecord, parse_json
from embedbench.errors import UserError
from embedbench.system import cpu

LIMIT = 4096  # bytes; no lease is longer
COUNTER = re.compile("[0-9]{10}")
OPEN = os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC  # never waits for a FIFO, never leaves the file


@dataclass(frozen=True)
class Holder(JsonRecord):
    """The process that holds a lease; the contents of the file.

    Parameters
    ----------
    host, machine : str
        Name of the computer, for people; what tells it, see `system.cpu.system`.
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
        """How often the counter has moved."""
        return int(self.counter) if COUNTER.fullmatch(self.counter) else 0


def has_ended(holder: Holder) -> bool:
    """Whether a process is known to have ended, which can be seen on its machine alone."""
    if not holder.machine or holder.machine != cpu.system():
        return False
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # a process of another user; no number of a process
        pass
    return cpu.process_start(holder.pid) not in ("", holder.started)


def read_lease(path: Path) -> bytes | None:
    """What a lease file holds: nothing if it cannot be read, None if there is none."""
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
