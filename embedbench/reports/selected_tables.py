"""`report FILE.toml`: tables that a `[report]` of a TOML file selects from runs, and how they look.

The file may be a study file, or have several `[[report]]`. docs/studies.md has the keys. Runs are
directories, checked as in every report, or CSV files of rows, relative to the file.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from embedbench.config.json_types import ABSENT, JsonRecord, parse_toml
from embedbench.errors import UserError, unknown
from embedbench.scores.mean_intervals import Stat, amount, megabytes
from embedbench.scores.run_record import FINAL
from embedbench.storage.atomic_write import read_text
from embedbench.text.terminal import line, new_table

from .compare_learners import LOWER, ComparisonStudy
from .comparison_results import Study, by_order, compare, compare_all
from .comparison_text import allowed_ranks, score_text, section, study_parts, study_rows
from .load_results import load_runs
from .loaded_run import Run
from .long_table import LongTable, columns_of, matching, read_csv
from .result_rows import LEFT_OUT
from .result_tables import variations
from .terminal_tables import heading

SCHEMA = "embedbench-tables/1.0"
MOST = 2**20  # bytes of a file
VIEWS: dict[str, Callable[[ComparisonStudy], Study]] = {
    "ranks": compare,
    "pairs": compare_all,
    "spread": by_order,
}
MAX = "max "  # before a metric: the largest over runs, in place of the mean
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
INTERVAL = "± half-width of the 95 % t-interval over seeds; over streams where it is of several"
COSTS = {
    "bytes.total": "MB",
    "bytes.samples": "samples MB",
    "seconds.learn": "learn s",
    "seconds.evaluate": "evaluate s",
}


@dataclass(frozen=True, kw_only=True)
class Selection(JsonRecord):
    """One `[report]`: which runs, and what of them is shown how.

    Parameters
    ----------
    runs : tuple of str
        Directories of runs and CSV files, relative to the file.
    title : str
        Its heading.
    where : dict
        Conditions on the rows of runs, as in `Runs.where`.
    rows : tuple of str
        Columns of the long table whose values name a row.
    columns : str
        The column whose values are columns here, such as `stream`; `metric`: one a metric.
    metrics : tuple of str
        What is shown; the first sorts the rows.
    compare : str or None
        In place of means one of `VIEWS`: ranks and who is behind, all pairs, or the spread.
    over : str or None
        `streams` or `seeds`, which the intervals are computed over: `seeds`, in a table or ranking
        of each stream with the ranks left open, `streams` in one of all.
    """

    runs: tuple[str, ...]
    title: str = ""
    where: dict[str, Any] = field(default_factory=dict)
    rows: tuple[str, ...] = ("learner", "settings")
    columns: str = "metric"
    metrics: tuple[str, ...] = (FINAL,)
    compare: str | None = field(default=None, metadata=ABSENT)
    over: str | None = field(default=None, metadata=ABSENT)


def read_selections(path: Path) -> list[Selection]:
    """What a file selects.

    Raises
    ------
    UserError
        It has no `[report]`, or a key or value of it is wrong.
    """
    given = parse_toml(read_text(path, most=MOST), str(path)).get("report")
    several = given if isinstance(given, list) else [given] if given else []
    if not several:
        raise UserError(f"{path} must have a table [report] that says what to show; or name RUNS")
    known = [f.name for f in fields(Selection)]
    allowed: dict[str, list[str | None]] = {
        "compare": [None, *VIEWS],
        "over": [None, "seeds", "streams"],
        "columns": [f.name for f in fields(LongTable)],
    }
    result = []
    for i, table in enumerate(several):
        at = f"{path}: report" + f" {i + 1}" * (len(several) > 1)
        for key in table if isinstance(table, dict) else ():
            if key not in known:
                raise UserError(f"{at}: {unknown('key', key, known)}")
        made = Selection.from_json(table, at)
        for key, values in allowed.items():
            if getattr(made, key) not in values:
                names = [value for value in values if value is not None]
                raise UserError(f"{at}: {unknown(key, getattr(made, key), names)}")
        for name in made.rows:
            if name not in allowed["columns"]:
                raise UserError(f"{at}: {unknown('rows', name, map(str, allowed['columns']))}")
        result.append(made)
    return result


@dataclass(frozen=True)
class SelectedTable:
    """A table to show: the title, the numbers, and the parts of its text."""

    title: str
    rows: list[dict[str, Any]]
    parts: list[Text | Table]


def select(
    selections: Sequence[Selection], folder: Path, notify: Callable[[str], None]
) -> list[SelectedTable]:
    """The tables of some selections; `folder` is that of their file.

    Raises
    ------
    UserError
        Runs are missing, a name is unknown, or settings are mixed in one cell.
    """

    @cache
    def rows_of(name: str) -> list[dict[str, Any]]:
        path = folder / name
        return read_csv(path) if path.suffix == ".csv" else _checked_rows(path, notify)

    return [made for selection in selections for made in _tables(selection, rows_of)]


def _checked_rows(root: Path, notify: Callable[[str], None]) -> list[dict[str, Any]]:
    """Rows of checked runs, without variations of others; Ω is a share by its preset."""
    together: dict[Path, list[Run]] = {}
    for run in load_runs(root, verify=True, notify=notify):
        together.setdefault(run.place.parent, []).append(run)
    alone = {id(r) for runs in together.values() for r in variations([i.record for i in runs])[0]}
    return [
        run.row() | {"reference.preset": run.record.reference.preset}
        for runs in together.values()
        for run in runs
        if id(run.record) in alone
    ]


def _tables(
    selection: Selection, rows_of: Callable[[str], list[dict[str, Any]]]
) -> Iterator[SelectedTable]:
    rows = [row for name in selection.runs for row in rows_of(name)]
    where = {name: _values(given) for name, given in selection.where.items()}
    used = [
        row
        for row, keep in zip(rows, matching(rows, where), strict=True)
        if keep and not {*str(row.get("flags", "")).split()} & {*LEFT_OUT}
    ]
    if not used:
        raise UserError(f"no run is left to show in the table {selection.title!r}")
    metrics = dict.fromkeys(name.removeprefix(MAX) for name in selection.metrics)
    table = LongTable.of(used, list(metrics))
    learners = table.where(learner=[row["learner"] for row in used if row.get("learns", True)])
    if selection.compare is None:
        yield _means(selection, table, learners)
        return
    for _, study in _studies(selection, learners):
        result = VIEWS[selection.compare](study)
        yield SelectedTable(result.title, study_rows(result), study_parts(result))


def _values(given: Any) -> list[Any]:
    """The values of a condition; those that a file has as decimal numbers are texts there."""
    values = given if isinstance(given, list) else [given]
    numbers = [one for one in values if isinstance(one, str) and _NUMBER.fullmatch(one)]
    return [*values, *map(float, numbers)]


# --- means: rows × columns ---

Key = tuple[str, ...]
Cell = dict[str, dict[int, float]]  # stream → seed → value


def _means(selection: Selection, table: LongTable, learners: LongTable) -> SelectedTable:
    """The mean of each cell over its seeds; over streams, of their means, if it has several."""
    cells = _cells(selection, table)
    columns = list(dict.fromkeys(column for _, column, _ in cells))
    heads = list(itertools.product(columns, selection.metrics))
    allowed = _allowed(selection, learners)
    titles = [_head(column, name, selection, columns) for column, name in heads]
    made, rows = new_table([*selection.rows, *titles], names=len(selection.rows)), []
    for key in _best_first(selection, cells, {*learners.learner}):
        texts, numbers = list(key), dict[str, Any](zip(selection.rows, key, strict=True))
        for (column, name), title in zip(heads, titles, strict=True):
            stat = _stat(cells.get((key, column, name.removeprefix(MAX)), {}), name)
            texts.append(f"{_text(stat, name)} {allowed.get((key, column), '')}".rstrip())
            label = title if column else name
            numbers |= {label: stat.mean, f"{label}.half_95": stat.half}
        made.add_row(*map(line, texts))
        rows.append(numbers)
    known = [name for name in rows[0] if any(row[name] == row[name] for row in rows)]  # no NaN
    rows = [{name: row[name] for name in known} for row in rows]
    remarks = ["", INTERVAL]
    if allowed:
        remarks.append("in brackets: the ranks that the verdicts leave open, a bound of 5 % a row")
    units = "" if len(selection.metrics) > 1 else heading(selection.metrics[0])
    n = len(set(table.stream))
    facts = [table.stream[0] if n == 1 else f"{n} streams", units]
    return SelectedTable(
        selection.title, rows, section(selection.title, [f for f in facts if f], made, remarks)
    )


def _cells(selection: Selection, table: LongTable) -> dict[tuple[Key, str, str], Cell]:
    """Values by row, column and metric; columns that name a row without a value are "".

    Raises
    ------
    UserError
        Two runs of one cell have one stream and seed.
    """
    names = columns_of(table)
    column = [""] * len(table) if selection.columns == "metric" else names[selection.columns]
    keys = zip(*(names[name] for name in selection.rows), strict=True)
    each = zip(keys, column, table.metric, table.stream, table.seed, table.value, strict=True)
    cells: dict[tuple[Key, str, str], Cell] = {}
    for key, place, metric, stream, seed, value in each:
        row = tuple(map(str, key))
        seeds = cells.setdefault((row, str(place), metric), {}).setdefault(stream, {})
        if seed in seeds:
            raise UserError(
                f"{' '.join(row)} has two runs of {stream} with seed {seed}: settings or moments "
                "are mixed; name more rows, such as settings, or say where"
            )
        seeds[seed] = value
    return cells


def _best_first(
    selection: Selection, cells: Mapping[tuple[Key, str, str], Cell], learn: set[str]
) -> list[Key]:
    """The rows by the mean of the first metric; what does not learn comes last."""
    first = selection.metrics[0].removeprefix(MAX)
    sign = 1 if first in LOWER or first in COSTS else -1

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


def _text(stat: Stat, name: str) -> str:
    """A number with its interval; costs have none."""
    metric = name.removeprefix(MAX)
    if metric.startswith("bytes."):
        return "–" if math.isnan(stat.mean) else megabytes(stat.mean)
    if metric.startswith(("seconds.", "joules.")):
        return amount(stat.mean)
    mean, half = score_text(stat.mean, metric), score_text(stat.half, metric)
    return mean if math.isnan(stat.half) else f"{mean} ±{half}"


def _head(column: str, name: str, selection: Selection, columns: Sequence[str]) -> str:
    """A heading: the metric, or the column without what all columns share, or both."""
    metric = name.removeprefix(MAX)
    title = MAX * name.startswith(MAX) + (COSTS.get(metric) or heading(metric))
    short = _short(columns)[column]
    return " ".join(filter(None, [short, title if len(selection.metrics) > 1 or not short else ""]))


def _short(names: Sequence[str]) -> dict[str, str]:
    """Names of streams without what all of them share; one alone stays whole."""
    parts = [name.split(" · ") for name in names]
    shared = {part for part in parts[0] if all(part in each for each in parts)}
    kept = [" · ".join(part for part in each if part not in shared) for each in parts]
    return {name: short or name for name, short in zip(names, kept, strict=True)}


# --- comparisons: learner × block ---


def _studies(selection: Selection, table: LongTable) -> Iterator[tuple[str, ComparisonStudy]]:
    """A comparison over all streams, or one over the seeds of each stream, by the first metric."""
    metric = selection.metrics[0]
    table = table.where(metric=metric)
    together = selection.over == "streams"
    every = list(dict.fromkeys(table.stream))
    short = _short(every)
    for stream in [None] if together else every:
        part = table if stream is None else table.where(stream=stream)
        scores: dict[Key, dict[tuple[str, str], float]] = {}
        for (key, _, _), cell in _cells(replace(selection, columns="metric"), part).items():
            scores[key] = {
                (short[place] if together else "", str(seed)): value
                for place, seeds in cell.items()
                for seed, value in seeds.items()
                if not math.isnan(value)
            }
        named = {" ".join(filter(None, key)): values for key, values in scores.items() if values}
        title = " · ".join(filter(None, [selection.title, stream]))
        study = ComparisonStudy(title, metric, named, over_streams=together)
        yield stream or "", study.best_first()


def _allowed(selection: Selection, table: LongTable) -> dict[tuple[Key, str], str]:
    """The ranks left open to each row in the columns of streams, where they are asked for."""
    if selection.over != "seeds" or selection.columns != "stream":
        return {}
    keys = {" ".join(filter(None, key)): key for key, _, _ in _cells(selection, table)}
    return {
        (keys[label], stream): f"[{allowed_ranks(verdict)}]"
        for stream, study in _studies(selection, table)
        for label, verdict in zip(study.learners, study.verdicts, strict=True)
    }
