"""A progress bar on stderr; silent when piped or with `--quiet`.

`runs status` prints the same view.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from embedbench.text.printable_text import printable

Advance = Callable[..., None]


@contextmanager
def bar(unit: str, quiet: bool) -> Iterator[Advance]:
    """Yield the function that moves a bar: (done, total), and maybe a text before or after."""
    if quiet or not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich import progress
    from rich.console import Console
    from rich.theme import Theme

    columns: list[Any] = [
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[rate]}"),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
    ]
    plain = {f"progress.{what}": "none" for what in ("download", "elapsed", "remaining")}
    console = Console(stderr=True, theme=Theme(plain))  # yellow cannot be read on white
    with progress.Progress(*columns, console=console, transient=True) as display:
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
