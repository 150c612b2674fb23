"""Tables of a report for the terminal; when piped, without colours and with one line per row."""

import inspect
import math
import re
from collections.abc import Collection, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from embedbench.scores.learner_verdicts import ROUNDING, RowVerdict
from embedbench.scores.metric_jackknife import CURVES, find_metric
from embedbench.scores.number_text import amount, megabytes
from embedbench.scores.old_and_new_classes import FEW_SHOT
from embedbench.scores.run_flags import fewest_steps
from embedbench.scores.run_record import FINAL
from embedbench.text import terminal_text
from embedbench.text.terminal_text import NATURAL, line, new_table, render_text

from .compare_learners import describe_verdicts, judge
from .headings_and_units import (
    AVERAGE,
    EQUAL,
    FORGETTING,
    INCREMENTAL,
    MEANINGS,
    OMEGAS,
    SCORE_MEANINGS,
    SHARES,
    STREAMING,
    describe_score,
    heading,
    is_cost,
    is_equal,
    is_percent,
    stat_text,
    value_text,
)
from .measurement_words import describe_measurements
from .result_rows import FLAGS, GACC, Group, Row, candidates, searches, split_tables
from .results import TableVerdicts
from .run_values import run_value
from .verdict_sentence import verdict

BEHIND = "behind"  # by the final score: the verdict on the row
COLUMNS = (FINAL, INCREMENTAL, BEHIND, *OMEGAS, AVERAGE, FORGETTING)
FEW_SHOT_COLUMNS = (FINAL, INCREMENTAL, BEHIND, *FEW_SHOT, *GACC)


def choose_columns(group: Group) -> list[str]:
    """The columns of a table: those of every table, and the metrics that were asked for.

    Those of a few-shot table are what papers on such streams print. Where Ω of streaming learning
    is measured, it takes the place of Ω_all. AA is left out where it is the final score, the
    integral of gAcc where the paper's sum is defined, and any metric that no run has.
    """
    usual = FEW_SHOT_COLUMNS if group.is_few_shot else COLUMNS
    columns = [name for name in usual if name in (FINAL, BEHIND) or _is_known(group, name)]
    if {*GACC} <= {*columns}:
        columns.remove("gacc_exact")
    if AVERAGE in columns and not _differ(group):
        columns.remove(AVERAGE)
    columns = [STREAMING if group.so_far and name == "omega_all" else name for name in columns]
    columns[1:1] = group.beside
    return list(dict.fromkeys([*columns, *group.further]))


def _is_known(group: Group, metric: str) -> bool:
    """Whether some run has a metric, or waits for the runs that Ω needs."""
    waits = metric in OMEGAS and any(
        r.reference.source == "missing" and r.reference.offline_runs for r in group.records
    )
    return waits or any(not math.isnan(run_value(r, metric)) for r in group.records)


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
    for mine in split_tables(rows):
        parts += [*group_parts(mine, width), Text("")]
    if not parts:  # all runs failed: a legend of no table
        return []
    return [*parts, line(describe_columns(rows), "dim")]


def group_parts(
    rows: Sequence[Row], width: int = NATURAL, judged: TableVerdicts | None = None
) -> list[Text | Table]:
    """One table: its title, facts on the stream, the verdict, the table itself, and remarks.

    `judged` are the verdicts on its rows, if they are known.
    """
    group = rows[0].group
    judged = judged or judge(rows)
    table = _table(rows, judged, stacked=False)
    if Console(width=NATURAL).measure(table).maximum > width:
        table = _table(rows, judged, stacked=True)
    parts: list[Text | Table] = [
        line(group.title, "bold"),
        line(" · ".join(group.describe()), "dim"),
        line(f"verdict: {verdict(rows, judged)}"),
        table,
    ]
    if group.kind.DETAILS:
        parts += [Text(""), _details(rows, group.kind.DETAILS)]
    remarks = describe_verdicts(judged)
    measured = [row for row in rows if row.used and not row.guesses]
    remarks += describe_measurements({row.label: row.results for row in measured})
    remarks += describe_weak_reference(rows, judged)
    remarks += _legend(rows)
    remarks += [f"note: {note}" for note in group.notes]
    if remarks:
        parts += [Text(""), *map(line, remarks)]
    return parts


