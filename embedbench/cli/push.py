"""The command push: a file to a place that others can name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .shared_options import Json, Overwrite, Quiet, note, show


def push(
    file: Annotated[Path, typer.Argument(help="An embedding file.")],
    url: Annotated[
        str, typer.Argument(help="hf://datasets/ORG/NAME, or a folder such as s3://bucket/folder.")
    ],
    licence: Annotated[
        str, typer.Option(help="Licence of the data, if the file states none; or 'unknown'.")
    ] = "",
    runs: Annotated[
        Path | None, typer.Option(metavar="RUNS", help="Runs on the file, for a table of them.")
    ] = None,
    parquet: Annotated[
        bool, typer.Option("--parquet", help="Also send Parquet, which the hub shows.")
    ] = False,
    private: Annotated[
        bool, typer.Option("--private", help="Make a new repository on the hub private.")
    ] = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Send an embedding file and a page about it to the Hugging Face hub, or to any URL."""
    from embedbench.sharing.push_file import How
    from embedbench.sharing.push_file import push as send

    how = How(licence, runs, parquet, private, overwrite, quiet)
    result = send(file, url, how, notify=note)
    if result.unchanged:
        note(f"there already: {', '.join(result.unchanged)}")
    if result.sent:
        note(f"sent: {', '.join(result.sent)}")
    show(result.to_json(), lambda _: result.url, as_json)
