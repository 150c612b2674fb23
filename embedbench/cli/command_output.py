"""Output of commands: text, JSON or tables on stdout; notes and progress on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from embedbench.config.json_records import plain
from embedbench.runs.progress_line import Progress, show_progress
from embedbench.text import printable_text, table_export, terminal_text

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from embedbench.reports import comparison_tables, result_rows

    Part = Text | Table  # of what is printed: a line or a table
    # What `show_tables` prints: JSON data, rows of CSV, parts.
    Tables = tuple[Any, Sequence[Mapping[str, Any]], Sequence[Part]]


def show_tables(
    form: str,
    data: Any,
    rows: Sequence[Mapping[str, Any]],
    parts: Sequence[Part] = (),
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
        output = table_export.csv_text(rows)
    elif form != "text":
        output, notes = table_export.export_tables(parts or [table_export.make_table(rows)], form)
    elif text is not None:
        output = printable_text.printable(text, lines=True)
    else:
        output = terminal_text.render_text(
            parts, width=terminal_text.terminal_width(), colour=terminal_text.has_styles()
        )
    if output:
        print(output)
    elif not notes and form != "text":
        notes = ["there is no table to print"]
    for sentence in notes:
        note(sentence)


def run_tables(rows: Sequence[result_rows.Row], form: str) -> Tables:
    """The tables of runs, as `show_tables` takes them in this form; as text they fit the terminal.

    Other forms are not made: verdicts read all answers.
    """
    from embedbench.reports import tables_from_runs, terminal_tables

    if form in ("json", "csv"):
        data = tables_from_runs.to_json(rows)
        return data, tables_from_runs.csv_rows(data), ()
    width = terminal_text.terminal_width() if form == "text" else None
    return {}, (), terminal_tables.table_parts(rows, width or terminal_text.NATURAL)


def selected_tables(tables: Sequence[comparison_tables.TableView]) -> Tables:
    """Selected tables, as `show_tables` takes them."""
    from embedbench.reports.toml_report import SCHEMA

    data = plain([{**table.data, "title": table.title, "rows": table.rows} for table in tables])
    rows: list[dict[str, Any]] = []
    parts: list[Part] = []
    for table in tables:
        rows += [{"table": table.title} | row for row in table.rows]
        parts += [*table.parts, terminal_text.line("")]
    return {"schema": SCHEMA, "tables": data}, rows, parts


def show(data: Any, text: str, as_json: bool) -> None:
    """Print data to stdout, as JSON or as text."""
    show_tables("json" if as_json else "text", data, (), text=text)


def note(sentence: str) -> None:
    """Print a remark to stderr."""
    text = terminal_text.fit_width(
        printable_text.printable(sentence, lines=True), terminal_text.terminal_width(sys.stderr)
    )
    # In one piece: lines of progress come from another thread.
    print(f"{text}\n", end="", file=sys.stderr, flush=True)


def bar(what: str, quiet: bool) -> AbstractContextManager[Progress]:
    """The progress of long work on stderr: a bar in a terminal, elsewhere a line now and then."""
    return show_progress(what, note, quiet)
