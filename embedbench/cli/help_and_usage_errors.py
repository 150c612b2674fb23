"""Help in groups, and one sentence for a wrong command line."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import typer
from typer.core import TyperCommand

# Typer does not export it.
UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])
FEW = 12  # options that need no headings
# The headings of the others, and the options below each.
GROUPS = {
    "Network": "trunk weights augment backbone layers dtype size",
    "Tuning": "tune tune_sessions tune_seeds budget_mb",
    "Study": "config allow_code save_config shard unknown",
    "Machine": "jobs engine resources engine_set threads device checkpoint",
    "Columns": "columns domain_from group_from",
    "Provenance": "licence citation url backbone_name weights_licence pretrained_on",
    "Output": "overwrite as_json quiet markdown latex csv",
}
HEADINGS = {name: heading for heading, names in GROUPS.items() for name in names.split()}
Function = TypeVar("Function", bound=Callable[..., Any])


class App(typer.Typer):
    """Commands that look as in this file."""

    def __init__(self, **given: Any) -> None:
        super().__init__(no_args_is_help=True, pretty_exceptions_enable=False, **given)

    def command(self, name: str | None = None, **given: Any) -> Callable[[Function], Function]:
        """Register a command; see typer."""
        return super().command(name, cls=Command, **given)


class Command(TyperCommand):
    """One command: a long help has headings."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The arguments and options."""
        params: list[Any] = super().get_params(ctx)
        for param in params if len(params) > FEW else ():
            if param.param_type_name == "option":
                param.rich_help_panel = HEADINGS.get(str(param.name))
        return params


def usage_sentence(error: Any) -> str:
    """The sentence on a wrong command line; of one without words, whose help is printed, none."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return ""
    sentence = error.format_message().rstrip(".")
    see = " See" if sentence.endswith("?") else "; see"
    command = error.ctx.command_path if error.ctx else "embedbench"  # raised inside a command
    return f"{sentence[:1].lower()}{sentence[1:]}{see} {command} --help"
