"""Output of commands: text, JSON or tables on stdout; notes and a bar of progress on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedbench.config.json_records import plain
from embedbench.text.printable_text import printable
from embedbench.text.table_export import csv_text, export_tables, make_table
from embedbench.text.terminal_text import (
    NATURAL,
    fit_width,
    has_styles,
    line,
    render_text,
    terminal_width,
)

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from embedbench.reports.comparison_tables import TableView
    from embedbench.reports.result_rows import Row
    from embedbench.scores.learner_verdicts import Over

    # What `show_tables` prints: JSON data, rows of CSV, lines and tables.
    Tables = tuple[Any, Sequence[Mapping[str, Any]], Sequence[Text | Table]]


def show_tables(
    form: str,
    data: Any,
    rows: Sequence[Mapping[str, Any]],
    parts: Sequence[Text | Table] = (),
    *,
    text: str | None = None,
) -> None:
    """Print data to stdout in a form of `chosen_form`; of tables to paste, notes go to stderr.

    Parameters
    ----------
    data : object
        The JSON.
    rows : sequence of mapping
        The rows of the CSV.
    parts : sequence of Text or Table
        Lines and tables, for Markdown and LaTeX; none: a table of the rows.
    text : str or None
        The text; None: the parts.
    """
    notes: list[str] = []
    if form == "json":
        output = json.dumps(data, indent=1)
    elif form == "csv":
        output = csv_text(rows)
    elif form != "text":
        output, notes = export_tables(parts or [make_table(rows)], form)
    elif text is not None:
        output = printable(text, lines=True)
    else:
        output = render_text(parts, width=terminal_width(), colour=has_styles())
    if output:
        print(output)
    elif not notes and form != "text":
        notes = ["there is no table to print"]
    for sentence in notes:
        note(sentence)


def run_tables(rows: Sequence[Row], form: str) -> Tables:
    """The tables of runs, as `show_tables` takes them; as text they fit the terminal."""
    from embedbench.reports.tables_from_runs import to_json
    from embedbench.reports.terminal_tables import csv_rows, table_parts

    width = terminal_width() if form == "text" else None
    return to_json(rows), csv_rows(rows), table_parts(rows, width or NATURAL)


def regime_tables(root: Path, regimes: Mapping[str, Sequence[Path]], over: Over) -> Tables:
    """The learners' scores under each regime, whose run directories these are."""
    from embedbench.reports import toml_report
    from embedbench.reports.tables_from_runs import collect

    each = {
        name: collect(root, list(dict.fromkeys(places)), lambda _: None, over=over)
        for name, places in regimes.items()
    }
    return selected_tables(list(toml_report.regime_tables(each)))


def selected_tables(tables: Sequence[TableView]) -> Tables:
    """Selected tables, as `show_tables` takes them."""
    from embedbench.reports.toml_report import SCHEMA

    data = plain([{"title": table.title, "rows": table.rows} for table in tables])
    rows = [{"table": table.title} | row for table in tables for row in table.rows]
    parts = [part for table in tables for part in (*table.parts, line(""))]
    return {"schema": SCHEMA, "tables": data}, rows, parts


def show(data: Any, text: str, as_json: bool) -> None:
    """Print data to stdout, as JSON or as text."""
    show_tables("json" if as_json else "text", data, (), text=text)


def note(sentence: str) -> None:
    """Print a remark to stderr."""
    text = fit_width(printable(sentence, lines=True), terminal_width(sys.stderr))
    print(text, file=sys.stderr, flush=True)


Advance = Callable[..., None]


@contextmanager
def bar(unit: str, quiet: bool) -> Iterator[Advance]:
    """Yield the function that moves a bar: (done, total), and maybe a text before or after."""
    if quiet or not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich import progress
    from rich.console import Console
    from rich.theme import Theme

    columns: list[Any] = [
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[rate]}"),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
    ]
    plain = {f"progress.{what}": "none" for what in ("download", "elapsed", "remaining")}
    console = Console(stderr=True, theme=Theme(plain))  # yellow cannot be read on white
    with progress.Progress(*columns, console=console, transient=True) as display:
        task = display.add_task(unit, total=None, rate="")

        def advance(*what: str | int) -> None:
            done, total = (w for w in what if isinstance(w, int))
            text = next((w for w in what if isinstance(w, str) and w), unit)
            speed = display.tasks[0].speed
            rate = "" if speed is None or unit == "runs" else f"{speed:.1f} {unit}/s"
            display.update(
                task, completed=done, total=total, description=printable(text), rate=rate
            )

        yield advance
