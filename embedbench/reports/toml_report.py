"""`report FILE.toml`: tables that a `[report]` of a TOML file selects from runs, and how they look.

The file may be a study file, or have several `[[report]]`. docs/studies.md has the keys. Runs are
directories, checked as in every report, or CSV files of rows, relative to the file.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

from embedbench.config.json_records import ABSENT, JsonRecord, parse_toml
from embedbench.config.plain_numbers import plain_number
from embedbench.errors import UserError, unknown
from embedbench.scores.learner_verdicts import SAMPLE, Over
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.metric_jackknife import CURVES
from embedbench.scores.run_record import FINAL, RunRecord
from embedbench.scores.unrecorded_metrics import FUNCTIONS
from embedbench.storage.regular_files import read_text
from embedbench.text.terminal_text import line, new_table

from . import compare_learners
from .comparison_tables import TableView, allowed_ranks, section
from .headings_and_units import heading, is_cost, stat_text
from .load_results import Run
from .result_rows import LEFT_OUT, Row, run_value
from .run_rows import RowOfRun, matching, read_csv, settings_apart, streams, value_names
from .tables_from_runs import collect

SCHEMA = "embedbench-tables/1.0"
MOST = 2**20  # bytes of a file
MAX = "max "  # before a metric: the largest over runs, in place of the mean
INTERVAL = "± half-width of the 95 % t-interval over seeds; over streams where it is of several"


@dataclass(frozen=True, kw_only=True)
class Selection(JsonRecord):
    """One `[report]`: which runs, and what of them is shown how; docs/studies.md has each key."""

    runs: tuple[str, ...]
    title: str = ""
    where: dict[str, Any] = field(default_factory=dict)
    rows: tuple[str, ...] = ("learner", "settings")
    columns: str = "metric"
    metrics: tuple[str, ...] = (FINAL,)
    over: str | None = field(default=None, metadata=ABSENT)  # an `Over`


KEYS = [f.name for f in fields(Selection)]
NAMES = ("learner", "settings", "stream", "seed")  # of rows


def read_selections(path: Path) -> list[Selection]:
    """The tables that a file selects."""
    given = parse_toml(read_text(path, most=MOST), str(path)).get("report")
    several = given if isinstance(given, list) else [given] if given else []
    if not several:
        raise UserError(f"{path} must have a table [report] that says what to show", "or name RUNS")
    allowed = {"over": get_args(Over), "columns": ("metric", "stream"), "rows": NAMES}
    result, places = list[Selection](), list[str]()
    for i, table in enumerate(several):
        at = f"{path}: report" + f" {i + 1}" * (len(several) > 1)
        for key in table if isinstance(table, dict) else ():
            if key not in KEYS:
                raise unknown("key", key, KEYS, at=at)
        made = Selection.from_json(table, at)
        given = {"over": [made.over], "columns": [made.columns], "rows": made.rows}
        for key, values in given.items():
            for value in values:
                if value not in (None, *allowed[key]):
                    raise unknown(key, value, allowed[key], at=at)
        result.append(made)
        places.append(at)
    for made, at in zip(result, places, strict=True):
        _check_not_empty(made, at)
    return result


def _check_not_empty(made: Selection, at: str) -> None:
    """Refuse lists of nothing; who wants the default leaves the key out."""
    lists: dict[str, Any] = {"runs": made.runs, "rows": made.rows, "metrics": made.metrics}
    lists |= {f"where.{name}": values for name, values in made.where.items()}
    for key, values in lists.items():
        if isinstance(values, list | tuple) and not values:
            raise UserError(f"{at}: {key}", expected="one value or more", got=list(values))


class SelectedRun(NamedTuple):
    """A run with the names of its row; from a directory also its record, and the row it is of."""

    names: RowOfRun
    record: RunRecord | None = None
    row: Row | None = None


def select(
    selections: Sequence[Selection], folder: Path, notify: Callable[[str], None]
) -> list[TableView]:
    """The tables of some selections; `folder` is that of their file."""
    wanted = {name.removeprefix(MAX) for one in selections for name in one.metrics}

    @cache
    def runs_of(name: str) -> list[SelectedRun]:
        path = folder / name
        if path.suffix == ".csv":
            return [SelectedRun(row) for row in read_csv(path)]
        return checked_runs(path, wanted, notify)

    return [_table(selection, runs_of) for selection in selections]


def checked_runs(
    root: Path, metrics: Iterable[str], notify: Callable[[str], None]
) -> list[SelectedRun]:
    """The runs of a report, with those of the metrics that records do not hold."""
    further = sorted({*metrics} & {*FUNCTIONS, *CURVES})
    return [
        SelectedRun(
            Run(row.place_of(made) or root.resolve(), root.resolve(), made).row()
            | {"reference.preset": made.reference.preset}
            | {name: run_value(made, name) for name in {*further} & {*CURVES}},
            made,
            row,
        )
        for row in collect(root, notify=notify, metrics=further)
        for made in row.used
    ]


def _table(selection: Selection, runs_of: Callable[[str], list[SelectedRun]]) -> TableView:
    every = [run for name in selection.runs for run in runs_of(name)]
    where = {name: _values(given) for name, given in selection.where.items()}
    kept = itertools.compress(every, matching([run.names for run in every], where))
    used = [r for r in kept if not {*str(r.names.get("flags", "")).split()} & {*LEFT_OUT}]
    if not used:
        raise UserError(f"no run is left to show in the table {selection.title!r}")
    rows = [run.names for run in used]
    apart = zip(used, streams(rows), settings_apart(rows), strict=True)
    used = [
        run._replace(names={**run.names, "stream": stream, "settings": settings})
        for run, stream, settings in apart
    ]
    known = value_names(rows)
    for name in selection.metrics:
        if name.removeprefix(MAX) not in known:
            raise unknown("value of the runs", name.removeprefix(MAX), known)
    return _means(selection, used)


def _values(given: Any) -> list[Any]:
    """The values of a condition; those that a file has as decimal numbers are texts there."""
    values = given if isinstance(given, list) else [given]
    numbers = [plain_number(one) for one in values if isinstance(one, str)]
    return [*values, *(number for number in numbers if number is not None)]


# --- means: rows × columns ---

Key = tuple[str, ...]
Cell = dict[str, dict[int, float]]  # stream → seed → value


def _means(selection: Selection, runs: Sequence[SelectedRun]) -> TableView:
    """The mean of each cell over its seeds; over streams, of their means, if it has several."""
    learn = [run for run in runs if run.names.get("learns", True)]
    cells = _cells(selection, runs)
    columns = list(dict.fromkeys(column for _, column, _ in cells))
    heads = list(itertools.product(columns, selection.metrics))
    allowed, rest = _allowed(selection, learn)
    titles = [_head(column, name, selection, columns) for column, name in heads]
    made, rows = new_table([*selection.rows, *titles], names=len(selection.rows)), []
    for key in _best_first(selection, cells, {run.names["learner"] for run in learn}):
        texts, numbers = list(key), dict[str, Any](zip(selection.rows, key, strict=True))
        for (column, name), title in zip(heads, titles, strict=True):
            metric = name.removeprefix(MAX)
            stat = _stat(cells.get((key, column, metric), {}), name)
            ranks = allowed.get((key, column, name), "")
            texts.append(f"{stat_text(stat, metric)} {ranks}".rstrip())
            label = title if column else name
            numbers |= {label: stat.mean, f"{label}.half_95": stat.half}
        made.add_row(*map(line, texts))
        rows.append(numbers)
    known = [name for name in rows[0] if any(row[name] == row[name] for row in rows)]  # no NaN
    rows = [{name: row[name] for name in known} for row in rows]
    units = "" if len(selection.metrics) > 1 else heading(selection.metrics[0])
    of = list(dict.fromkeys(run.names["stream"] for run in runs))
    facts = [of[0] if len(of) == 1 else f"{len(of)} streams", units]
    parts = section(selection.title, [f for f in facts if f], made, ["", INTERVAL, *rest])
    return TableView(selection.title, rows, parts)


def _cells(selection: Selection, runs: Sequence[SelectedRun]) -> dict[tuple[Key, str, str], Cell]:
    """Values by row, column and metric; columns that name a row without a value are ""."""
    cells: dict[tuple[Key, str, str], Cell] = {}
    for metric in dict.fromkeys(name.removeprefix(MAX) for name in selection.metrics):
        for run in (run.names for run in runs if metric in run.names):
            row = tuple(str(run[name]) for name in selection.rows)
            column = "" if selection.columns == "metric" else run["stream"]
            seeds = cells.setdefault((row, column, metric), {}).setdefault(run["stream"], {})
            if run["seed"] in seeds:
                raise UserError(
                    f"{' '.join(row)} has two runs of {run['stream']} with seed {run['seed']}: "
                    "settings are mixed",
                    "name more rows, such as settings, or say where",
                )
            seeds[run["seed"]] = float(run[metric])
    return cells


def _best_first(
    selection: Selection, cells: Mapping[tuple[Key, str, str], Cell], learn: set[str]
) -> list[Key]:
    """The rows by the mean of the first metric; what does not learn comes last."""
    first = selection.metrics[0].removeprefix(MAX)
    sign = 1 if first in compare_learners.LOWER or is_cost(first) else -1

    def rank(key: Key) -> tuple[bool, bool, float]:
        mine = [cell for (k, _, metric), cell in cells.items() if (k, metric) == (key, first)]
        means = [np.mean(list(seeds.values())) for cell in mine for seeds in cell.values()]
        mean = float(np.mean(means)) if means else math.nan
        guesses = "learner" in selection.rows and not learn & {*key}
        return guesses, math.isnan(mean), sign * mean

    return sorted(dict.fromkeys(key for key, _, _ in cells), key=rank)


def _stat(cell: Cell, name: str) -> Stat:
    means = [float(np.mean(list(seeds.values()))) for seeds in cell.values()]
    values = means if len(means) > 1 else [v for seeds in cell.values() for v in seeds.values()]
    if name.startswith(MAX):
        values = [max(v for seeds in cell.values() for v in seeds.values())] if cell else []
    return Stat.of(values)


def _head(column: str, name: str, selection: Selection, columns: Sequence[str]) -> str:
    metric = name.removeprefix(MAX)
    title = MAX * name.startswith(MAX) + heading(metric)
    short = _short(columns)[column]
    return " ".join(filter(None, [short, title if len(selection.metrics) > 1 or not short else ""]))


def _short(names: Sequence[str]) -> dict[str, str]:
    """Names of streams without what all of them share; one alone stays whole."""
    parts = [name.split(" · ") for name in names]
    shared = {part for part in parts[0] if all(part in each for each in parts)}
    kept = [" · ".join(part for part in each if part not in shared) for each in parts]
    return {name: short or name for name, short in zip(names, kept, strict=True)}


# --- verdicts: the ranks that they leave open, in brackets ---


def _allowed(
    selection: Selection, learn: Sequence[SelectedRun]
) -> tuple[dict[tuple[Key, str, str], str], list[str]]:
    """The ranks left open to each row, by column and metric, and what they rest on.

    None unless they are asked for, and each column is of one stream.
    """
    by_stream = selection.columns == "stream"
    titles = list(dict.fromkeys(run.names["stream"] for run in learn))
    if selection.over is None or not (by_stream or len(titles) == 1):
        return {}, []
    allowed, sampled = {}, dict[str, None]()
    for name in selection.metrics:
        if is_cost(name) or name.startswith(MAX):
            continue
        scored = [run for run in learn if not math.isnan(run.names.get(name, math.nan))]
        for stream in titles:
            mine = [run for run in scored if run.names["stream"] == stream]
            keys, study = _study(selection, name, mine)
            for label, verdict in zip(study.learners, study.verdicts, strict=True):
                column = stream if by_stream else ""
                allowed[keys[label], column, name] = f"[{allowed_ranks(verdict)}]"
                sampled |= {heading(name): None} if SAMPLE in verdict.parts else {}
    over = f"and, for {', '.join(sampled)}, the test sample" if sampled else "alone"
    remark = "in brackets: the ranks that the verdicts leave open, a bound of 5 % a row, over seeds"
    return allowed, [f"{remark} {over}"]


def _study(
    selection: Selection, metric: str, runs: Sequence[SelectedRun]
) -> tuple[dict[str, Key], compare_learners.ComparisonStudy]:
    """The comparison of one stream by a metric, and the row behind each of its labels."""
    keys: dict[str, Key] = {}
    scores: dict[str, dict[compare_learners.Block, float]] = {}
    measured: dict[str, list[compare_learners.MeasuredRun]] = {}
    for names, record, row in runs:
        key = tuple(str(names[name]) for name in selection.rows)
        label = " ".join(key)
        keys[label] = key
        scores.setdefault(label, {})["", str(names["seed"])] = names[metric]
        if record and row:
            run = compare_learners.MeasuredRun(record, names[metric], row.place_of(record))
            measured.setdefault(label, []).append(run)
    group = next((run.row.group for run in runs if run.row), None)
    if group is None or any(run.row is None for run in runs):  # numbers alone
        return keys, compare_learners.ComparisonStudy("", metric, scores)
    over: Over = "seeds" if selection.over == "seeds" else "seeds and samples"
    return keys, compare_learners.make_study("", metric, measured, replace(group, over=over))
