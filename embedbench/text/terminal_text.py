"""Text for the terminal: it fits the width, no number is cut, and no name is lost."""

from __future__ import annotations

import io
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from .printable_text import printable

if TYPE_CHECKING:
    from rich.table import Column, Table
    from rich.text import Text

NATURAL = 1_000_000  # columns where there is no terminal: nothing is as wide
NAME = 8  # columns that a folded name has at least


def terminal_width(stream: TextIO | None = None) -> int | None:
    """Columns of the terminal that a stream (stdout) writes to; None where it is none."""
    stream = stream or sys.stdout
    if not stream.isatty():
        return None
    if "COLUMNS" not in os.environ:
        with suppress(OSError):
            return os.get_terminal_size(stream.fileno()).columns or None
    return shutil.get_terminal_size().columns


def has_styles() -> bool:
    """Whether stdout is a terminal that knows bold and dim text."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def line(text: str, style: str = "") -> Text:
    """One line of text, printed as it is but for its control characters."""
    from rich.text import Text

    return Text(printable(text), style)


def new_table(heads: Sequence[str], *, names: int = 1, gap: int = 2) -> Table:
    """An empty table; columns further to the right are left out first where it is too wide.

    The first `names` columns hold names: to the left, folded where they are too long, and never
    left out. The others hold numbers. `gap` are the spaces between two columns.
    """
    from rich.table import Table

    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False)
    for i, head in enumerate(heads):
        is_name = i < names
        table.add_column(
            line(head),
            justify="left" if is_name else "right",
            no_wrap=not is_name,
            overflow="fold",
        )
    return table


def render_text(
    parts: Sequence[Text | Table], *, width: int | None = None, colour: bool = False
) -> str:
    """Lines and tables as text, one below the other, without spaces at the ends of lines.

    Columns that have no room in `width` are left out, and a line below the table says so. None: the
    width of the terminal, and without one a line per row, however long.
    """
    from rich.console import Console
    from rich.table import Table

    room = width or terminal_width() or NATURAL
    console = Console(
        file=io.StringIO(),
        width=NATURAL,
        force_terminal=colour,
        color_system="standard" if colour else None,
    )
    with console.capture() as captured:
        for part in parts:
            if not isinstance(part, Table):
                console.print(part, width=room)
                continue
            out = leave_out(part, room)
            console.print(part, width=max(room, least_width(part)))
            if out:
                what = "1 column" if out == 1 else f"{out} columns"
                remark = f"{what} left out; widen the terminal or use --json"
                console.print(line(remark, "dim"), width=room)
    return "\n".join(line.rstrip() for line in captured.get().split("\n")).rstrip("\n")


def leave_out(table: Table, room: int) -> int:
    """Remove columns from the right until the table fits; return how many.

    The columns of names and one more always stay.
    """
    names = sum(not column.no_wrap for column in table.columns)
    before = len(table.columns)
    while len(table.columns) > names + 1 and least_width(table) > room:
        del table.columns[-1]
    return before - len(table.columns)


def least_width(table: Table) -> int:
    """The width below which a number would be cut."""
    widths = [_widest(c) if c.no_wrap else min(NAME, _widest(c)) for c in table.columns]
    return sum(widths) + (len(widths) - 1) * table.padding[1]


def _widest(column: Column) -> int:
    from rich.cells import cell_len

    texts = [column.header, *column.cells]
    return max(cell_len(part) for text in texts for part in str(text).split("\n"))


def align_pairs(lines: Sequence[tuple[str, str]]) -> str:
    """Names and what is said of them, one pair per line; a terminal's width folds both."""
    if terminal_width() is None:
        return _align_whole(lines)
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for pair in lines:
        table.add_row(*map(line, pair))
    return render_text([table])


def _align_whole(lines: Sequence[tuple[str, str]]) -> str:
    """The same where no line is folded, without a table, which is slow."""
    from rich.cells import cell_len

    plain = [(printable(name), printable(said)) for name, said in lines]
    widest = max((cell_len(name) for name, _ in plain), default=0)
    return "\n".join(
        f"{name}{' ' * (widest - cell_len(name))}  {said}".rstrip() for name, said in plain
    )


def fit_width(text: str, room: int | None) -> str:
    """Text whose lines end at words where they are too long, as far indented; None: as it is.

    A word that is longer than the room, a path for example, stays whole.
    """
    if room is None:
        return text
    folded = []
    for part in text.split("\n"):
        indent = part[: len(part) - len(part.lstrip(" "))]
        wrapper = textwrap.TextWrapper(room, subsequent_indent=indent, break_long_words=False)
        wrapper.break_on_hyphens = False
        folded += wrapper.wrap(part) if len(part) > room else [part]
    return "\n".join(folded)