def _details(rows: Sequence[Row], names: Sequence[str]) -> Table:
    """The table of further metrics after the last session."""
    table = new_table(["after the last session", *map(heading, names)])
    for row in rows:
        if row.used:
            table.add_row(line(row.label), *[line(cell_text(row, name)) for name in names])
    return table


def describe_weak_reference(rows: Sequence[Row], judged: TableVerdicts) -> list[str]:
    """A sentence where learners are above α_ideal by more than their interval; or none."""
    ideal = rows[0].group.offline
    if not {*OMEGAS, STREAMING} & {*choose_columns(rows[0].group)}:
        return []
    above = []
    for row, of_row in zip(rows, judged.rows, strict=True):
        if of_row is not None and of_row.mean - of_row.half > ideal:
            above.append(row.label)
    if not above:
        return []
    name = " or ".join(rows[0].group.omega_references) or "offline"
    are = "is" if len(above) == 1 else "are"
    return [
        f"the reference of Ω ({name}, {100 * ideal:.1f} %) is weak here: {', '.join(above)} "
        f"{are} above it by more than the interval; `run --set offline.learner=…` takes another one"
    ]


def _table(rows: Sequence[Row], judged: TableVerdicts, *, stacked: bool) -> Table:
    """One table; `stacked` puts intervals under the means, which halves the width."""
    columns = choose_columns(rows[0].group)
    efforts = effort(rows)
    heads = ["learner", "n", *_titles(columns, rows[0].group.score), *efforts, "MB", "learn s"]
    if any(not math.isnan(row.number(FINAL).half) for row in rows if row.used):
        single = "seeds" if judged.units == "orders" else judged.units
        heads[2] += f" ± {single}"
    table = new_table(heads, gap=1 if stacked else 2)
    if stacked:
        for column, head in zip(table.columns, heads, strict=True):
            column.header = Text(_stack(head).replace(" accuracy", "\naccuracy"))
    has_flags = any(row.flags for row in rows)
    if has_flags:
        table.add_column("flags", no_wrap=True)
    for i, (row, of_row) in enumerate(zip(rows, judged.rows, strict=True)):
        texts = [row.n]
        for name in columns:
            texts.append(behind_text(of_row) if name == BEHIND else cell_text(row, name))
        texts += [of_rows[i] for of_rows in efforts.values()]
        texts += [megabytes(row.footprint.get("total")), amount(row.seconds["learn"].mean)]
        if stacked:
            texts = [_stack(text) for text in texts]
        cells = [line(row.label), *map(Text, texts)]
        if has_flags:
            cells.append(line(" ".join(_mark(flag) + _tried(row, flag) for flag in row.flags)))
        table.add_row(*cells, style=None if row.learns else "dim")
    return table


def _titles(columns: Sequence[str], score: str) -> list[str]:
    """The headings of columns; of two functions of one name each has its module, too."""
    titles = [heading(name, score) for name in columns]
    full = []
    for name, title in zip(columns, titles, strict=True):
        is_ambiguous = ":" in name and titles.count(title) > 1
        full.append(f"{name} %" if is_ambiguous else title)
    return full


def _stack(text: str) -> str:
    """The same with an interval below its number."""
    return re.sub(r" (?=[±(])", "\n", text)


def behind_text(verdict: RowVerdict | None, metric: str = FINAL) -> str:
    """The distance of a row to the best, and its interval; (–) without a verdict."""
    if verdict is None or math.isnan(verdict.behind_by):
        return "–"
    text = value_text(verdict.behind_by, metric)
    if verdict.behind is None:
        return f"{text} (–)"
    if verdict.behind_by == 0:  # the best
        return text
    least = _end_text(verdict.behind_by_least, metric)
    most = _end_text(verdict.behind_by_most, metric)
    return f"{text} ({least} to {most})"


def _end_text(end: float, metric: str) -> str:
    """An end of an interval; no difference of two shares is over 100 points."""
    if is_percent(metric):
        end = min(max(end, -1), 1)
    return value_text(end, metric)


