"""Tables of a report for the terminal; when piped, without colours and with one line per row."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from embedbench.scores.flags import fewest_steps
from embedbench.scores.stats import Stat, amount, megabytes, signed
from embedbench.terminal import NATURAL, has_styles, line, new_table, rendered, terminal_width

from .answers import LABELS, are_equal, has_labels, is_exact, stats
from .collect import to_json
from .rows import FLAGS, Group, Row, groups
from .tuned import searches
from .verdict import verdict

# metric, heading, decimals, factor: percent for accuracies, Ω as it is
COLUMNS = (
    ("final_accuracy", "final %", 1, 100.0),
    ("omega_base", "Ω_base", 3, 1.0),
    ("omega_new", "Ω_new", 3, 1.0),
    ("omega_all", "Ω_all", 3, 1.0),
    ("average_accuracy", "AA %", 1, 100.0),
    ("average_forgetting", "AF %", 1, 100.0),
)
EQUAL = "=  deterministic: all runs of the row gave the same answers"
STREAMING = ("omega_streaming", "Ω_streaming", 3, 1.0)


def columns_of(group: Group) -> list[tuple[str, str, int, float]]:
    """The columns of a table: those of every table, and the metrics that were asked for.

    Where Ω of streaming learning is measured, it takes the place of Ω_all.
    """
    usual = [STREAMING if group.so_far and c[0] == "omega_all" else c for c in COLUMNS]
    names = [name for name in group.further if name not in (c[0] for c in usual)]
    return [
        *usual,
        *((n, heading(n), *((1, 100.0) if is_percent(n) else (3, 1.0))) for n in names),
    ]


def heading(metric: str) -> str:
    """The heading of a metric's column, the same in every table."""
    usual = {name: head for name, head, *_ in (*COLUMNS, STREAMING)}
    return usual.get(metric, f"{metric} %" if is_percent(metric) else metric)


def is_percent(metric: str) -> bool:
    """Whether tables have a metric in percent: all but Ω."""
    return not metric.startswith("omega")


def print_tables(rows: Sequence[Row]) -> None:
    """Print the tables to stdout: as wide as the terminal, or one line per row without one."""
    print(table_text(rows, width=terminal_width(), colour=has_styles()))


def table_text(rows: Sequence[Row], *, width: int | None = None, colour: bool = False) -> str:
    """The tables as text.

    Parameters
    ----------
    rows : sequence of Row
        The rows of all tables.
    width : int or None
        Width to fit into; None: one line per row, however long.
    colour : bool
        Whether to use terminal colours.
    """
    return rendered(table_parts(rows, width or NATURAL), width=width, colour=colour)


def table_parts(rows: Sequence[Row], width: int = NATURAL) -> list[Text | Table]:
    """The tables with their titles and remarks, before they are text."""
    parts: list[Text | Table] = []
    for i, group in enumerate(groups(rows)):
        parts += [Text("")] if i else []
        parts += _group_parts(group, [r for r in rows if r.group is group], width)
    return [*parts, Text(""), *(line(text, "dim") for text in _footer(rows))]


