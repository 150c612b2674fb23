"""The page with a paper's tables, and the files that are saved."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from embedbench.disk import write_safely
from embedbench.reports.page import page
from embedbench.reports.text import rendered

from .paper import Paper
from .published import PARTS, PaperTable


def table_text(table: PaperTable) -> str:
    """Return a table as text for the terminal, one line per row."""
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for head in table.heads:
        grid.add_column(head)
    for column in table.columns:
        for k in table.parts:
            title = column if k == table.parts[0] else PARTS[k]
            grid.add_column(title, justify="right", no_wrap=True)
    for line in table.lines():
        grid.add_row(*(Text(part) for part in line))
    lines = [f"* {remark}" for remark in table.remarks] + [f"note: {n}" for n in table.notes]
    parts: list[Text | RichTable] = [Text(table.heading)]
    parts += [grid] if table.rows else []
    parts += map(Text, lines)
    return rendered(parts).rstrip()


def save(tables: Sequence[PaperTable], paper: Paper[Any], out: Path) -> Path:
    """Write the tables as JSON and as one HTML page; return the page's path."""
    text = page("reproduce.html.j2", paper=paper.citation, tables=tables, parts=PARTS)
    numbers = json.dumps([t.to_json() for t in tables], indent=1, ensure_ascii=False)
    write_safely(out / f"{paper.stem}.json", numbers + "\n")
    path = out / f"{paper.stem}.html"
    write_safely(path, text)
    return path
