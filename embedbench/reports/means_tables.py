"""Tables of means of other people, alone or beside ours: which differences are decided.

Rows with two seeds in common are paired by them, as everywhere; others are compared by their own
spreads (`scores.unpaired_differences`). What a mean lacks for that is said.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from embedbench.array_types import Floats
from embedbench.config.json_records import plain
from embedbench.errors import UserError
from embedbench.scores.learner_verdicts import LEAST, ROUNDING, RowVerdict
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.number_text import format_signed
from embedbench.scores.unpaired_differences import POWER, ComparedMeans, compare_means
from embedbench.text.table_export import records
from embedbench.text.terminal_text import line, new_table

from .comparison_tables import TableView, allowed_ranks, section
from .headings_and_units import heading, is_percent
from .printed_means import PRINTED, SOURCE, PrintedMean
from .results import Result, Results
from .results_csv import CI, STD

SCHEMA = "embedbench-means/1.0"
ALONE = "no other row can be compared with it"
MOST = 1000  # rows: all pairs are compared
NAMED = 6  # pairs of rows that a line lists
OURS = "ours"  # where rows of our runs are from


@dataclass(frozen=True)
class MeansTable:
    """Rows of one table, compared by one metric.

    Parameters
    ----------
    title : str
        What they are results of.
    metric : str
        A name of the rows' values.
    results : Results
        Runs and printed means; the label of a result is that of its row.
    places : mapping
        Label → where a row is from; none where all are from one place.
    notes : tuple of str
        Further remarks.
    difference : float or None
        One that the reader names: how many runs would see it.
    """

    title: str
    metric: str
    results: Results
    places: Mapping[str, str]
    notes: tuple[str, ...] = ()
    difference: float | None = None

    @cached_property
    def rows(self) -> dict[str, Results]:
        """Label → the results of a row, best mean first; rows without a mean come last."""
        each: dict[str, list[Result]] = {}
        for result in self.results:
            each.setdefault(result.label, []).append(result)
        if len(each) > MOST:
            raise UserError(f"{self.title} has {len(each):,} rows", f"compare {MOST:,} at most")
        rows = {label: Results(tuple(mine)) for label, mine in each.items()}
        sign = 1 if self.is_lower else -1

        def place(label: str) -> tuple[bool, float]:
            mean = rows[label].stat(self.metric).mean
            return math.isnan(mean), sign * mean

        return {label: rows[label] for label in sorted(rows, key=place)}

    @property
    def is_lower(self) -> bool:
        """Whether less is better."""
        return self.results.is_lower(self.metric)

    @cached_property
    def stats(self) -> dict[str, Stat]:
        """Label → mean, sd and n."""
        return {label: rows.stat(self.metric) for label, rows in self.rows.items()}

    @cached_property
    def printed(self) -> dict[str, PrintedMean | None]:
        """Label → what was printed of it; None of runs."""
        of: dict[str, PrintedMean | None] = {}
        for label, rows in self.rows.items():
            of[label] = rows.rows[0].values.get(PRINTED, {}).get(self.metric)
        return of

    @cached_property
    def by_seed(self) -> Floats:
        """(k, n) values by row and seed; NaN where a row has no run of a seed."""
        seeds = dict.fromkeys(r.seed for r in self.results if r.seed is not None)
        values = np.full((len(self.rows), max(1, len(seeds))), math.nan)
        for i, rows in enumerate(self.rows.values()):
            for k, seed in enumerate(seeds):
                mine = [r.value(self.metric) for r in rows if r.seed == seed]
                values[i, k] = float(np.mean(mine)) if mine else math.nan
        return values

    @cached_property
    def compared(self) -> ComparedMeans:
        """The verdicts of its rows, in their order."""
        digits = [0.0 if p is None else p.digit for p in self.printed.values()]
        return compare_means(
            list(self.stats.values()), self.by_seed, np.array(digits), lower=self.is_lower
        )

    @property
    def verdicts(self) -> dict[str, RowVerdict]:
        """Label → verdict."""
        return dict(zip(self.rows, self.compared.verdicts, strict=True))

    def lacks(self, label: str) -> str:
        """Why a row cannot be compared, in words; "" if it can."""
        if self.verdicts[label].behind is not None:
            return ""
        printed = self.printed[label]
        stat = self.stats[label]
        if math.isnan(stat.mean):
            return "it has no mean"
        if printed is not None and printed.lacks:
            return printed.lacks
        if stat.sd == 0 and stat.n < LEAST:
            return f"a spread of 0 of fewer than {LEAST} runs is no proof"
        if stat.n < 2 or math.isnan(stat.sd):
            return "fewer than two runs that differ"
        return ALONE

    @property
    def pairs(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """The pairs (above, below) that are decided, and those (above, below) that are not."""
        labels = list(self.rows)
        decided = self.compared.decided
        sure = []
        open_ = []
        for i, above in enumerate(labels):
            for j in range(i + 1, len(labels)):
                if decided[j, i]:
                    sure.append((above, labels[j]))
                elif not math.isnan(self.compared.apart.mean[i, j]):
                    open_.append((above, labels[j]))
        return sure, open_

    # --- numbers as texts ---

    def text(self, value: float) -> str:
        """A mean, spread or difference, with the digits that the means have."""
        if math.isnan(value):
            return "–"
        scale = 100 if is_percent(self.metric) else 1
        digits = [p.digit for p in self.printed.values() if p is not None and p.digit]
        last = min((2 * digit * scale for digit in digits), default=1)
        least = 1 if scale == 100 else 3
        return format_signed(scale * value, max(least, -round(math.log10(last))))

    def points(self, value: float) -> str:
        """A difference with its unit."""
        text = self.text(value)
        return f"{text} points" if is_percent(self.metric) else text


def view(table: MeansTable) -> TableView:
    """The table as text, JSON and rows of CSV.

    The JSON has `title`, `metric`, `lower_is_better`, `verdict` (a sentence), `rows`, `decided` and
    `undecided` (pairs: the row above, the row below) and `notes`. A row has the keys of a `verdict`
    of `report --json` (`against` and `above` are names of rows), `method`, `from`, `spread` and
    `spread_is`, as they were printed, and `runs`, how many see the difference that --difference
    names. Numbers are fractions.
    """
    heads = ["method", *(["from"] if table.places else []), "n", heading(table.metric), "±"]
    heads += ["rank", "possible ranks", "behind by (95 %)", "seen from"]
    if table.difference is not None:
        heads.append("runs")
    made = new_table(heads, names=2 if table.places else 1)
    rows = []
    for i, label in enumerate(table.rows):
        rows.append(_row(table, i, label))
        made.add_row(*map(line, _cells(table, label, rows[-1])))
    sentence = verdict_on(table)
    remarks = _remarks(table)
    sure, undecided = table.pairs
    data = {
        "title": table.title,
        "metric": table.metric,
        "lower_is_better": table.is_lower,
        "verdict": sentence,
        "rows": rows,
        "decided": sure,
        "undecided": undecided,
        "notes": remarks,
    }
    facts = [
        "1 row" if len(rows) == 1 else f"{len(rows)} rows",
        "less is better" if table.is_lower else "more is better",
    ]
    parts = section(table.title, facts, made, ["", *remarks])
    parts.insert(2, line(f"verdict: {sentence}"))
    return TableView(table.title, records(plain({"rows": rows}), "rows"), parts, plain(data))


def _row(table: MeansTable, i: int, label: str) -> dict[str, Any]:
    """The numbers of a row."""
    verdict = table.verdicts[label]
    stat = table.stats[label]
    printed = table.printed[label]
    spread, kind = (stat.sd, STD) if printed is None else (printed.spread, printed.kind)
    row: dict[str, Any] = {"method": label, "from": table.places.get(label, "")}
    row |= {**verdict.to_json(), "n": stat.n or None, "spread": spread, "spread_is": kind}
    labels = list(table.rows)
    row["against"] = None if verdict.against is None else labels[verdict.against]
    row["above"] = [labels[j] for j in verdict.above]
    if table.difference is not None:
        row["runs"] = table.compared.count_runs(i, table.difference)
    return row


def _cells(table: MeansTable, label: str, row: Mapping[str, Any]) -> list[str]:
    """The texts of a row."""
    verdict = table.verdicts[label]
    spread = (
        "–"
        if math.isnan(row["spread"])
        else f"{table.text(row['spread'])} {row['spread_is'] or '?'}"
    )
    behind = table.text(verdict.behind_by)
    if verdict.behind is None:
        behind += " (–)"
    elif verdict.behind_by > 0:
        ends = verdict.behind_by_least, verdict.behind_by_most
        behind += f" ({' to '.join(map(table.text, ends))})"
    cells = [label, *([row["from"]] if table.places else []), str(row["n"] or "–")]
    cells += [table.text(verdict.mean), spread, str(verdict.rank or "–"), allowed_ranks(verdict)]
    cells += [behind, table.text(verdict.detectable)]
    if table.difference is not None:
        cells.append("–" if row["runs"] is None else f"{row['runs']:,}")
    return cells


# --- what is said of a table ---


def verdict_on(table: MeansTable) -> str:
    """One sentence: which mean is best, which rows are behind, and of which nothing can be said."""
    known = [label for label in table.rows if not math.isnan(table.stats[label].mean)]
    if not known:
        return "no row has a mean"
    best = "lowest" if table.is_lower else "highest"
    means = {label: table.stats[label].mean for label in known}
    first = [label for label in known if abs(means[label] - means[known[0]]) < ROUNDING]
    has = "has" if len(first) == 1 else "have"
    lead = f"{_listed(first)} {has} the {best} mean, {table.text(means[known[0]])}"
    if len(known) == 1:
        return f"{lead}, and there is no other row to compare it with"
    verdicts = table.verdicts
    if all(verdicts[label].behind is None for label in known):
        reasons = [why for why in dict.fromkeys(map(table.lacks, known)) if why != ALONE]
        return f"{', or '.join(reasons)}: no difference can be called decided ({lead})"
    parts = [lead]
    behind = [label for label in known if verdicts[label].behind]
    if behind:
        texts = [f"{a} (by at least {table.points(verdicts[a].behind_by_least)})" for a in behind]
        parts.append(f"{_listed(texts)} {_are(behind)} behind")
    else:
        least = min(v.detectable for v in verdicts.values() if v.behind is not None)
        parts.append(
            f"no difference is decided: the smallest that could have been is {table.points(least)}"
        )
    level = [label for label in known[len(first) :] if verdicts[label].behind is False]
    if level and behind:
        parts.append(f"{_listed(level)} may be level")
    unknown: dict[str, list[str]] = {}
    for label in known:
        if verdicts[label].behind is None:
            unknown.setdefault(table.lacks(label), []).append(label)
    parts += [f"nothing can be said of {_listed(of)}: {why}" for why, of in unknown.items()]
    return "; ".join(parts)


def _remarks(table: MeansTable) -> list[str]:
    """What the verdicts rest on and cannot see, what ± is, how many runs are needed, sources."""
    remarks = []
    tested = [v for v in table.verdicts.values() if v.behind is not None]
    if tested:
        remarks += _basis(table)
        sure, undecided = table.pairs
        remark = f"decided: {len(sure)} of {len(sure) + len(undecided)} differences"
        if undecided:
            names = [f"{a} and {b}" for a, b in undecided[:NAMED]]
            remark += f"; not: {', '.join(names)}"
        if len(undecided) > NAMED:
            remark += f" and {len(undecided) - NAMED} more"
        remarks.append(remark)
        if table.difference is not None:
            remarks.append(_needed(table, table.difference))
    remarks += _spreads(table)
    remarks += table.notes
    sources = dict.fromkeys(r.values[SOURCE] for r in table.results if SOURCE in r.values)
    return [*remarks, *(f"source: {source}" for source in sources)]


def _basis(table: MeansTable) -> list[str]:
    """What the verdicts rest on, and what they cannot see."""
    apart = table.compared.apart
    others = apart.decidable
    paired = bool((others & apart.paired).any())
    alone = bool((others & ~apart.paired).any())
    lines = [
        "behind by (95 %): mean difference to the best, and its interval; a row is behind where "
        "all of it is above 0, at 5 % for each row, with normal residuals · possible ranks: those "
        "that are left open · seen from: a difference to the best other row that would be decided"
    ]
    if paired:
        lines.append(
            "paired by seed, where rows have two in common: on the word of who wrote the seeds, "
            "the same data and class order"
        )
    if alone:
        what = "rows without seeds in common are unpaired" if paired else "unpaired"
        lines.append(
            f"{what}: it is not seen what rows share (class orders, first weights, test samples), "
            "so a paired verdict may see more"
        )
    elsewhere = " (it is in the verdict on ours alone)" if OURS in table.places.values() else ""
    lines.append(f"over runs alone: another test sample is not in it{elsewhere}")
    return lines


def _spreads(table: MeansTable) -> list[str]:
    """What ± is, where that is easily taken for something else; rows without it."""
    printed = {label: p for label, p in table.printed.items() if p is not None}
    kinds = {p.kind for p in printed.values() if not math.isnan(p.spread)}
    lines = []
    missing = [label for label, p in printed.items() if math.isnan(p.spread)]
    if missing and len(missing) < len(table.rows):  # else the verdict says it
        lines.append(
            f"no spread is printed of {', '.join(missing)}: no difference to them is decided"
        )
    if CI in kinds:
        lines.append("95 % ci is read as a t-interval; where it is 1.96 sem, say so (± is)")
    if STD in kinds:
        lines.append("std is that of single runs with n - 1; where it is np.std, say std (n)")
    return lines


def _needed(table: MeansTable, difference: float) -> str:
    return (
        f"runs: so many of the row and of the best other one see a difference of "
        f"{table.points(difference)} in {round(5 * POWER)} of 5 tables, if their spreads stay"
    )


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
