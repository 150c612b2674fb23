"""The view of all runs of a directory: of `runs status`, and live while a grid runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from embedbench.text.terminal_text import line, new_table, render_text

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from embedbench.runs.runs_status import Status


UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def status_parts(status: Status) -> list[Text | Table]:
    """One or two lines on all runs, a table of those being made, a line for each that is not."""
    others = [f"failed: {f.cell}: {f.reason}" for f in status.failed]
    others += [
        f"abandoned: {a.cell}, checkpoint of {duration(a.seconds)} ago" for a in status.abandoned
    ]
    return [*running_parts(status), *map(line, others)]


def running_parts(status: Status) -> list[Text | Table]:
    """One or two lines on all runs, and a table of those being made."""
    parts: list[Text | Table] = [line(text, "bold") for text in summary(status)]
    if not status.running:
        return parts
    table = new_table(["running", "session", "for", "process"])
    for c in status.running:
        session = "–" if c.session is None else f"{c.session} of {c.sessions}"
        where = f"{c.pid} on {c.host.partition('.')[0]}"
        table.add_row(*map(line, (c.cell, session, duration(c.seconds), where)))
    return [*parts, table]


def fitted_text(status: Status | None, width: int, height: int) -> str:
    """The runs that are being made, in the lines and columns of a terminal."""
    if status is None:
        return "planning the runs"
    lines = render_text(running_parts(status), width=width).split("\n")
    left_out = len(lines) - height + 2
    return "\n".join(lines if left_out < 2 else [*lines[:-left_out], f"… and {left_out} more"])


def summary(status: Status) -> list[str]:
    """Count runs that are finished, being made and waiting; estimate how long they may take."""
    kinds = {"running": len(status.running), "abandoned": len(status.abandoned)}
    if status.planned is None:
        counts = [f"{status.finished} finished", *(f"{n} {kind}" for kind, n in kinds.items() if n)]
        return [" · ".join(counts)]
    kinds = {"running": kinds["running"], "waiting": status.waiting or 0}
    kinds |= {"failed": len(status.failed), "abandoned": len(status.abandoned)}
    counts = [f"{status.done} of {count_in_words(status.planned, 'run')} done"]
    counts += [f"{n} {kind}" for kind, n in kinds.items() if n]
    return [" · ".join(counts), *_left(status)]


def _left(status: Status) -> list[str]:
    if not status.running and not status.waiting:
        return []
    if status.seconds_left is None:
        return ["time left not known yet"]
    parts = [f"about {duration(status.seconds_left)}"] if status.seconds_left >= 1 else []
    if status.unknown:
        parts.append(f"{count_in_words(status.unknown, 'run')} of unknown length")
    return [f"{' and '.join(parts or ['less than 1 s'])} left"]


def count_in_words(number: int, what: str) -> str:
    """A number of things, in the plural where it is one."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def duration(seconds: float) -> str:
    """Seconds in the two largest units.

    >>> [duration(s) for s in (0.4, 59.9, 61, 3 * 3600 + 125, 90000)]
    ['0 s', '59 s', '1 min 1 s', '3 h 2 min', '1 d 1 h']
    """
    left = int(seconds)
    parts: list[str] = []
    for unit, size in UNITS:
        number, left = divmod(left, size)
        if parts or number or unit == "s":
            parts.append(f"{number} {unit}")
    return " ".join(p for p in parts[:2] if not (p.startswith("0 ") and len(parts) > 1))


SHARE = 0.05  # of the time may be spent on looking at the runs


@contextmanager
def live(root: Path, quiet: bool) -> Iterator[None]:
    """Show the runs of the grids that run in a directory, as `embedbench runs status` does."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from embedbench.runs.runs_status import Watcher

    watcher, console = Watcher(root), Console(stderr=True)
    seen: Status | None = None
    next_look = 0.0

    def view() -> Text:
        nonlocal seen, next_look
        began = time.monotonic()
        if began >= next_look:
            with suppress(OSError):  # it changes while it is looked at
                now = watcher.look()
                if now.planned is not None:  # none before the grid runs, and after
                    seen = now
            next_look = began + (time.monotonic() - began) / SHARE
        return Text(fitted_text(seen, *console.size))

    with Live(get_renderable=view, console=console, refresh_per_second=1, transient=True):
        yield
