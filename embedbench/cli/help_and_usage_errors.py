"""Help in groups, and one sentence for a wrong command line, in place of typer's.

By hand, since typer has groups only with rich, which draws boxes and cuts sentences.
"""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar, cast

import typer
from typer.core import TyperCommand, TyperGroup

# Typer does not export it.
UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])
FEW = 12  # options that need no headings
# The headings of the others, and the options below each.
GROUPS = {
    "Network": "trunk weights augment backbone layers dtype size",
    "Tuning": "preset tune tune_sessions tune_seeds trials budget_mb budget_passes",
    "Study": "config allow_code save_config shard unknown",
    "Machine": "jobs engine resources engine_set threads device checkpoint",
    "Columns": "columns domain_from group_from time_from",
    "Provenance": "licence citation url backbone_name weights_licence pretrained_on",
    "Output": "overwrite as_json quiet markdown latex csv",
}
HEADINGS = {name: heading for heading, names in GROUPS.items() for name in names.split()}
WORDS = {"str": "TEXT", "int": "N", "float": "NUMBER", "path": "PATH"}  # for types of values
Function = TypeVar("Function", bound=Callable[..., Any])


class App(typer.Typer):
    """Commands that look as in this file."""

    def __init__(self, **given: Any) -> None:
        super().__init__(
            cls=Commands,
            no_args_is_help=True,
            pretty_exceptions_enable=False,
            rich_markup_mode=None,
            **given,
        )

    def command(self, name: str | None = None, **given: Any) -> Callable[[Function], Function]:
        """Register a command; see typer."""
        return super().command(name, cls=Command, **given)


class Command(TyperCommand):
    """One command: an option that takes one value is given once; a long help has headings."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options; without the check typer would keep the last of two values."""
        order = self.make_parser(ctx).parse_args(list(args))[2]
        for param, times in Counter(order).items():
            takes_one = not (getattr(param, "is_flag", True) or getattr(param, "multiple", False))
            if times > 1 and takes_one and not ctx.resilient_parsing:
                sentence = f"{param.opts[0]} takes one value, but came {times} times; give it once"
                raise UsageError(sentence, ctx)
        return list(super().parse_args(ctx, args))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, a word in the place of a value's type."""
        parts: dict[str, list[tuple[str, str]]] = {h: [] for h in ("Arguments", "Options", *GROUPS)}
        params = self.get_params(ctx)
        headings = HEADINGS if len(params) > FEW else {}
        for param in params:
            if record := param.get_help_record(ctx):
                is_option = param.param_type_name == "option"
                heading = headings.get(str(param.name), "Options") if is_option else "Arguments"
                parts[heading].append((_typed(record[0], is_option), record[1]))
        for heading, records in parts.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def _typed(name: str, is_option: bool) -> str:
    """The name of an option with a word for its value, `--seed N`; arguments have none."""
    return re.sub(
        r" <(?:list\[)?(\w+)[^>]*>",
        lambda m: f" {WORDS.get(m[1], m[1])}" if is_option else "",
        name,
    )


class Commands(TyperGroup):
    """The commands."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write what each command does: a whole sentence, however narrow the terminal is."""
        known = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, c.get_short_help_str(10_000)) for name, c in known if c])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options before the command."""
        for param in self.get_params(ctx):
            if param.default is None and getattr(param, "is_flag", False):
                param.default = False  # None would be read by pydantic, which is slow to import
        return super().parse_args(ctx, args)


def usage_sentence(error: Any) -> str:
    """The sentence on a wrong command line; of one without words, whose help is printed, none."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return ""
    sentence = error.format_message().rstrip(".")
    see = " See" if sentence.endswith("?") else "; see"
    command = error.ctx.command_path if error.ctx else "embedbench"  # raised inside a command
    return f"{sentence[:1].lower()}{sentence[1:]}{see} {command} --help"
