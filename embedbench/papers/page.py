"""The HTML page with a paper's tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from embedbench.reports.html_page import page
from embedbench.storage.atomic_write import write_safely
from embedbench.text.terminal import line, new_table, render_text

from .paper import Paper
from .published import PARTS, PaperTable


def table_text(table: PaperTable) -> str:
    """Return a table as text for the terminal, one line per row."""
    return render_text(table_parts(table)).rstrip()


def table_parts(table: PaperTable) -> list[Text | Table]:
    """Return the heading, the table and its remarks."""
    first = table.parts[:1]
    titles = [c if [k] == first else PARTS[k] for c in table.columns for k in table.parts]
    grid = new_table([*table.heads, *titles], names=len(table.heads))
    for cells in table.lines():
        grid.add_row(*map(line, cells))
    lines = [f"* {remark}" for remark in table.remarks] + [f"note: {n}" for n in table.notes]
    below = map(line, lines)
    return [line(table.heading, "bold"), *([grid] if table.rows else []), *below]


def table_rows(table: PaperTable) -> list[dict[str, Any]]:
    """Return one row for each value: paper's, ours with the half-width of its interval."""
    return [
        {
            "table": table.name,
            **dict(zip(table.heads, labels, strict=True)),
            "column": column,
            "published": value.words[0] if value.words else value.published,
            "ours": value.words[1] if value.words else value.ours and value.ours.mean,
            "ours.half_95": value.ours and value.ours.half,
        }
        for labels, values in table.rows
        for column, value in values.items()
    ]


def save(tables: Sequence[PaperTable], paper: Paper[Any], out: Path) -> Path:
    """Write the tables as one HTML page; return its path."""
    text = page("reproduce.html.j2", paper=paper.citation, tables=tables, parts=PARTS)
    path = out / f"{paper.stem}.html"
    write_safely(path, text)
    return path
