"""Progress on stderr, silent when piped or `--quiet`: a bar, or a view of all runs of a grid."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedbench.errors import printable

from .runs_status_text import status_parts

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

    from embedbench.runs.runs_status import Status, Watcher

Advance = Callable[..., None]
SHARE = 0.05  # of the time may be spent on looking at the runs


@contextmanager
def bar(unit: str, quiet: bool) -> Iterator[Advance]:
    """Yield the function that moves a bar: (done, total), and maybe a text before or after."""
    if quiet or not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.theme import Theme

    columns: list[Any] = [
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    ]
    plain = {f"progress.{what}": "none" for what in ("download", "elapsed", "remaining")}
    console = Console(stderr=True, theme=Theme(plain))  # yellow cannot be read on white
    with Progress(*columns, console=console, transient=True) as display:
        task = display.add_task(unit, total=None, rate="")

        def advance(*what: str | int) -> None:
            done, total = (w for w in what if isinstance(w, int))
            text = next((w for w in what if isinstance(w, str) and w), unit)
            speed = display.tasks[0].speed
            rate = "" if speed is None or unit == "runs" else f"{speed:.1f} {unit}/s"
            display.update(
                task, completed=done, total=total, description=printable(text), rate=rate
            )

        yield advance


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
