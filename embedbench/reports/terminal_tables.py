"""Tables of a report for the terminal; when piped, without colours and with one line per row."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from embedbench.scores.answer_metrics import RAW
from embedbench.scores.behind_the_best import ROUNDING, RowVerdict
from embedbench.scores.flags import fewest_steps
from embedbench.scores.mean_intervals import Stat, amount, format_signed, megabytes
from embedbench.scores.run_record import FINAL
from embedbench.text.terminal import (
    NATURAL,
    has_styles,
    line,
    new_table,
    render_text,
    terminal_width,
)

from .answer_tables import LABELS, are_equal, has_labels, is_exact, stats
from .chance_and_upper_bound import describe_weak_reference
from .compare_learners import TableVerdicts, describe_verdicts, judge
from .remarks import candidates, searches
from .result_rows import FLAGS, Group, Row, groups
from .result_tables import to_json
from .verdict_sentence import verdict

FINAL_COLUMN = ("final_accuracy", "final %", 1, 100.0)
BEHIND = ("behind", "behind by", 1, 100.0)  # by the final score: the verdict on the row
OMEGAS = (
    ("omega_base", "Ω_base", 3, 1.0),
    ("omega_new", "Ω_new", 3, 1.0),
    ("omega_all", "Ω_all", 3, 1.0),
)
AVERAGES = ("average_accuracy", "AA %", 1, 100.0)
# metric, heading, decimals, factor: percent for accuracies, Ω as it is
COLUMNS = (
    FINAL_COLUMN,
    ("average_incremental_accuracy", "AIA %", 1, 100.0),
    BEHIND,
    *OMEGAS,
    AVERAGES,
    ("average_forgetting", "AF %", 1, 100.0),
)
KEMKER = ("incremental-class", "multi-modal", "permutation")  # protocols that are scored by Ω
EQUAL = "=  deterministic: all runs of the row gave the same answers"
STREAMING = ("omega_streaming", "Ω_streaming", 3, 1.0)


def choose_columns(group: Group) -> list[tuple[str, str, int, float]]:
    """The columns of a table: those of every table, and the metrics that were asked for.

    Ω comes first where the protocol is Kemker's. Where Ω of streaming learning is measured, it
    takes the place of Ω_all. AA is left out where it is the final score, and any metric that no
    run has.
    """
    columns = [c for c in COLUMNS if c in (FINAL_COLUMN, BEHIND) or _is_known(group, c[0])]
    if AVERAGES in columns and not _differ(group):
        columns.remove(AVERAGES)
    if group.first.protocol in KEMKER:  # the sort is stable
        columns.sort(key=lambda c: c is not FINAL_COLUMN and c is not BEHIND and c not in OMEGAS)
    usual = [STREAMING if group.so_far and c[0] == "omega_all" else c for c in columns]
    names = [name for name in group.further if name not in (c[0] for c in usual)]
    return [
        *usual,
        *((n, heading(n), *((1, 100.0) if is_percent(n) else (3, 1.0))) for n in names),
    ]


def _is_known(group: Group, metric: str) -> bool:
    """Whether some run has a metric, or waits for the runs that Ω needs."""
    waits = metric in (c[0] for c in OMEGAS) and any(
        r.reference.source == "missing" and r.reference.offline_runs for r in group.records
    )
    return waits or any(not math.isnan(r.metrics.get(metric, math.nan)) for r in group.records)


def _differ(group: Group) -> bool:
    """Whether AA, where each session counts the same, is another number than the final score."""
    pairs = [(r.metrics.get("average_accuracy", math.nan), r.metrics[FINAL]) for r in group.records]
    return any(abs(a - b) > ROUNDING for a, b in pairs)


def heading(metric: str) -> str:
    """The heading of a metric's column, the same in every table."""
    usual = {name: head for name, head, *_ in (*COLUMNS, STREAMING)}
    return usual.get(metric, f"{metric} %" if is_percent(metric) else metric)


def is_percent(metric: str) -> bool:
    """Whether tables have a metric in percent: all fractions but Ω."""
    return not metric.startswith("omega") and metric not in RAW


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
    return render_text(table_parts(rows, width or NATURAL), width=width, colour=colour)


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
    each = [[row for row in rows if row.group is group] for group in groups(rows)]
    return [
        _csv_row(row, v) for mine in each for row, v in zip(mine, judge(mine).rows, strict=True)
    ]


def _csv_row(row: Row, verdict: RowVerdict | None) -> dict[str, Any]:
    group = row.group
    cells: dict[str, Any] = {
        "protocol": group.first.protocol,
        "files": " ".join(group.file_names),
        "stream": group.title,
        "learner": row.label,
        "n": len(row.used),
    }
    numbers = {c[0]: row.metrics.get(c[0]) for c in choose_columns(group) if c is not BEHIND}
    if has_labels(group.first) and row.used:
        numbers |= {name: stat for (_, name, _), stat in zip(LABELS, stats(row), strict=True)}
    numbers["seconds.learn"] = row.seconds["learn"]
    for name, stat in numbers.items():
        cells[name] = stat and stat.mean
        cells[f"{name}.half_95"] = stat and stat.half
    for name in ("behind", "behind_by", "behind_by_least", "detectable"):
        cells[name] = None if verdict is None else getattr(verdict, name)
    cells |= {"passes": row.passes, "steps": row.steps}
    cells["bytes.total"] = row.footprint.get("total")
    return cells | {"flags": " ".join(row.flags)}


