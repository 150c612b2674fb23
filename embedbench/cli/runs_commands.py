"""The commands on directories of runs: status, merge, pack, import and track."""

import math
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from embedbench.engines.task_resources import pairs

from . import help_and_usage_errors
from .command_output import note, show, show_tables, with_tables
from .shared_options import Json, Overwrite, check_free

if TYPE_CHECKING:
    from embedbench.runs.merge_runs import MergeResult
    from embedbench.sharing.pack import PackResult


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
    overwrite: Overwrite = False,
) -> None:
    """Score what another tool answered on an exported stream, and keep it as a run."""
    from embedbench.interop.import_answers import import_answers, lacks_references, parse_tool

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
    if lacks_references(run_dir):
        note(
            "Ω is open until its reference runs are there: embedbench run, with what show was "
            f"given, --learner chance and {shlex.join(['--out', str(out)])} makes them"
        )


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
@with_tables
def status(
    root: Annotated[Path, typer.Argument(metavar="RUNS")],
    form: str = "text",
) -> None:
    """Say what is finished, being made, waiting or abandoned. Nothing is changed."""
    from embedbench.runs.runs_status import status as look
    from embedbench.text.table_export import records

    from .runs_status_view import status_parts

    now = look(root)
    data = now.to_json()
    kinds = ("running", "failed", "abandoned")
    rows = [{"state": kind, **row} for kind in kinds for row in records(data[kind])]
    show_tables(form, data, rows, parts=status_parts(now))


@runs.command()
def merge(
    roots: Annotated[list[Path], typer.Argument(metavar="RUNS")],
    out: Annotated[Path, typer.Option(metavar="RUNS", help="Directory that gets all runs.")],
    as_json: Json = False,
) -> None:
    """Copy the finished runs of directories and packs into one. Exit 1 if one is left out."""
    from embedbench.sharing.unpack import merge_packs

    result = merge_packs(roots, out)
    _tell(result, as_json)


@runs.command()
def pack(
    root: Annotated[Path, typer.Argument(metavar="RUNS")],
    out: Annotated[Path, typer.Option(metavar="ZIP", help="The pack.")],
    by: Annotated[str | None, typer.Option(help="Who submits it.")] = None,
    date: Annotated[str | None, typer.Option(help="When, as 2026-11-30.")] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Pack the finished runs for others, without checkpoints and paths. Exit 1 if one is left out.

    The pack names who made it and when only if --by and --date say so.
    """
    from embedbench.sharing.pack import pack as packed

    check_free(out, overwrite)
    result = packed(root, out, by=by, date=date)
    _tell(result, as_json)


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


def _tell(result: "MergeResult | PackResult", as_json: bool) -> None:
    """Print a result, and what it left out; exit 1 if that is anything."""
    for sentence in result.left_out:
        note(f"left out: {sentence}")
    show(result.to_json(), result.sentence, as_json)
    if result.left_out:
        raise typer.Exit(1)
