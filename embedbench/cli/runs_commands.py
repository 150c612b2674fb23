"""The commands on directories of runs: status, merge, pack, import, track; a live view of runs."""

from __future__ import annotations

import math
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from embedbench.engines.engine_tasks import pairs
from embedbench.text.table_export import records
from embedbench.text.terminal_text import line, new_table, render_text

from . import help_and_usage_errors
from . import shared_options as shared
from .command_output import note, show, show_tables

if TYPE_CHECKING:
    from embedbench.runs import merge_runs, runs_status
    from embedbench.sharing.pack import PackResult

    from .command_output import Part


# --- runs import ---


def import_command(
    answers: Annotated[Path, typer.Argument(metavar="ANSWERS", help="Scores or answers, npz.")],
    stream: Annotated[Path, typer.Option(metavar="DIR", help="What show --export DIR wrote.")],
    name: Annotated[str, typer.Option(help="Name of the method in tables: avalanche-replay.")],
    tool: Annotated[str, typer.Option(help="The tool and its version: avalanche-lib==0.6.0.")],
    out: Annotated[Path, typer.Option(metavar="RUNS", help="Directory of the run records.")],
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Settings of the method: lr=0.1, …")
    ] = None,
    overwrite: shared.Overwrite = False,
) -> None:
    """Score what another tool answered on an exported stream, and keep it as a run."""
    from embedbench.interop.import_answers import import_answers, parse_tool

    given = pairs("--set", settings or ())
    run_dir = import_answers(
        answers,
        stream,
        out,
        name=name,
        tool=parse_tool(tool),
        settings={key: _number(value) for key, value in given.items()},
        command=shlex.join(["embedbench", *sys.argv[1:]]),
        overwrite=overwrite,
    )
    note(f"imported {name}: {run_dir}")


def _number(text: str) -> int | float | str:
    """A number that a text holds, else the text."""
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if math.isfinite(value):
            return value
    return text


runs = help_and_usage_errors.App(
    name="runs",
    help="Directories of runs: their state, several into one, for others, to trackers.",
)
runs.command("import")(import_command)


@runs.command()
@shared.with_tables
def status(
    root: Annotated[Path, typer.Argument(metavar="RUNS")],
    form: str = "text",
) -> None:
    """Say what is finished, being made, waiting or abandoned. Nothing is changed."""

    from embedbench.runs import runs_status

    now = runs_status.status(root)
    data = now.to_json()
    kinds = ("running", "failed", "abandoned")
    rows = [{"state": kind, **row} for kind in kinds for row in records(data[kind])]
    show_tables(form, data, rows, parts=status_parts(now))


@runs.command()
def merge(
    roots: Annotated[list[Path], typer.Argument(metavar="RUNS")],
    out: Annotated[Path, typer.Option(metavar="RUNS", help="Directory that gets all runs.")],
    as_json: shared.Json = False,
) -> None:
    """Copy the finished runs of directories and packs into one. Exit 1 if one is left out."""
    from embedbench.sharing import pack as packs

    _tell(packs.merge_packs(roots, out), as_json)


@runs.command()
def pack(
    root: Annotated[Path, typer.Argument(metavar="RUNS")],
    out: Annotated[Path, typer.Option(metavar="ZIP", help="The pack.")],
    by: Annotated[str | None, typer.Option(help="Who submits it.")] = None,
    date: Annotated[str | None, typer.Option(help="When, as 2026-11-30.")] = None,
    overwrite: shared.Overwrite = False,
    as_json: shared.Json = False,
) -> None:
    """Pack the finished runs for others, without checkpoints and paths. Exit 1 if one is left out.

    The pack names who made it and when only if --by and --date say so.
    """
    from embedbench.sharing import pack as packs

    shared.check_free(out, overwrite)
    _tell(packs.pack(root, out, by=by, date=date), as_json)


@runs.command()
def track(
    root: Annotated[Path, typer.Argument(metavar="RUNS")],
    to: Annotated[
        list[str],
        typer.Option(help="tensorboard:DIR, wandb:PROJECT or package.mod:Name:TARGET; repeatable."),
    ],
    watch: Annotated[
        bool, typer.Option("--watch", help="Look for new runs until Ctrl-C, every ten seconds.")
    ] = False,
) -> None:
    """Replay finished runs to trackers; what a tracker has got before is skipped."""
    from embedbench.reports.trackers import track as replay

    replays = replay(root, to, notify=note, watch=10.0 if watch else None)
    note(f"runs replayed: {replays}")


def _tell(result: merge_runs.MergeResult | PackResult, as_json: bool) -> None:
    """Print a result, and what it left out; exit 1 if that is anything."""
    for sentence in result.left_out:
        note(f"left out: {sentence}")
    show(result.to_json(), result.sentence, as_json)
    if result.left_out:
        raise typer.Exit(1)


# --- the view of all runs of a directory ---


def status_parts(status: runs_status.Status) -> list[Part]:
    """One or two lines on all runs, a table of those being made, a line for each that is not."""
    others = [f"failed: {f.cell}: {f.reason}" for f in status.failed]
    others += [
        f"abandoned: {a.cell}, checkpoint of {duration(a.seconds)} ago" for a in status.abandoned
    ]
    return [*running_parts(status), *map(line, others)]


def running_parts(status: runs_status.Status) -> list[Part]:
    """One or two lines on all runs, and a table of those being made."""
    parts: list[Part] = [line(text, "bold") for text in summary(status)]
    if not status.running:
        return parts
    table = new_table(["running", "session", "for", "process"])
    for c in status.running:
        session = "–" if c.session is None else f"{c.session} of {c.sessions}"
        where = f"{c.pid} on {c.host.partition('.')[0]}"
        table.add_row(*map(line, (c.cell, session, duration(c.seconds), where)))
    return [*parts, table]


def fitted_text(status: runs_status.Status | None, width: int, height: int) -> str:
    """The runs that are being made, in the lines and columns of a terminal."""
    if status is None:
        return "planning the runs"
    lines = render_text(running_parts(status), width=width).split("\n")
    left_out = len(lines) - height + 2
    return "\n".join(lines if left_out < 2 else [*lines[:-left_out], f"… and {left_out} more"])


def summary(status: runs_status.Status) -> list[str]:
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


def _left(status: runs_status.Status) -> list[str]:
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
    minutes, s = divmod(int(seconds), 60)
    hours, m = divmod(minutes, 60)
    parts = [(hours // 24, "d"), (hours % 24, "h"), (m, "min"), (s, "s")]
    while len(parts) > 1 and not parts[0][0]:
        parts.pop(0)
    return " ".join(f"{n} {unit}" for n, unit in parts[:2] if n or len(parts) == 1)


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

    from embedbench.runs import runs_status

    watcher, console = runs_status.Watcher(root), Console(stderr=True)
    seen: runs_status.Status | None = None
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
