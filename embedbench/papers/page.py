"""The page of a paper's tables, and what is saved."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from embedbench.reports.page import page
from embedbench.reports.text import rendered

from .published import published
from .table import PARTS, Table


def table_text(table: Table) -> str:
    """A table for the terminal, one line a row."""
    from rich.table import Table as RichTable
    from rich.text import Text

    shown = RichTable(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for head in table.heads:
        shown.add_column(head)
    for column in table.columns:
        for k in table.parts:
            title = column if k == table.parts[0] else PARTS[k]
            shown.add_column(title, justify="right", no_wrap=True)
    for line in table.lines():
        shown.add_row(*(Text(part) for part in line))
    lines = [f"* {remark}" for remark in table.remarks] + [f"note: {n}" for n in table.notes]
    parts: list[Text | RichTable] = [Text(table.heading)]
    parts += [shown] if table.rows else []
    parts += map(Text, lines)
    return rendered(parts).rstrip()


def save(tables: Sequence[Table], paper: str, out: Path) -> Path:
    """Write the tables as JSON and as one HTML page; returns the page."""
    text = page("reproduce.html.j2", paper=published(paper)["paper"], tables=tables, parts=PARTS)
    (out / f"{paper}.json").write_text(
        json.dumps([t.to_json() for t in tables], indent=1, ensure_ascii=False) + "\n",
        encoding="utf-8",
    )
    path = out / f"{paper}.html"
    path.write_text(text, encoding="utf-8")
    return path
