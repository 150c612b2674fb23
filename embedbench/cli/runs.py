"""The commands on directories of runs: status, merge and pack."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Json, Overwrite, check_free, note, show

runs = typer.Typer(
    name="runs",
    help="Directories of runs: what is being made there, several into one, one for others.",
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
    """Copy the finished runs of directories and packs into one. Exit 1 if one is left out."""
    from embedbench.sharing.unpack import merge_packs

    result = merge_packs(roots, out)
    for sentence in result.left_out:
        note(f"left out: {sentence}")
    show(result.to_json(), lambda _: result.sentence, as_json)
    if result.left_out:
        raise typer.Exit(1)


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
    for sentence in result.left_out:
        note(f"left out: {sentence}")
    show(result.to_json(), lambda _: result.sentence, as_json)
    if result.left_out:
        raise typer.Exit(1)
