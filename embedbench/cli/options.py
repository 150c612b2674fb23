"""What the commands share: options and output."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from embedbench.errors import UserError

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")]
Checkpoint = Annotated[
    float, typer.Option(metavar="SECONDS", help="Least time between two checkpoints.", min=0)
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]


def show(data: Any, text: Callable[[Any], str], as_json: bool) -> None:
    """Print data to stdout, as JSON or as text."""
    print(json.dumps(data, indent=1) if as_json else text(data))


def note(sentence: str) -> None:
    """Print a remark to stderr."""
    print(sentence, file=sys.stderr)


def check_free(path: Path, overwrite: bool) -> None:
    """Refuse to replace a file, unless `--overwrite` was given."""
    if path.exists() and not overwrite:
        raise UserError(f"{path} is there already; name another file or add --overwrite")


def chosen_device(name: str) -> str:
    """The device that `--device` names; refused if it cannot be used here."""
    if name == "cpu":
        return name
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as e:
        reason = str(e).partition("\n")[0]
        raise UserError(f"device {name!r} cannot be used here ({reason}); try --device cpu") from e
    return name
