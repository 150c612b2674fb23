"""`embedbench runs import`."""

from __future__ import annotations

import math
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from embedbench.engines.task import pairs

from .options import Overwrite, note


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
    from embedbench.runs.imported import import_answers, lacks_references, parse_tool

    given = pairs("--set", settings or ())
    place = import_answers(
        answers,
        stream,
        out,
        name=name,
        tool=parse_tool(tool),
        settings={key: _number(value) for key, value in given.items()},
        command=shlex.join(["embedbench", *sys.argv[1:]]),
        overwrite=overwrite,
    )
    note(f"imported {name}: {place}")
    if lacks_references(place):
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
