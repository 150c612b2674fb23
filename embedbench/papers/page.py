"""The page of a paper's tables, and what is saved."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from embedbench.disk import write_safely
from embedbench.reports.text import NATURAL
from embedbench.version import __version__

from .paper import Paper
from .published import PARTS, PaperTable


def table_text(table: PaperTable) -> str:
    """Return a table for the terminal, one line a row."""
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(file=io.StringIO(), width=NATURAL, highlight=False)
    grid = RichTable(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for head in table.heads:
        grid.add_column(head)
    for column in table.columns:
        for k in table.parts:
            title = column if k == table.parts[0] else PARTS[k]
            grid.add_column(title, justify="right", no_wrap=True)
    for line in table.lines():
        grid.add_row(*(Text(part) for part in line))
    with console.capture() as captured:
        console.print(Text(table.heading))
        if table.rows:
            console.print(grid)
        for remark in table.remarks:
            console.print(Text(f"* {remark}"))
        for note in table.notes:
            console.print(Text(f"note: {note}"))
    return "\n".join(line.rstrip() for line in captured.get().rstrip().split("\n"))


def save(tables: Sequence[PaperTable], paper: Paper[Any], out: Path) -> Path:
    """Write the tables as JSON and as one HTML page; return the page's path."""
    from jinja2 import Environment, StrictUndefined

    from embedbench.reports.svg import COLOURS, DARK_COLOURS

    assets = resources.files("embedbench") / "assets"
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string((assets / "reproduce.html.j2").read_text(encoding="utf-8"))
    page = template.render(
        paper=paper.citation,
        tables=tables,
        parts=PARTS,
        version=__version__,
        css=(assets / "report.css").read_text(encoding="utf-8"),
        colours=COLOURS,
        dark_colours=DARK_COLOURS,
    )
    numbers = json.dumps([t.to_json() for t in tables], indent=1, ensure_ascii=False)
    write_safely(out / f"{paper.stem}.json", numbers + "\n")
    path = out / f"{paper.stem}.html"
    write_safely(path, page)
    return path