def _group_parts(group: Group, rows: Sequence[Row], width: int) -> list[Text | Table]:
    """Title, table and remarks of one group."""
    judged = judge(rows)
    title, sentence = line(group.title, "bold"), line(f"verdict: {verdict(rows, judged)}")
    table = _table(rows, judged, stacked=False)
    if Console(width=NATURAL).measure(table).maximum > width:
        table = _table(rows, judged, stacked=True)
    facts = line(" · ".join(group.describe()), "dim")
    parts: list[Text | Table] = [title, facts, sentence, table]
    if has_labels(group.first):
        parts += [Text(""), _label_table([r for r in rows if r.used])]
    equal = [EQUAL] if any(map(are_equal, rows)) else []
    remarks = describe_verdicts(judged.rows, judged.units, in_points)
    remarks += [*describe_weak_reference(rows, judged), *equal, *legend(rows)]
    remarks += [f"note: {n}" for n in group.notes]
    return [*parts, *([Text("")] if remarks else []), *map(line, remarks)]


def _table(rows: Sequence[Row], judged: TableVerdicts, *, stacked: bool) -> Table:
    """One table; `stacked` puts intervals under the means, which halves the width."""
    gap, between = (1, "\n") if stacked else (2, " ")
    columns, efforts = choose_columns(rows[0].group), effort(rows)
    table = new_table(
        ["learner", "n", *(c[1] for c in columns), *efforts, "MB", "learn s"], gap=gap
    )
    flagged = any(row.flags for row in rows)
    if flagged:
        table.add_column("flags", no_wrap=True)
    for i, (row, of_row) in enumerate(zip(rows, judged.rows, strict=True)):
        cells = [count_runs(row)]
        cells += [
            behind_text(of_row, points, between)
            if name == BEHIND[0]
            else cell_text(row, name, decimals, factor, between)
            for name, _, decimals, factor in columns
        ]
        cells += [texts[i] for texts in efforts.values()]
        cells += [megabytes(row.footprint.get("total")), amount(row.seconds["learn"].mean)]
        flags = [line(" ".join(mark(f) + count_tried(row, f) for f in row.flags))] * flagged
        dim = None if row.learns else "dim"
        table.add_row(line(row.label), *map(Text, cells), *flags, style=dim)
    return table


def points(value: float) -> str:
    """A difference of two scores in points."""
    return format_signed(100 * value, 1)


def in_points(value: float) -> str:
    """The same with its unit."""
    return f"{points(value)} points"


def behind_text(verdict: RowVerdict | None, score: Callable[[float], str], between: str) -> str:
    """How far a row is behind, and the least where it is called so; (–) without a verdict."""
    if verdict is None or math.isnan(verdict.behind_by):
        return "–"
    text = score(verdict.behind_by)
    if verdict.behind is None:
        return f"{text}{between}(–)"
    return f"{text}{between}(≥ {score(verdict.behind_by_least)})" if verdict.behind else text


def effort(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Passes over the training data and optimiser steps, each where the learners differ in it."""
    learners = [row for row in rows if row.learns and row.used]
    return {
        name: [amount(getattr(row, name)) for row in rows]
        for name in ("passes", "steps")
        if len({amount(getattr(row, name)) for row in learners}) > 1
    }


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


def count_runs(row: Row) -> str:
    """The number of runs of a row; "=3" where all three gave the same answers."""
    return f"={row.n}" if are_equal(row) else row.n


def _stat(stat: Stat | None, decimals: int, factor: float, between: str) -> str:
    if stat is None or math.isnan(stat.mean):
        return "–"
    text = format_signed(factor * stat.mean, decimals)
    if math.isnan(stat.half):
        return text
    return f"{text}{between}±{factor * stat.half:.{decimals}f}"


def mark(flag: str) -> str:
    """The mark of a flag; an unknown flag is its own mark."""
    return FLAGS[flag][0] if flag in FLAGS else flag


def count_tried(row: Row, flag: str) -> str:
    """The number of settings that a search tried, beside its mark; "" for other flags."""
    counts = sorted({n for r in row.records if (n := candidates(r.tuning)) is not None})
    return "–".join(map(str, counts)) if flag == "tuned" else ""


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
    names = "AIA: average incremental accuracy · MB after the last session"
    return [f"{interval}{names} · formulas: embedbench list metrics"]


def print_report(
    rows: Sequence[Row], *, as_json: bool, extra: dict[str, Any] | None = None
) -> None:
    """Print the tables of all rows to stdout; `extra` is added to the JSON."""
    if as_json:
        print(json.dumps({**to_json(rows), **(extra or {})}, indent=1, allow_nan=False))
    elif rows:
        print_tables(rows)
