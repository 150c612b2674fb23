"""Tables to paste: Markdown and LaTeX of what the terminal prints, CSV of the numbers behind it."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from embedbench.errors import printable
from embedbench.latex import preamble, tabular
from embedbench.markdown import escape_markdown
from embedbench.markdown import table as markdown_table
from embedbench.terminal import line, new_table

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

FORMS = ("markdown", "latex", "csv")
TITLE = "bold"  # the style of a line that is the title of the table below it


def export_tables(parts: Sequence[Text | Table], form: str) -> tuple[str, list[str]]:
    """The tables among lines and tables, and the lines that are not among the text.

    Parameters
    ----------
    parts : sequence of rich.text.Text or rich.table.Table
        As `terminal.rendered` takes them. Of several tables each has its title, the bold line
        above it.
    form : str
        "markdown" or "latex".

    Returns
    -------
    text : str
        The tables; LaTeX ones begin with the packages that they need, as comments.
    notes : list of str
        The other lines.
    """
    from rich.table import Table

    several = sum(isinstance(part, Table) for part in parts) > 1
    blocks, notes, title = [], [], ""
    for part in parts:
        if isinstance(part, Table):
            blocks.append((_markdown if form == "markdown" else tabular)(*_cells(part), title))
            title = ""
        elif several and part.style == TITLE:
            title = part.plain
        elif part.plain:
            notes.append(part.plain)
    if blocks and form == "latex":
        blocks[0] = f"{preamble(blocks)}\n{blocks[0]}"
    return "\n\n".join(blocks), notes


def _cells(table: Table) -> tuple[list[str], list[list[str]], list[bool]]:
    """Headings, rows, and which columns are to the right."""
    heads = [str(column.header) for column in table.columns]
    columns = [[str(cell).replace("\n", " ") for cell in column.cells] for column in table.columns]
    rows = [list(row) for row in zip(*columns, strict=True)]
    return heads, rows, [column.justify == "right" for column in table.columns]


def _markdown(heads: list[str], rows: list[list[str]], right: list[bool], title: str) -> str:
    text = markdown_table(
        [escape_markdown(head) for head in heads],
        [[escape_markdown(cell) for cell in row] for row in rows],
        right,
    )
    return f"**{escape_markdown(title)}**\n\n{text}" if title else text


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV: a column for each key, numbers in full, nothing where a value is undefined."""
    keys = dict.fromkeys(key for row in rows for key in row)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_field(key) for key in keys)
    writer.writerows([_field(row.get(key)) for key in keys] for row in rows)
    return text.getvalue().rstrip("\n")


def _field(value: Any) -> str:
    """One value; a text that a spreadsheet would take for a formula gets an apostrophe."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    text = printable(str(value))
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def records(data: Any, *path: str) -> list[dict[str, Any]]:
    """Rows of JSON data: what lies in the lists along `path`, with the scalars around it.

    >>> records({"a": 1, "runs": [{"n": 2, "mean": {"x": 0.5}}, {"n": 3}]}, "runs")
    [{'a': 1, 'n': 2, 'mean.x': 0.5}, {'a': 1, 'n': 3}]
    """
    if isinstance(data, list):
        return [row for entry in data for row in records(entry, *path)]
    if not path:
        return [dict(_flat(data))]
    around = {k: v for k, v in data.items() if not isinstance(v, dict | list) and k != "schema"}
    return [around | row for row in records(data[path[0]], *path[1:])]


def pairs(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row for each value of JSON data, with its name."""
    return [{"name": name, "value": value} for name, value in _flat(data)]


def _flat(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested values by names with dots; the values of a list with spaces between them."""
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, _joined(value) if isinstance(value, list) else value


def _joined(values: Iterable[Any]) -> str:
    return " ".join(str(value) for value in values)


def make_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """A table of rows; columns of texts come first."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    numbers = [k for k in keys if all(_is_number(row.get(k)) for row in rows)]
    names = [k for k in keys if k not in numbers]
    table = new_table([*names, *numbers], names=len(names))
    for row in rows:
        table.add_row(*(line(_short(row.get(key))) for key in (*names, *numbers)))
    return table


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | None) and not isinstance(value, bool)


def _short(value: Any) -> str:
    return f"{value:.4g}".replace("-", "−") if isinstance(value, float) else _field(value)
