"""What long work says of itself: what it is, how far, how long so far, how long still.

A terminal has a bar. A file, a pipe or the log of a cluster's job gets a line every `EVERY`
seconds, from a thread of its own: work that calls nobody for an hour gives signs of life too.
A notebook has one line, which is written over.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from embedbench.text.printable_text import printable

OFTEN = 2.0  # seconds between two states of a notebook's line
EVERY = 20.0  # seconds between two lines: less than half a minute, also where a thread must wait
JOIN = 1.0  # seconds that the end of the work waits for a line that is being written


class AtWork(NamedTuple):
    """What is being made at a moment: a text, and the done parts of it, as 0.5 of one run."""

    text: str = ""
    parts: float = 0.0


def _nothing() -> AtWork:
    return AtWork()


class Progress:
    """How far a piece of work is. Calling it moves it: (done, total), maybe a text before or after.

    Parameters
    ----------
    what : str
        The command, or what is counted where it counts one thing alone: epochs.
    clock : callable
        Seconds that only grow.
    """

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.what, self.unit, self.text, self.limit = what, "", "", ""
        self.done = self.failed = 0
        self.total: int | None = None
        self._clock, self._at_work = clock, _nothing
        self._began = clock()
        self._since = self._began, 0.0  # where the pace is counted from: when, and what was done
        self.draw: Callable[[], None] = lambda: None
        self.say: Callable[[str], None] = lambda _: None

    def __call__(self, *what: str | int) -> None:
        """Move it; a total that changes, or fewer done than before, is a new piece of work."""
        done, total = (w for w in what if isinstance(w, int))
        if total != self.total or done < self.done:
            self._since = self._clock(), float(done)
        self.text = next((w for w in what if isinstance(w, str) and w), "")
        self.done, self.total = done, total
        self.draw()

    def fail(self, sentence: str = "") -> None:
        """Count one of those done as failed, and say why at once."""
        self.failed += 1
        if sentence:
            self.say(printable(sentence))

    def say_limit(self, text: str) -> None:
        """Say what limits the pace."""
        self.limit = text

    def stage(self, unit: str, at_work: Callable[[], AtWork] = _nothing) -> "Progress":
        """Begin a piece of work that counts `unit`, files, runs or trials.

        `at_work` is asked for each line.
        """
        self.unit, self.text, self.limit, self._at_work = unit, "", "", at_work
        self.done, self.failed, self.total = 0, 0, None
        self.draw()
        return self

    def coming_stage(
        self, unit: str, at_work: Callable[[], AtWork] = _nothing
    ) -> Callable[..., None]:
        """A piece of work that begins when it is first moved."""

        def move(*step: str | int) -> None:
            if self.unit != unit:
                self.stage(unit, at_work)
            self(*step)

        return move

    def sentence(self) -> str:
        """One line on this moment.

        >>> seconds = iter([0, 0, 30])
        >>> files = Progress("extract", lambda: next(seconds)).stage("files")
        >>> files(0, 400), files(100, 400), files.say_limit("decoding is the limit")
        (None, None, None)
        >>> files.sentence()
        'extract: 100 of 400 files · 0:00:30 so far · about 0:01:30 left · decoding is the limit'
        """
        at_work = self._at_work()
        now = self._clock()
        done, total = self.done, self.total  # a stage may begin meanwhile, in another thread
        said = [self.what, f"{duration(now - self._began)} so far"]
        if total is not None:
            said[0] += f": {done:,} of {total:,} {self.unit}".rstrip()
            if self.failed:
                said[0] += f", {self.failed:,} failed"
            if done < total:
                said.append(self._left(now, done + at_work.parts, total))
        said += filter(None, [at_work.text or self.text, self.limit])
        return printable(" · ".join(said))

    def _left(self, now: float, done: float, total: int) -> str:
        """How long still, at the pace since this piece of work began."""
        since, before = self._since
        moved = done - before
        if moved <= 0:
            return "time left not known yet"
        left = max(0.0, total - done)
        return f"about {duration(left * (now - since) / moved)} left"


class RunsAtWork:
    """The runs of a command that are being made, as their leases say; `plan` gets all its runs."""

    MOST = 3  # runs that a line names

    def __init__(self) -> None:
        self._labels: Mapping[Path, str] = {}

    def plan(self, labels: Mapping[Path, str]) -> None:
        """Take the directories of the runs, and their names in sentences."""
        self._labels = labels

    def __call__(self) -> AtWork:
        """Look who holds a lease now."""
        from .runs_status import at_work

        said = list[str]()
        parts = 0.0
        for run_dir, run in at_work(self._labels):
            said.append(self._labels[run_dir])
            if run.session and run.sessions:
                said[-1] += f" (session {run.session} of {run.sessions})"
                parts += (run.session - 1) / run.sessions
        more = [f"and {len(said) - self.MOST} more"] if len(said) > self.MOST else []
        return AtWork(", ".join(said[: self.MOST] + more), parts)


@contextmanager
def show_progress(what: str, write: Callable[[str], None], quiet: bool) -> Iterator[Progress]:
    """Yield the `Progress` of work: a bar in a terminal; elsewhere `write` takes its lines."""
    progress = Progress(what)
    if quiet:
        yield progress
        return
    progress.say = write
    if _is_terminal():
        with _bar(progress):
            yield progress
    elif _is_notebook():
        with _one_line(progress):
            yield progress
    else:
        with _lines(progress, write, EVERY):
            yield progress


def _is_terminal() -> bool:
    """Whether stderr can redraw a line."""
    return sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def _is_notebook() -> bool:
    """Whether stderr is that of a notebook, where a line can be written over."""
    return type(sys.stderr).__module__.partition(".")[0] == "ipykernel"


@contextmanager
def _one_line(progress: Progress) -> Iterator[None]:
    """Write one line over and over until the work ends; it is gone then."""
    width = 0

    def write(sentence: str) -> None:
        nonlocal width
        print("\r" + sentence.ljust(width), end="", file=sys.stderr, flush=True)
        width = max(width, len(sentence))

    with _lines(progress, write, OFTEN):
        yield
    if width:
        print("\r" + " " * width + "\r", end="", file=sys.stderr, flush=True)


@contextmanager
def _lines(progress: Progress, write: Callable[[str], None], every: float) -> Iterator[None]:
    """Write a line every so many seconds until the work ends."""
    ended = threading.Event()

    def write_lines() -> None:
        while not ended.wait(every):
            try:
                write(progress.sentence())
            except (OSError, ValueError):  # nobody reads any more, or the disk is full
                return

    writer = threading.Thread(target=write_lines, name="progress", daemon=True)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join(JOIN)


@contextmanager
def _bar(progress: Progress) -> Iterator[None]:
    """Draw a bar, which is gone when the work ends."""
    from rich import progress as bars
    from rich.console import Console

    columns: list[Any] = [
        bars.TextColumn("{task.description}", markup=False),
        bars.BarColumn(bar_width=14),  # 80 columns hold the rest too
        bars.MofNCompleteColumn(),
        bars.TimeElapsedColumn(),
        bars.TimeRemainingColumn(),
    ]
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task(progress.what, total=None)

        def draw() -> None:
            said = [progress.text or progress.unit or progress.what]
            if progress.limit:
                said.append(progress.limit.partition(" (")[0])
            if progress.failed:
                said.insert(0, f"{progress.failed} failed")
            text = printable(" · ".join(filter(None, said)))
            display.update(task, completed=progress.done, total=progress.total, description=text)

        progress.draw = draw
        yield


def duration(seconds: float) -> str:
    """Seconds as hours, minutes and seconds.

    >>> duration(3725.4)
    '1:02:05'
    """
    return str(timedelta(seconds=int(seconds)))
