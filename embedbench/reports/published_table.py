"""A published table beside runs of ours: does ours agree with what is printed, within a margin?

`[published]` of a TOML file has what was printed, where each number was read, and the margin, which
is fixed before any run. docs/studies.md has its keys.

Ours *agrees* where the 95 % interval of the difference lies within the margin, *differs* where it
lies outside, and is *undecided* elsewhere. The interval is that of two means whose runs are not
paired, `unpaired_differences`: its half-width squared is the sum of the squares of theirs, and half
a unit of the printed last digit is added.

**Source**: an interval within a margin is the test of equivalence of Schuirmann (1987), at 2.5 % a
side; Banerjee (1960) for the interval.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embedbench.config.json_records import ABSENT, JsonRecord, parse_toml
from embedbench.config.plain_numbers import plain_number
from embedbench.errors import UserError, unknown
from embedbench.scores.learner_verdicts import LEAST, ROUNDING
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.number_text import format_signed
from embedbench.storage.regular_files import read_text
from embedbench.text.terminal_text import line, new_table

from .comparison_tables import TableView, section
from .printed_means import PrintedMean
from .results import Result, Results
from .results_csv import KINDS, find_kind
from .run_rows import condition_values, matching, settings_apart, streams
from .table_metric import meant

PUBLISHED = "published"  # the key of a file
AGREES, DIFFERS, UNDECIDED, NO_RUN = "agrees", "differs", "undecided", "no run"
MOST = 2**20  # bytes of a file
RULE = (
    "agrees: the 95 % interval of the difference lies within the margin; differs: it lies outside; "
    "a margin means something only if it was fixed before any run"
)


@dataclass(frozen=True, kw_only=True)
class PublishedRow(JsonRecord):
    """A printed row, in percent, and which runs of ours stand beside it.

    Parameters
    ----------
    method : str
        As it is printed.
    mean, spread : str
        In percent, with the digits that are printed; `spread` is "" where none is printed.
    learner : str
        Ours.
    where : dict
        Further conditions on ours, as in a `[report]`.
    settings : dict
        What its runs had, and where that was read: setting → text. For the reader alone.
    margin : float or None
        In points; None: that of the table.
    """

    method: str
    mean: str
    spread: str = ""
    learner: str
    where: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    margin: float | None = field(default=None, metadata=ABSENT)


@dataclass(frozen=True, kw_only=True)
class PublishedTable(JsonRecord):
    """`[published]` of a file.

    Parameters
    ----------
    title, source : str
        Of the table; where its numbers were read.
    metric : str
        Ours, such as "accuracy".
    spread_is : str
        What stands behind ±: "standard deviation", "standard error", …
    runs : int
        Number of runs of each printed mean.
    margin : float
        In points.
    because : str
        Why the margin is what it is.
    data : str
        Whether ours is the paper's data, with the paper's backbone or another, or other data.
    results : tuple of str
        Directories of runs and CSV files of results, relative to the file.
    """

    title: str
    source: str
    metric: str
    spread_is: str
    runs: int
    margin: float
    because: str
    data: str
    results: tuple[str, ...] = ()
    rows: tuple[PublishedRow, ...]


@dataclass(frozen=True)
class Agreement:
    """A printed row, ours beside it, and the verdict; numbers are fractions."""

    row: PublishedRow
    printed: PrintedMean
    ours: Stat | None
    margin: float

    @property
    def difference(self) -> float:
        """Ours less what is printed; NaN without runs."""
        return math.nan if self.ours is None else self.ours.mean - self.printed.mean

    @property
    def half(self) -> float:
        """The half-width of its 95 % interval; NaN where a spread is not known.

        As in `unpaired_differences` a spread of 0 of fewer than `LEAST` runs is none that is known.
        """
        if self.ours is None:
            return math.nan
        for stat in (self.ours, self.printed.stat):
            if stat.sd < ROUNDING and stat.n < LEAST:
                return math.nan
        return math.hypot(self.ours.half, self.printed.stat.half) + self.printed.digit

    @property
    def verdict(self) -> str:
        """One of `AGREES`, `DIFFERS`, `UNDECIDED`, `NO_RUN`.

        >>> row = PublishedRow(method="A", mean="50.0", spread="1.0", learner="a")
        >>> printed = PrintedMean(0.5, 0.01, "std", 10)
        >>> Agreement(row, printed, Stat.printed(0.505, 10, sd=0.01), 0.02).verdict
        'agrees'
        """
        if self.ours is None:
            return NO_RUN
        apart = abs(self.difference)
        if apart + self.half <= self.margin:
            return AGREES
        return DIFFERS if apart - self.half > self.margin else UNDECIDED


def read_published(path: Path) -> PublishedTable | None:
    """`[published]` of a TOML file; None if it has none."""
    given = parse_toml(read_text(path, most=MOST), str(path)).get(PUBLISHED)
    if given is None:
        return None
    at = f"{path}: {PUBLISHED}"
    table = PublishedTable.from_json(_with_numbers(given, at), at)
    if not find_kind(table.spread_is):
        raise unknown("spread_is", table.spread_is, dict.fromkeys(KINDS.values()), at=at)
    for row in table.rows:
        _check_percentage(row.mean, f"{at}: mean of {row.method}")
        if row.spread:
            _check_percentage(row.spread, f"{at}: spread of {row.method}")
    return table


def _with_numbers(given: Any, at: str) -> Any:
    """The table with what is printed as text, 50 as well as 50.0, and margins as numbers."""
    if not isinstance(given, dict):
        return given
    made = dict(given)
    if "margin" in made:
        made["margin"] = _points(made["margin"], f"{at}: margin")
    if isinstance(made.get("rows"), list):
        made["rows"] = [_row_with_numbers(row, at) for row in made["rows"]]
    return made


def _row_with_numbers(given: Any, at: str) -> Any:
    if not isinstance(given, dict):
        return given
    printed: dict[str, Any] = {
        name: str(given[name]) for name in ("mean", "spread") if name in given
    }
    if "margin" in given:
        printed["margin"] = _points(given["margin"], f"{at}: margin of {given.get('method')}")
    return {**given, **printed}


def _points(value: Any, what: str) -> float:
    number = plain_number(str(value))
    if number is None or not number > 0:
        raise UserError(what, expected="points, above 0", got=value)
    return float(number)


def _check_percentage(text: str, what: str) -> None:
    number = plain_number(text)
    if number is None or not 0 <= number <= 100:
        raise UserError(what, expected="a percentage as it is printed, such as 49.78", got=text)


def compare(table: PublishedTable, runs: Sequence[Result]) -> list[Agreement]:
    """Each printed row beside the runs of ours that it names."""
    metric = meant(table.metric)
    kind = find_kind(table.spread_is)
    rows = []
    for row in table.rows:
        spread = float(row.spread) / 100 if row.spread else math.nan
        digit = 0.5 / 100 * 10.0 ** -len(row.mean.partition(".")[2])
        printed = PrintedMean(float(row.mean) / 100, spread, kind, table.runs, digit)
        ours = _runs_of(row, runs)
        stat = Results(tuple(ours)).stat(metric) if ours else None
        margin = (table.margin if row.margin is None else row.margin) / 100
        rows.append(Agreement(row, printed, stat, margin))
    return rows


def _runs_of(row: PublishedRow, runs: Sequence[Result]) -> list[Result]:
    """The runs that a row names; refuses two with one seed, and runs of several streams."""
    mine = [run for run in runs if run.learner == row.learner]
    conditions = {name: condition_values(value) for name, value in row.where.items()}
    keep = matching([run.values for run in mine], conditions)
    kept = [run for run, kept in zip(mine, keep, strict=True) if kept]
    rows = [{**run.values, "learner": run.learner} for run in kept]
    places = dict.fromkeys(streams(rows))
    if len(places) > 1:
        raise UserError(
            f"{row.method} has runs of {row.learner} on {len(places)} streams: {', '.join(places)}",
            "say in where which one is meant, or give the directory of one",
        )
    if len({*settings_apart(rows)}) > 1:
        raise UserError(
            f"{row.method} has runs of {row.learner} with several settings",
            "say in where which are meant",
        )
    taken = set()
    for run in kept:
        once = run.seed, run.seeds
        if once in taken:
            raise UserError(
                f"{row.method} has two runs of {row.learner} with seed {run.seed}",
                "say in where which settings are meant",
            )
        taken.add(once)
    return kept


# --- the table that is shown ---


def view(table: PublishedTable, rows: Sequence[Agreement]) -> TableView:
    """The table: printed, ours, their difference with its interval, the verdict."""
    heads = ("method", "printed %", "ours %", "difference (95 %)", "margin", "")
    made = new_table(heads, names=1)
    lines = []
    for row in rows:
        half = "" if math.isnan(row.half) else f" ±{100 * row.half:.1f}"
        apart = "–" if row.ours is None else f"{format_signed(100 * row.difference, 1)}{half}"
        texts = (
            row.row.method,
            f"{row.row.mean} ±{row.row.spread}" if row.row.spread else row.row.mean,
            "–" if row.ours is None else f"{_percent(row.ours.mean, row.ours.half)} ({row.ours.n})",
            apart,
            f"{100 * row.margin:.1f}",
            row.verdict,
        )
        made.add_row(*map(line, texts))
        lines.append(_csv_row(row))
    counts = [f"{name} {n}" for name, n in count_verdicts(rows).items() if n]
    remarks = [
        "",
        f"printed: {table.source}; ± {table.spread_is}, {table.runs} runs",
        "ours: ± half-width of the 95 % t-interval, in brackets the number of runs",
        RULE,
        f"margin {table.margin:g}: {table.because}",
    ]
    facts = [table.data, table.metric, ", ".join(counts)]
    said = ("title", "source", "metric", "spread_is", "runs", "because", "data")
    data = {**{name: getattr(table, name) for name in said}, "rows": lines}
    return TableView(table.title, lines, section(table.title, facts, made, remarks), data)


def count_verdicts(rows: Sequence[Agreement]) -> Mapping[str, int]:
    """Verdict → number of rows."""
    verdicts = [row.verdict for row in rows]
    return {name: verdicts.count(name) for name in (AGREES, DIFFERS, UNDECIDED, NO_RUN)}


def _percent(mean: float, half: float) -> str:
    return f"{100 * mean:.2f}" + ("" if math.isnan(half) else f" ±{100 * half:.2f}")


def _csv_row(row: Agreement) -> dict[str, Any]:
    ours = Stat(math.nan, math.nan, math.nan, (), 0) if row.ours is None else row.ours
    return {
        "method": row.row.method,
        "learner": row.row.learner,
        "printed": row.printed.mean,
        "printed.spread": row.printed.spread,
        "ours": ours.mean,
        "ours.half_95": ours.half,
        "n": ours.n,
        "difference": row.difference,
        "difference.half_95": row.half,
        "margin": row.margin,
        "verdict": row.verdict,
    }
