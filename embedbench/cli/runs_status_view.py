"""The view of all runs of a directory: of `runs status`, and live while a grid runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from embedbench.text.terminal_text import leave_out, line, new_table

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table
    from rich.text import Text

    from embedbench.runs.runs_status import Running, Status, Watcher


UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def status_parts(
    status: Status, width: int | None = None, rows: int | None = None
) -> list[Text | Table]:
    """One or two lines on all runs, a table of those being made, a line for each that is not.

    Parameters
    ----------
    width : int or None
        Columns for the table, which loses some of its own where there are too few; None: any.
    rows : int or None
        Lines that there is room for: each is cut to its width; None: any number.
    """
    parts: list[Text | Table] = [line(text, "bold") for text in summary(status)]
    others = [f"failed: {f.cell}: {f.reason}" for f in status.failed]
    others += [
        f"abandoned: {a.cell}, checkpoint of {duration(a.seconds)} ago" for a in status.abandoned
    ]
    room = len(others) + len(status.running) if rows is None else max(0, rows - len(parts) - 2)
    running = status.running[: max(0, room - min(len(others), room // 2))]
    others, more = others[: room - len(running)], len(others) + len(status.running) - room
    if running:
        table = _table(running)
        if width is not None:
            leave_out(table, width)
        parts.append(table)
    for text in map(line, others):
        if rows is not None:
            text.no_wrap, text.overflow = True, "ellipsis"
        parts.append(text)
    if more > 0:
        parts.append(line(f"… and {more} more", "dim"))
    return parts


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


def _table(running: tuple[Running, ...]) -> Table:
    table = new_table(["running", "session", "for", "process"])
    for c in running:
        session = "–" if c.session is None else f"{c.session} of {c.sessions}"
        where = f"{c.pid} on {c.host.partition('.')[0]}"
        table.add_row(*map(line, (c.cell, session, duration(c.seconds), where)))
    return table


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

    from embedbench.runs.runs_status import Watcher

    view = GridView(Watcher(root))
    with Live(view, console=Console(stderr=True), refresh_per_second=1, transient=True):
        yield


class GridView:
    """The state that a watcher sees, whenever it is drawn.

    Parameters
    ----------
    watcher : Watcher
        Looks at the directory of runs; less often where that takes long.
    """

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._status: Status | None = None
        self._next = 0.0

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Draw one line on all runs, and a table of those being made."""
        began = time.monotonic()
        if began >= self._next:
            with suppress(OSError):  # it changes while it is looked at
                now = self._watcher.look()
                if now.planned is not None:  # none before the grid runs, and after
                    self._status = now
            self._next = began + (time.monotonic() - began) / SHARE
        if self._status is None:
            yield "planning the runs"
        else:
            yield from status_parts(self._status, options.max_width, console.height - 1)
