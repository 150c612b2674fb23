"""Tables of a report for the terminal; when piped, without colours and with one line per row."""

import math
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from embedbench.scores.learner_verdicts import ROUNDING, RowVerdict
from embedbench.scores.number_text import amount, megabytes
from embedbench.scores.run_flags import fewest_steps
from embedbench.scores.run_record import FINAL
from embedbench.text import terminal_text
from embedbench.text.terminal_text import NATURAL, line, new_table, render_text

from .compare_learners import TableVerdicts, describe_verdicts, judge
from .headings_and_units import (
    AVERAGE,
    FORGETTING,
    INCREMENTAL,
    MEANINGS,
    OMEGAS,
    SHARES,
    STREAMING,
    heading,
    stat_text,
    value_text,
)
from .result_rows import FLAGS, Group, Row, candidates, has_labels, searches, split_tables
from .verdict_sentence import verdict

BEHIND = "behind"  # by the final score: the verdict on the row
COLUMNS = (FINAL, INCREMENTAL, BEHIND, *OMEGAS, AVERAGE, FORGETTING)
KEMKER = ("incremental-class", "multi-modal", "permutation")  # protocols that are scored by Ω
EQUAL = "=  deterministic: all runs of the row gave the same answers"
# the label sets after the last session
LABELS = (
    *("pw_js", "js", "exact_match", "superclass_pw_js", "subclass_precision"),
    *("labels_predicted", "labels_true"),
)


def choose_columns(group: Group) -> list[str]:
    """The columns of a table: those of every table, and the metrics that were asked for.

    Ω comes first where the protocol is Kemker's. Where Ω of streaming learning is measured, it
    takes the place of Ω_all. AA is left out where it is the final score, and any metric that no
    run has.
    """
    columns = [name for name in COLUMNS if name in (FINAL, BEHIND) or _is_known(group, name)]
    if AVERAGE in columns and not _differ(group):
        columns.remove(AVERAGE)
    if group.first.protocol in KEMKER:  # the sort is stable
        columns.sort(key=lambda name: name not in (FINAL, BEHIND, *OMEGAS))
    columns = [STREAMING if group.so_far and name == "omega_all" else name for name in columns]
    return list(dict.fromkeys([*columns, *group.further]))


def _is_known(group: Group, metric: str) -> bool:
    """Whether some run has a metric, or waits for the runs that Ω needs."""
    waits = metric in OMEGAS and any(
        r.reference.source == "missing" and r.reference.offline_runs for r in group.records
    )
    return waits or any(not math.isnan(r.metrics.get(metric, math.nan)) for r in group.records)


def _differ(group: Group) -> bool:
    """Whether AA, where each session counts the same, is another number than the final score."""
    pairs = [(r.metrics.get(AVERAGE, math.nan), r.metrics[FINAL]) for r in group.records]
    return any(abs(a - b) > ROUNDING for a, b in pairs)


def print_tables(rows: Sequence[Row]) -> None:
    """Print the tables to stdout: as wide as the terminal, or one line per row without one."""
    print(table_text(rows, width=terminal_text.terminal_width(), colour=terminal_text.has_styles()))


def table_text(rows: Sequence[Row], *, width: int | None = None, colour: bool = False) -> str:
    """The tables as text; `width` is what they fit into, None: one line per row, however long."""
    return render_text(table_parts(rows, width or NATURAL), width=width, colour=colour)


def table_parts(rows: Sequence[Row], width: int = NATURAL) -> list[Text | Table]:
    """The tables with their titles and remarks, before they are text."""
    parts: list[Text | Table] = []
    for i, mine in enumerate(split_tables(rows)):
        parts += [Text("")] if i else []
        parts += _group_parts(mine, width)
    return [*parts, Text(""), *(line(text, "dim") for text in _footer(rows))]


