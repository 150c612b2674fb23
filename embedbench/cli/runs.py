"""The commands on directories of runs: status, merge and track."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Json, note, show

runs = typer.Typer(
    name="runs",
    help="Directories of runs: what is being made there, several into one, to trackers.",
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
    from embedbench.reports.tracking import track as replay

    replays = replay(root, to, tell=note, watch=10.0 if watch else None)
    note(f"runs replayed: {replays}")