def effort(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Passes over the training data and optimiser steps, each where the learners differ in it."""
    learners = [row for row in rows if row.learns and row.used]
    columns = {}
    for name in ("passes", "steps"):
        if len({cell_text(row, name) for row in learners}) > 1:
            columns[name] = [cell_text(row, name) for row in rows]
    return columns


def cell_text(row: Row, name: str) -> str:
    """A metric of a row: its mean and interval, or "open" where it waits for reference runs."""
    if name in row.metrics and row.is_open(name):
        return "open"
    return stat_text(row.number(name), name)


def _mark(flag: str) -> str:
    """The mark of a flag; an unknown flag is its own mark."""
    return FLAGS[flag][0] if flag in FLAGS else flag


def _tried(row: Row, flag: str) -> str:
    """The number of settings that a search tried, beside its mark; "" for other flags."""
    if flag != "tuned":
        return ""
    counts = {candidates(record.tuning) for record in row.records}
    known = sorted(count for count in counts if count is not None)
    return "–".join(map(str, known))


def _legend(rows: Sequence[Row]) -> list[str]:
    """One line for each flag that occurs: its mark, its meaning, the rows that have it."""
    flags = dict.fromkeys(FLAGS)  # in their order, and unknown ones after them
    for row in rows:
        flags |= dict.fromkeys(row.flags)
    lines = []
    for flag in flags:
        who = [_who_has(row, flag) for row in rows if flag in row.flags]
        if who:
            what = f"{flag}: {FLAGS[flag][1]}" if flag in FLAGS else flag
            lines.append(f"{_mark(flag)}  {what} [{'; '.join(who)}]")
    return lines


def _who_has(row: Row, flag: str) -> str:
    """A row, the runs that have a flag if not all have, and what a flag says of them."""
    total = len(row.records)
    runs = row.flags[flag]
    text = row.label
    if len(runs) < total:
        text += f" {len(runs)} of {total}: seed {', '.join(runs)}"
    if flag == "few-steps":
        counts = [fewest_steps(record) for record in row.records]
        text += f" ({min(count for count in counts if count is not None)})"
    if flag == "tuned":
        text += f": {searches(row.records)}"
    return text


def describe_columns(rows: Sequence[Row]) -> str:
    """What the columns are, as far as their headings do not say it, in one line."""
    return " · ".join([*column_words(rows), "formulas: embedbench list metrics"])


def column_words(rows: Sequence[Row]) -> list[str]:
    """What each column is, "heading: meaning"; and what ± is."""
    names = {"bytes.total"}
    scores: list[str] = []
    for mine in split_tables(rows):
        names |= {*choose_columns(mine[0].group), *effort(mine)}
        scores.append(mine[0].group.score)
    words: list[str] = []
    for score in dict.fromkeys(scores):
        words += describe_score(score, incremental=INCREMENTAL in names)
    others = names.difference(scores)
    words += [meaning for name, meaning in SCORE_MEANINGS.items() if name in others]
    several = any(len(row.used) > 1 for row in rows)
    words.append("± half-width of the 95 % t-interval over n seeds" if several else "n: runs")
    if _any_equal(rows, names):
        words.append(EQUAL)
    shares = [name for name in SHARES if name in names]
    if shares:
        of = ", on ".join(SHARES[name] for name in shares)
        words.append(f"{', '.join(map(heading, shares))}: score on {of} / offline")
    words += [meaning for name, meaning in MEANINGS.items() if name in names]
    words += _asked_words(rows, names)
    references = [row.group.first.reference for row in rows]
    divided = any(r.normalise_new and r.preset == "kemker_table" for r in references)
    if divided and "omega_new" in names:
        words.append("Ω_new of permutations: / offline, too")
    return words


def _any_equal(rows: Sequence[Row], names: Collection[str]) -> bool:
    """Whether all runs of some row have the same value of a metric."""
    for row in rows:
        for name in names:
            if not is_cost(name) and is_equal(row.number(name)):
                return True
    return False


def _asked_words(rows: Sequence[Row], names: Collection[str]) -> list[str]:
    """What the metrics are that --metric asked for: the first line of each function's text."""
    words = list[str]()
    for mine in split_tables(rows):
        group = mine[0].group
        for name in group.further:
            if name not in names or name in (*MEANINGS, *SHARES, *SCORE_MEANINGS, *COLUMNS):
                continue
            outside = group.outside.get(name)
            function = CURVES.get(name) or outside or find_metric(name)
            text = inspect.getdoc(getattr(function, "function", function)) or ""
            first = text.partition("\n")[0].strip().rstrip(".")
            called = heading(name).removesuffix(" %")
            meaning = re.sub(rf"^{re.escape(called)}\w*: ", "", first)  # it need not be said twice
            if meaning:
                words.append(f"{called}: {meaning}")
    return list(dict.fromkeys(words))