def csv_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The numbers of the tables, one row each, with the names of `load_runs`.

    The half-width of the 95 % interval of NAME is `NAME.half_95`; metrics are fractions, sizes
    bytes, times seconds.
    """
    each = split_tables(rows)
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
    numbers = {name: row.metrics.get(name) for name in choose_columns(group) if name != BEHIND}
    further = LABELS if has_labels(group.first) and row.used else ()
    numbers |= {name: row.number(name) for name in (*further, "seconds.learn")}
    for name, stat in numbers.items():
        cells[name] = stat and stat.mean
        cells[f"{name}.half_95"] = stat and stat.half
    for name in ("behind", "behind_by", "behind_by_least", "detectable"):
        cells[name] = None if verdict is None else getattr(verdict, name)
    cells |= {name: row.number(name).mean for name in ("passes", "steps")}
    cells["bytes.total"] = row.footprint.get("total")
    return cells | {"flags": " ".join(row.flags)}


def _group_parts(rows: Sequence[Row], width: int) -> list[Text | Table]:
    group, judged = rows[0].group, judge(rows)
    title, sentence = line(group.title, "bold"), line(f"verdict: {verdict(rows, judged)}")
    table = _table(rows, judged, stacked=False)
    if Console(width=NATURAL).measure(table).maximum > width:
        table = _table(rows, judged, stacked=True)
    facts = line(" · ".join(group.describe()), "dim")
    parts: list[Text | Table] = [title, facts, sentence, table]
    if has_labels(group.first):
        labels = new_table(["after the last session", *map(heading, LABELS)])
        for row in rows:
            cells = [row.label, *(cell_text(row, name) for name in LABELS)]
            if row.used:
                labels.add_row(*map(line, cells), style=None if row.learns else "dim")
        parts += [Text(""), labels]
    equal = [EQUAL] if any(row.are_equal for row in rows) else []
    remarks = describe_verdicts(judged)
    remarks += [*describe_weak_reference(rows, judged), *equal, *legend(rows)]
    remarks += [f"note: {n}" for n in group.notes]
    return [*parts, *([Text("")] if remarks else []), *map(line, remarks)]


def describe_weak_reference(rows: Sequence[Row], judged: TableVerdicts) -> list[str]:
    """A sentence where learners are above α_ideal by more than their interval; or none."""
    ideal = rows[0].group.offline
    each = zip(rows, judged.rows, strict=True)
    above = [row.label for row, v in each if v is not None and v.mean - v.half > ideal]
    if not above:
        return []
    name = " or ".join(rows[0].group.omega_references) or "offline"
    return [
        f"the reference of Ω ({name}, {100 * ideal:.1f} %) is weak here: {', '.join(above)} "
        f"{'is' if len(above) == 1 else 'are'} above it by more than the interval; run with "
        "--set offline.learner=… names another one"
    ]


def _table(rows: Sequence[Row], judged: TableVerdicts, *, stacked: bool) -> Table:
    """One table; `stacked` puts intervals under the means, which halves the width."""
    gap, between = (1, "\n") if stacked else (2, " ")
    columns, efforts = choose_columns(rows[0].group), effort(rows)
    heads = ["learner", "n", *map(heading, columns), *efforts, "MB", "learn s"]
    table = new_table(heads, gap=gap)
    flagged = any(row.flags for row in rows)
    if flagged:
        table.add_column("flags", no_wrap=True)
    for i, (row, of_row) in enumerate(zip(rows, judged.rows, strict=True)):
        cells = [f"={row.n}" if row.are_equal else row.n]
        cells += [
            behind_text(of_row, FINAL, between) if name == BEHIND else cell_text(row, name, between)
            for name in columns
        ]
        cells += [texts[i] for texts in efforts.values()]
        cells += [megabytes(row.footprint.get("total")), amount(row.seconds["learn"].mean)]
        flags = [line(" ".join(mark(f) + count_tried(row, f) for f in row.flags))] * flagged
        dim = None if row.learns else "dim"
        table.add_row(line(row.label), *map(Text, cells), *flags, style=dim)
    return table


def behind_text(verdict: RowVerdict | None, metric: str = FINAL, between: str = " ") -> str:
    """The distance of a row to the best, and the least if it is behind; (–) without a verdict."""
    if verdict is None or math.isnan(verdict.behind_by):
        return "–"
    text = value_text(verdict.behind_by, metric)
    if verdict.behind is None:
        return f"{text}{between}(–)"
    least = value_text(verdict.behind_by_least, metric)
    return f"{text}{between}(≥ {least})" if verdict.behind else text


def effort(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Passes over the training data and optimiser steps, each where the learners differ in it."""
    texts = {name: [cell_text(row, name) for row in rows] for name in ("passes", "steps")}
    learners = [i for i, row in enumerate(rows) if row.learns and row.used]
    return {name: each for name, each in texts.items() if len({each[i] for i in learners}) > 1}


def cell_text(row: Row, name: str, between: str = " ") -> str:
    """A metric of a row: its mean and interval, or "open" where it waits for reference runs."""
    if name in row.metrics and row.is_open(name):
        return "open"
    return stat_text(row.exact(row.number(name)), name, between)


def mark(flag: str) -> str:
    """The mark of a flag; an unknown flag is its own mark."""
    return FLAGS[flag][0] if flag in FLAGS else flag


def count_tried(row: Row, flag: str) -> str:
    """The number of settings that a search tried, beside its mark; "" for other flags."""
    counts = sorted({n for r in row.records if (n := candidates(r.tuning)) is not None})
    return "–".join(map(str, counts)) if flag == "tuned" else ""


def legend(rows: Sequence[Row]) -> list[str]:
    """One line for each flag that occurs: its mark, its meaning, the rows that have it."""
    return [
        f"{mark(flag)}  {f'{flag}: {FLAGS[flag][1]}' if flag in FLAGS else flag} [{who}]"
        for flag, who in flags_of_rows(rows).items()
    ]


def flags_of_rows(rows: Sequence[Row]) -> dict[str, str]:
    """Each flag that occurs → the rows that have it."""
    each = dict.fromkeys([*FLAGS, *(f for r in rows for f in r.flags)])
    having = {f: [who_has(row, f) for row in rows if f in row.flags] for f in each}
    return {flag: "; ".join(who) for flag, who in having.items() if who}


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
    """What the columns are, as far as their headings do not say it."""
    names = {"bytes.total"}
    for mine in split_tables(rows):
        names |= {*choose_columns(mine[0].group), *effort(mine)}
    references = [row.group.first.reference for row in rows]
    divided = any(r.normalise_new and r.preset == "kemker_table" for r in references)
    shares = [name for name in SHARES if name in names]
    over = "± half-width of the 95 % t-interval over n seeds"
    several = [over] if any(len(row.used) > 1 for row in rows) else ["n: runs"]
    of = ", on ".join(SHARES[name] for name in shares)
    words = [f"{', '.join(map(heading, shares))}: score on {of} / offline"] if shares else []
    words += [meaning for name, meaning in MEANINGS.items() if name in names]
    if divided and "omega_new" in names:
        words.append("Ω_new of permutations: / offline, too")
    return [" · ".join([*several, *words, "formulas: embedbench list metrics"])]
