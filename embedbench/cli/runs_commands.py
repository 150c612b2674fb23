"""The commands on directories of runs: status, merge, pack, import, track."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from embedbench.config.plain_numbers import plain_number
from embedbench.engines.engine_tasks import pairs
from embedbench.errors import UserError
from embedbench.runs.progress_line import duration
from embedbench.text.table_export import records
from embedbench.text.terminal_text import line, new_table
from embedbench.text.undecoded_text import join_words

from . import help_and_usage_errors
from . import shared_options as shared
from .command_output import note, show, show_tables

if TYPE_CHECKING:
    from embedbench.runs import runs_status

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
    from embedbench.interop import exported_stream
    from embedbench.interop.import_answers import import_answers, parse_tool

    given = pairs("--set", settings or ())
    run_dir = import_answers(
        answers,
        stream,
        out,
        name=name,
        tool=parse_tool(tool),
        settings={key: _number(value) for key, value in given.items()},
        command=join_words(["embedbench", *sys.argv[1:]]),
        overwrite=overwrite,
        notify=lambda sentence: note(f"note: {sentence}"),
    )
    note(f"imported {name}: {run_dir}")
    for sentence in exported_stream.label_notes(exported_stream.load(stream)[0]):
        note(f"note: {sentence}")


def _number(text: str) -> int | float | str:
    """A number that a text holds, else the text."""
    number = plain_number(text)
    return text if number is None else number


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
    """Say what is finished, being made or abandoned. Nothing is changed."""

    from embedbench.runs import runs_status

    now = runs_status.status(root)
    data = now.to_json()
    rows: list[dict[str, Any]] = []
    for state in ("running", "abandoned"):
        rows += [{"state": state, **row} for row in records(data[state])]
    show_tables(form, data, rows, parts=status_parts(now))


@runs.command()
def merge(
    roots: Annotated[list[Path], typer.Argument(metavar="RUNS")],
    out: Annotated[Path, typer.Option(metavar="RUNS", help="Directory that gets all runs.")],
    as_json: shared.Json = False,
) -> None:
    """Copy the finished runs of directories and packs into one. Exit 1 if one is left out."""
    from embedbench.sharing import pack as packs

    result = packs.merge_packs(roots, out)
    for sentence in result.left_out:
        note(f"left out: {sentence}")
    show(result.to_json(), result.sentence, as_json)
    if result.left_out:
        raise typer.Exit(1)


@runs.command()
def pack(
    root: Annotated[Path, typer.Argument(metavar="RUNS")],
    out: Annotated[Path, typer.Option(metavar="ZIP", help="The pack.")],
    by: Annotated[str | None, typer.Option(help="Who submits it.")] = None,
    date: Annotated[str | None, typer.Option(help="When, as 2026-11-30.")] = None,
    url: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE=URL", help="Where others get an embedding file; repeatable."),
    ] = None,
    answers_only: Annotated[
        bool, typer.Option("--answers-only", help="Leave out how sure a learner was: fewer bytes.")
    ] = False,
    overwrite: shared.Overwrite = False,
    as_json: shared.Json = False,
) -> None:
    """Pack the finished runs for others, without checkpoints and paths.

    The pack names who made it and when only if --by and --date say so.
    """
    from embedbench.sharing import pack as packs

    shared.check_free(out, overwrite)
    urls = dict(_name_and_url(text) for text in url or ())
    result = packs.pack(root, out, by=by, date=date, urls=urls, answers_only=answers_only)
    show(result.to_json(), result.sentence, as_json)


@runs.command()
def track(
    root: Annotated[Path, typer.Argument(metavar="RUNS")],
    to: Annotated[
        list[str],
        typer.Option(help="tensorboard:DIR, wandb:PROJECT or package.mod:Name:TARGET; repeatable."),
    ],
) -> None:
    """Replay finished runs to trackers; what a tracker has got before is skipped."""
    from embedbench.reports.trackers import track as replay

    replays = replay(root, to, notify=note)
    note(f"runs replayed: {replays}")


def _name_and_url(text: str) -> tuple[str, str]:
    """The two parts of FILE=URL."""
    name, equals, url = text.partition("=")
    if not equals:
        raise UserError("--url", expected="FILE=URL, such as emoji.h5=https://…", got=text)
    return name, url


def status_parts(status: runs_status.Status) -> list[Part]:
    """A line on all runs, a table of those being made, a line for each that is abandoned."""
    kinds = {"running": len(status.running), "abandoned": len(status.abandoned)}
    counts = [f"{status.finished} finished", *(f"{n} {kind}" for kind, n in kinds.items() if n)]
    parts: list[Part] = [line(" · ".join(counts), "bold")]
    if status.running:
        table = new_table(["running", "session", "for", "process"])
        for c in status.running:
            session = "–" if c.session is None else f"{c.session} of {c.sessions}"
            if c.trials is not None:
                session = f"{c.trials_done} of {c.trials} trials done"
            where = f"{c.pid} on {c.host.partition('.')[0]}"
            table.add_row(*map(line, (c.run, session, duration(c.seconds), where)))
        parts.append(table)
    old = [f"abandoned: {a.run}, {_kept(a)} of {duration(a.seconds)} ago" for a in status.abandoned]
    return [*parts, *map(line, old)]


def _kept(left: runs_status.AbandonedRun) -> str:
    """What an abandoned run or search goes on from."""
    return "trials" if left.run.endswith(".json") else "checkpoint"