def csv_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The numbers of the tables, one row each, with the names of `load_runs`.

    The half-width of the 95 % interval of NAME is `NAME.half_95`; metrics are fractions, sizes
    bytes, times seconds.
    """
    return [_csv_row(row) for row in rows]


def _csv_row(row: Row) -> dict[str, Any]:
    group = row.group
    cells: dict[str, Any] = {
        "protocol": group.first.protocol,
        "files": " ".join(group.file_names),
        "stream": group.title,
        "learner": row.label,
        "n": len(row.used),
    }
    numbers = {name: row.metrics.get(name) for name, *_ in columns_of(group)}
    if has_labels(group.first) and row.used:
        numbers |= {name: stat for (_, name, _), stat in zip(LABELS, stats(row), strict=True)}
    numbers["seconds.learn"] = row.seconds["learn"]
    for name, stat in numbers.items():
        cells[name] = stat and stat.mean
        cells[f"{name}.half_95"] = stat and stat.half
    cells["bytes.total"] = row.footprint.get("total")
    return cells | {"flags": " ".join(row.flags)}


def _group_parts(group: Group, rows: Sequence[Row], width: int) -> list[Text | Table]:
    """Title, table and remarks of one group."""
    title, sentence = line(group.title, "bold"), line(f"verdict: {verdict(rows)}")
    table = _table(rows, stacked=False)
    if Console(width=NATURAL).measure(table).maximum > width:
        table = _table(rows, stacked=True)
    facts = line(" · ".join(group.describe()), "dim")
    parts: list[Text | Table] = [title, facts, sentence, table]
    if has_labels(group.first):
        parts += [Text(""), _label_table([r for r in rows if r.used])]
    equal = [EQUAL] if any(map(are_equal, rows)) else []
    remarks = [*equal, *legend(rows), *(f"note: {n}" for n in group.notes)]
    return [*parts, *([Text("")] if remarks else []), *map(line, remarks)]


def _table(rows: Sequence[Row], *, stacked: bool) -> Table:
    """One table; `stacked` puts intervals under the means, which halves the width."""
    gap, columns = 1 if stacked else 2, columns_of(rows[0].group)
    table = new_table(["learner", "n", *(c[1] for c in columns), "MB", "learn s"], gap=gap)
    flagged = any(row.flags for row in rows)
    if flagged:
        table.add_column("flags", no_wrap=True)
    for row in rows:
        cells = [runs_of(row)]
        cells += [
            cell_text(row, name, decimals, factor, "\n" if stacked else " ")
            for name, _, decimals, factor in columns
        ]
        cells += [megabytes(row.footprint.get("total")), amount(row.seconds["learn"].mean)]
        flags = [line(" ".join(mark(f) for f in row.flags))] * flagged
        dim = None if row.learns else "dim"
        table.add_row(line(row.label), *map(Text, cells), *flags, style=dim)
    return table


def _label_table(rows: Sequence[Row]) -> Table:
    """Scores and sizes of the label sets after the last session."""
    heads = (f"{head} %" if percent else head for head, _, percent in LABELS)
    table = new_table(["after the last session", *heads])
    for row in rows:
        cells = [
            _stat(stat, 1 if percent else 2, 100 if percent else 1, " ")
            for stat, (_, _, percent) in zip(stats(row), LABELS, strict=True)
        ]
        table.add_row(*map(line, (row.label, *cells)), style=None if row.learns else "dim")
    return table


def cell_text(row: Row, name: str, decimals: int, factor: float, between: str) -> str:
    """A metric of a row: its mean and interval, or "open" where it waits for reference runs."""
    if name in row.metrics and row.is_open(name):
        return "open"
    stat = row.metrics.get(name)
    if stat is not None and is_exact(stat, row):
        return _stat(replace(stat, half=math.nan), decimals, factor, between)
    return _stat(stat, decimals, factor, between)


def runs_of(row: Row) -> str:
    """The number of runs of a row; "=3" where all three gave the same answers."""
    return f"={row.n}" if are_equal(row) else row.n


def _stat(stat: Stat | None, decimals: int, factor: float, between: str) -> str:
    if stat is None or math.isnan(stat.mean):
        return "–"
    text = signed(factor * stat.mean, decimals)
    if math.isnan(stat.half):
        return text
    return f"{text}{between}±{factor * stat.half:.{decimals}f}"


def mark(flag: str) -> str:
    """The mark of a flag; an unknown flag is its own mark."""
    return FLAGS[flag][0] if flag in FLAGS else flag


def legend(rows: Sequence[Row]) -> list[str]:
    """One line for each flag that occurs: its mark, its meaning, the rows that have it."""
    lines = []
    for flag in dict.fromkeys([*FLAGS, *(f for r in rows for f in r.flags)]):
        who = [who_has(row, flag) for row in rows if flag in row.flags]
        if who:
            meaning = f"{flag}: {FLAGS[flag][1]}" if flag in FLAGS else flag
            lines.append(f"{mark(flag)}  {meaning} [{'; '.join(who)}]")
    return lines


def who_has(row: Row, flag: str) -> str:
    """A row, the runs that have a flag if not all have, and what a flag says of them."""
    total, runs = len(row.records), row.flags[flag]
    text = row.label
    if len(runs) < total:
        text += f" {len(runs)} of {total}: seed {', '.join(runs)}"
    if flag == "few-steps":
        counts = [n for r in row.records if (n := fewest_steps(r)) is not None]
        text += f" ({min(counts)})"
    return f"{text}: {searches(row.records)}" if flag == "tuned" else text


def _footer(rows: Sequence[Row]) -> list[str]:
    several = any(len(r.used) > 1 for r in rows)
    interval = "± half-width of the 95 % t-interval over n seeds · " if several else ""
    return [f"{interval}MB after the last session · formulas: embedbench list metrics"]


def print_report(
    rows: Sequence[Row], *, as_json: bool, extra: dict[str, Any] | None = None
) -> None:
    """Print the tables of all rows to stdout; `extra` is added to the JSON."""
    if as_json:
        print(json.dumps({**to_json(rows), **(extra or {})}, indent=1, allow_nan=False))
    elif rows:
        print_tables(rows)
