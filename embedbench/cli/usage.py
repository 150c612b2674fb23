"""How typer's messages look here: a wrong command line is one sentence, and help is short."""

from __future__ import annotations

import sys
from typing import Any, cast

import typer
from typer.core import TyperGroup

from embedbench.errors import printable

# Typer does not export it.
UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])
HIDDEN = ("install_completion", "show_completion")  # options that work, but are not in the help


class Commands(TyperGroup):
    """The commands. A wrong option, argument or command ends with one sentence and exit code 2."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The options before the command; those of completion are not in the help."""
        params = super().get_params(ctx)
        for param in params:
            if param.name in HIDDEN:
                param.hidden = True  # type: ignore[attr-defined]
        return list(params)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options before the command."""
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            raise _ended(error, ctx) from error

    def invoke(self, ctx: Any) -> Any:
        """Read the command's options, and run it."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            raise _ended(error, ctx) from error


def _ended(error: Any, ctx: Any) -> BaseException:
    """Print the sentence; help that was asked for by no arguments is left to typer."""
    if type(error).__name__ == "NoArgsIsHelpError":
        return error  # type: ignore[no-any-return]
    sentence = printable(error.format_message()).rstrip(".")
    path = (error.ctx or ctx).command_path
    see = " See" if sentence.endswith("?") else "; see"
    words = f"{sentence[:1].lower()}{sentence[1:]}{see} {path} --help"
    print(f"embedbench: {words}", file=sys.stderr)
    return typer.Exit(2)
