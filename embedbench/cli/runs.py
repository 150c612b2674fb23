"""The commands on directories of runs: status and merge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Json, note, show

runs = typer.Typer(
    name="runs",
    help="Directories of runs: what is being made there, and several into one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@runs.command()
def status(
    root: Annotated[Path, typer.Argument(metavar="RUNS")],
    as_json: Json = False,
) -> None:
    """Say what is finished, being made, waiting or abandoned. Nothing is changed."""
    from embedbench.runs.status import status as look
    from embedbench.terminal import rendered

    from .status_text import status_parts

    now = look(root)
    show(now.to_json(), lambda _: rendered(status_parts(now)), as_json)


@runs.command()
def merge(
    roots: Annotated[list[Path], typer.Argument(metavar="RUNS...")],
    out: Annotated[Path, typer.Option(metavar="RUNS", help="Directory that gets all runs.")],
    as_json: Json = False,
) -> None:
    """Copy the finished runs of several directories into one. Exit 1 if one is left out."""
    from embedbench.runs.merge import merge as merged

    result = merged(roots, out)
    for sentence in result.left_out:
        note(f"left out: {sentence}")
    show(result.to_json(), lambda _: result.sentence, as_json)
    if result.left_out:
        raise typer.Exit(1)
