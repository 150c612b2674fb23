"""Output of commands: text, JSON, or tables in the form of `--markdown`, `--latex`, `--csv`."""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from embedbench.config.json_records import plain
from embedbench.errors import UserError
from embedbench.text.printable_text import printable
from embedbench.text.table_export import FORMS, csv_text, export_tables, make_table
from embedbench.text.terminal_text import fit_width, has_styles, line, render_text, terminal_width

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from embedbench.reports.comparison_tables import TableView
    from embedbench.reports.result_rows import Row
    from embedbench.scores.learner_verdicts import Over

HELP = {
    "markdown": "Print tables as Markdown.",
    "latex": "Print tables as LaTeX (booktabs).",
    "csv": "Print the numbers as CSV.",
}
_asked: ContextVar[str | None] = ContextVar("asked", default=None)


def with_tables(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options `--markdown`, `--latex` and `--csv`; `show_tables` obeys them."""

    @functools.wraps(command)
    def chosen(*args: Any, **given: Any) -> None:
        forms = [form for form in FORMS if given.pop(form, False)]
        all_forms = [*(["json"] if given.get("as_json") else []), *forms]
        if len(all_forms) > 1:
            raise UserError(f"--{all_forms[0]} and --{all_forms[1]}: give one of them")
        before = _asked.set(forms[0] if forms else None)
        try:
            command(*args, **given)
        finally:
            _asked.reset(before)

    signature = inspect.signature(command, eval_str=True)
    flags = [
        inspect.Parameter(
            form,
            inspect.Parameter.KEYWORD_ONLY,
            default=False,
            annotation=Annotated[bool, typer.Option(f"--{form}", help=HELP[form])],
        )
        for form in FORMS
    ]
    parameters = [*signature.parameters.values(), *flags]
    chosen.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    chosen.__annotations__ = {p.name: p.annotation for p in parameters}
    return chosen


def show_tables(
    data: Any,
    text: Callable[[Any], str] | None,
    as_json: bool,
    rows: Callable[[], Sequence[Mapping[str, Any]]],
    parts: Callable[[], Sequence[Text | Table]] | None = None,
) -> None:
    """Print data to stdout as JSON, as text, or in the form that was asked for (see `paste`).

    Without `terminal_tables` the parts are printed.
    """
    if paste(rows, parts):
        return
    if text or as_json or not parts:
        show(data, text or str, as_json)
    else:
        print(render_text(parts(), width=terminal_width(), colour=has_styles()))


def paste(
    rows: Callable[[], Sequence[Mapping[str, Any]]],
    parts: Callable[[], Sequence[Text | Table]] | None = None,
) -> bool:
    """Print tables to stdout in the form that was asked for, notes to stderr; False: none was.

    Parameters
    ----------
    rows : callable
        Makes the rows of the CSV.
    parts : callable or None
        Makes lines and tables, for Markdown and LaTeX; None: a table of the rows.
    """
    form = _asked.get()
    if form is None:
        return False
    notes: list[str] = []
    if form == "csv":
        text = csv_text(rows())
    else:
        text, notes = export_tables(parts() if parts else [make_table(rows())], form)
    if text:
        print(text)
    for sentence in notes or ([] if text else ["there is no table to print"]):
        note(sentence)
    return True


def show_rows(rows: Sequence[Row], as_json: bool, extra: dict[str, Any] | None = None) -> None:
    """Print the tables of runs; `extra` is added to the JSON."""
    from embedbench.reports import terminal_tables

    if not paste(lambda: terminal_tables.csv_rows(rows), lambda: terminal_tables.table_parts(rows)):
        terminal_tables.print_report(rows, as_json=as_json, extra=extra)


def show_regimes(
    root: Path, regimes: Mapping[str, Sequence[Path]], as_json: bool, over: Over
) -> None:
    """Print the learners' scores under each regime, whose run directories these are."""
    from embedbench.reports.tables_from_runs import collect
    from embedbench.reports.toml_report import regime_tables

    each = {
        name: collect(root, list(dict.fromkeys(places)), lambda _: None, over=over)
        for name, places in regimes.items()
    }
    show_selected(list(regime_tables(each)), as_json)


def show_beside(rows: Sequence[Row], as_json: bool) -> None:
    """Print the tables of runs, and the zoo's published rows for the data of each."""
    from embedbench.reports.tables_from_runs import to_json
    from embedbench.reports.terminal_tables import csv_rows, table_parts
    from embedbench.zoo.beside_zoo import beside_parts, rows_beside

    found = rows_beside(rows, note)
    published = [row.to_json() for row in found]
    show_tables(
        {**to_json(rows), "published": published},
        None,
        as_json,
        lambda: [*csv_rows(rows), *published],
        lambda: [*table_parts(rows), *beside_parts(found)],
    )


def show_selected(tables: Sequence[TableView], as_json: bool) -> None:
    """Print selected tables."""
    from embedbench.reports.toml_report import SCHEMA

    data = {
        "schema": SCHEMA,
        "tables": plain([{"title": table.title, "rows": table.rows} for table in tables]),
    }
    rows = [{"table": table.title} | row for table in tables for row in table.rows]
    show_tables(data, None, as_json, lambda: rows, lambda: selected_parts(tables))


def selected_parts(tables: Sequence[TableView]) -> list[Text | Table]:
    """Selected tables one below the other."""
    return [part for table in tables for part in (*table.parts, line(""))]


def show(data: Any, text: Callable[[Any], str], as_json: bool) -> None:
    """Print data to stdout, as JSON or as text."""
    print(json.dumps(data, indent=1) if as_json else printable(text(data), lines=True))


def note(sentence: str) -> None:
    """Print a remark to stderr."""
    text = fit_width(printable(sentence, lines=True), terminal_width(sys.stderr))
    print(text, file=sys.stderr, flush=True)
