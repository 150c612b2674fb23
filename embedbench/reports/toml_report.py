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
from typing import Any, get_args

from embedbench.config.json_records import ABSENT, JsonRecord, parse_toml
from embedbench.errors import UserError, unknown
from embedbench.scores.learner_verdicts import SAMPLE, Over
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.metric_jackknife import CURVES
from embedbench.scores.record_files import find
from embedbench.scores.run_record import FINAL
from embedbench.scores.unrecorded_metrics import FUNCTIONS
from embedbench.storage.regular_files import read_text
from embedbench.text.terminal_text import line, new_table

from .comparison_tables import TableView, allowed_ranks, section
from .headings_and_units import EQUAL, heading, is_cost, is_equal, metric_name, stat_text
from .load_results import Run
from .match_streams import ON_THEIR_WORD, KnownStream, match_stream, names_stream
from .measurement_words import describe_measurements
from .outside_results import read_results
from .published_table import PUBLISHED, PublishedTable, compare, read_published, view
from .result_rows import LEFT_OUT
from .results import Result, Results, name_results
from .row_names import RowNames, read_names
from .run_rows import condition_values, matching, settings_apart, streams, value_names
from .table_metric import first_score, meant
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
    names: dict[str, Any] = field(default_factory=dict)  # of rows, over those of the file


Reader = Callable[[str, str | None], list[Result]]  # the runs of a name by a base score
KEYS = [f.name for f in fields(Selection)]
NAMES = ("learner", "settings", "stream", "seed")  # of rows


def show_file(path: Path, notify: Callable[[str], None]) -> list[TableView]:
    """The tables of a file: those that its `[report]`s select, and that of its `[published]`."""
    selections, published = read_selections(path), read_published(path)
    wanted = metrics_of(selections) | ({published.metric} if published else set())
    runs_of = _reader(path.parent, wanted, notify)  # which reads each directory once
    tables = _selected(selections, runs_of, notify, read_file_names(path))
    if published is not None:
        tables.append(beside_published(published, runs_of, notify))
    return tables


def published_beside(path: Path, runs: Path, notify: Callable[[str], None]) -> TableView | None:
    """The published table of a file with a directory of runs beside it; None without one.

    Its references are runs, too: `offline` is the joint training of many papers.
    """
    table = read_published(path)
    if table is None:
        return None
    places = [p.resolve() for p in (runs, runs / "references") if p.is_dir() and find(p)]
    named = replace(table, results=tuple(map(str, places)))
    return beside_published(named, _reader(path.parent, {table.metric}, notify), notify)


def beside_published(
    table: PublishedTable, runs_of: Reader, notify: Callable[[str], None]
) -> TableView:
    """A published table with the runs that it names beside it; without any, alone."""
    score = first_score([meant(table.metric)])
    runs = [run for name in table.results for run in runs_of(name, score)]
    for run in filter(_left_out, runs):
        notify(f"left out: {run.label} seed {run.seed}: {run.values['flags']}")
    return view(table, compare(table, list(itertools.filterfalse(_left_out, runs))))


def read_file_names(path: Path) -> dict[str, str]:
    """The `[names]` of a file, which a study file gives its rows."""
    return read_names(
        parse_toml(read_text(path, most=MOST), str(path)).get("names", {}), f"{path}: names"
    )


def read_selections(path: Path) -> list[Selection]:
    """The tables that a file selects by `[report]`; none of one with `[published]` alone."""
    file = parse_toml(read_text(path, most=MOST), str(path))
    given = file.get("report")
    several = given if isinstance(given, list) else [given] if given else []
    if not several and PUBLISHED not in file:
        raise UserError(f"{path} must have a table [report] that says what to show", "or name RUNS")
    allowed = {"over": get_args(Over), "columns": ("metric", "stream"), "rows": NAMES}
    result, places = list[Selection](), list[str]()
    for i, table in enumerate(several):
        at = f"{path}: report" + f" {i + 1}" * (len(several) > 1)
        for key in table if isinstance(table, dict) else ():
            if key not in KEYS:
                raise unknown("key", key, KEYS, at=at)
        made = Selection.from_json(table, at)
        made = replace(made, metrics=tuple(map(_meant, made.metrics)))
        made = replace(made, names=read_names(made.names, f"{at}: names"))
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


def _meant(name: str) -> str:
    """The metric that a name means, which may have `MAX` before it."""
    return MAX * name.startswith(MAX) + meant(name.removeprefix(MAX))


def _check_not_empty(made: Selection, at: str) -> None:
    """Refuse lists of nothing; who wants the default leaves the key out."""
    lists: dict[str, Any] = {"runs": made.runs, "rows": made.rows, "metrics": made.metrics}
    lists |= {f"where.{name}": values for name, values in made.where.items()}
    for key, values in lists.items():
        if isinstance(values, list | tuple) and not values:
            raise UserError(f"{at}: {key}", expected="one value or more", got=list(values))


def select(
    selections: Sequence[Selection], folder: Path, notify: Callable[[str], None]
) -> list[TableView]:
    """The tables of some selections; `folder` is that of their file."""
    return _selected(selections, _reader(folder, metrics_of(selections), notify), notify, {})


def metrics_of(selections: Sequence[Selection]) -> set[str]:
    """The metrics that some selections show."""
    return {name.removeprefix(MAX) for one in selections for name in one.metrics}


def _selected(
    selections: Sequence[Selection],
    runs_of: Reader,
    notify: Callable[[str], None],
    of_file: Mapping[str, str],
) -> list[TableView]:
    """The tables of some selections; `of_file` are the names of rows in all of them."""
    tables = []
    for selection in selections:
        score = first_score(name.removeprefix(MAX) for name in selection.metrics)
        runs = [run for name in selection.runs for run in runs_of(name, score)]
        names = RowNames({**of_file, **selection.names})
        tables.append(_table(selection, runs, names, notify))
        for key in names.unused:
            if key in selection.names:  # those of the file are for all its tables
                raise unknown("row to name", key, names.seen)
    return tables


def _reader(folder: Path, metrics: Iterable[str], notify: Callable[[str], None]) -> Reader:
    """What reads the runs of a name by a base score, each once."""

    @cache
    def runs_of(name: str, score: str | None) -> list[Result]:
        path = folder / name
        if path.suffix == ".csv":
            return read_results(path, notify)
        return checked_runs(path, metrics, notify, score)

    return runs_of


def _left_out(run: Result) -> bool:
    """Whether a flag keeps a run out of means."""
    return bool({*str(run.values.get("flags", "")).split()} & {*LEFT_OUT})


def checked_runs(
    root: Path,
    metrics: Iterable[str],
    notify: Callable[[str], None],
    score: str | None = None,
) -> list[Result]:
    """The runs of a report by a base score, with those of the metrics that records do not hold."""
    further = sorted({*metrics} & {*FUNCTIONS, *CURVES})
    result = []
    for row in collect(root, notify=notify, metrics=[*([score] if score else []), *further]):
        for run in row.results:
            assert run.record is not None
            values = Run(run.place or root.resolve(), root.resolve(), run.record).row()
            values["reference.preset"] = run.record.reference.preset
            values |= {name: run.value(name) for name in {*further} & {*CURVES}}
            result.append(replace(run, learner=run.record.learner, values=values))
    return result


def _table(
    selection: Selection,
    every: Sequence[Result],
    names: RowNames,
    notify: Callable[[str], None],
) -> TableView:
    where = {name: condition_values(given) for name, given in selection.where.items()}
    keep = matching([run.values for run in every], where)
    kept = itertools.compress(every, keep)
    if any(run.record is not None for run in every):
        for run in every:
            silent = [name for name in where if run.record is None and name not in run.values]
            if silent:
                notify(f"left out: {run.label}: it has no {silent[0]}, which where asks for")
    used = [run for run in kept if not _left_out(run)]
    if not used:
        raise UserError(f"no run is left to show in the table {selection.title!r}")
    rows = [run.values for run in used]
    named = [
        replace(run, setting=setting)
        for run, setting in zip(_with_streams(used), settings_apart(rows), strict=True)
    ]
    known = value_names(rows)
    for name in selection.metrics:
        if name.removeprefix(MAX) not in known:
            raise unknown("value of the runs", name.removeprefix(MAX), known)
    return _means(selection, Results(tuple(name_results(named, names))))


def _with_streams(runs: Sequence[Result]) -> list[Result]:
    """The runs with the names of their streams: of ours where a line of a file is of one of these.

    Then it also has the class order that ours has with its seed, so that they are paired.
    """
    ours = [run for run in runs if run.record is not None]
    names = dict(zip(map(id, ours), streams([run.values for run in ours]), strict=True))
    known = [
        KnownStream(names[id(first)], first.values)
        for first in {names[id(run)]: run for run in reversed(ours)}.values()
    ]
    for run in runs:
        found = None if run.record is not None else match_stream(run, known)
        if found is not None:
            names[id(run)] = found.title
    others = [run for run in runs if id(run) not in names]
    names |= dict(zip(map(id, others), streams([run.values for run in others]), strict=True))
    orders: dict[tuple[str, int | None], set[str]] = {}
    for run in ours:
        orders.setdefault((names[id(run)], run.seed), set()).add(run.order)
    made = []
    for run in runs:
        stream = names[id(run)]
        order = orders.get((stream, run.seed), {run.order})
        made.append(replace(run, stream=stream, order=run.order or min(order)))
    return made


def _check_streams(cells: "Cells", runs: Results) -> list[str]:
    """Refuse a result of a file beside means over other streams; a remark where ours differ so."""
    of: dict[Key, set[str]] = {}
    for (key, _), mine in cells.items():
        of.setdefault(key, set()).update(run.stream for run in mine)
    most = max(of, key=lambda key: len(of[key]))
    fewer = [key for key in of if of[key] != of[most]]
    if not fewer:
        return []
    name, other = (" ".join(key).strip() for key in (fewer[0], most))
    counts = f"{name} is of {len(of[fewer[0]])} and {other} of {len(of[most])} streams"
    if len({run.record is None for run in runs}) > 1:
        raise UserError(
            f"{counts}, and a result from elsewhere stands beside no mean over other streams",
            'say where, or columns = "stream"; docs/runs.md says how a file names its stream',
        )
    return [f"means over other streams are not comparable: {counts}"]


# --- means: rows × columns ---

Key = tuple[str, ...]  # of a row: its learner, settings, stream or seed
Cells = dict[tuple[Key, str], Results]  # row, column → runs; columns without a name are ""
FIELDS = {"learner": "learner", "settings": "setting", "stream": "stream", "seed": "seed"}


def _means(selection: Selection, runs: Results) -> TableView:
    """The mean of each cell over its seeds; over streams, of their means, if it has several."""
    learn = Results(tuple(run for run in runs if run.values.get("learns", True)))
    cells = _cells(selection, runs)
    columns = list(dict.fromkeys(column for _, column in cells))
    heads = list(itertools.product(columns, selection.metrics))
    allowed, rest = _allowed(selection, learn)
    if selection.columns == "metric":
        rest += _check_streams(cells, runs)
    silent = [run.label for run in runs if run.record is None and not names_stream(run)]
    if silent and any(run.record is not None for run in runs):
        rest += [ON_THEIR_WORD.format(name) for name in dict.fromkeys(silent)]
    if len(runs.group("stream")) == 1:
        learning = {
            at: each for at, each in cells.items() if any(run in learn.rows for run in each)
        }
        labels = {" ".join(key).strip(): each for (key, _), each in learning.items()}
        rest += describe_measurements(labels, selection.metrics[0].removeprefix(MAX))
    scores = _scores(runs)
    score = scores[0] if len(scores) == 1 else None
    if len(scores) > 1:
        named = ", ".join(metric_name(FINAL, one) for one in scores)
        rest.append(f"final scores are of several kinds, each stream by its own: {named}")
    titles = [_head(column, name, selection, columns, score) for column, name in heads]
    made, rows = new_table([*selection.rows, *titles], names=len(selection.rows)), []
    equal = False
    for key in _best_first(selection, cells, {run.learner for run in learn}):
        texts, numbers = list(key), dict[str, Any](zip(selection.rows, key, strict=True))
        for (column, name), title in zip(heads, titles, strict=True):
            stat = _stat(cells.get((key, column)), name)
            equal |= is_equal(stat) and not is_cost(name)
            ranks = allowed.get((key, column, name), "")
            texts.append(f"{stat_text(stat, name.removeprefix(MAX))} {ranks}".rstrip())
            label = title if column else name
            numbers |= {label: stat.mean, f"{label}.half_95": stat.half}
        made.add_row(*map(line, texts))
        rows.append(numbers)
    rest += [EQUAL] if equal else []
    known = [name for name in rows[0] if any(row[name] == row[name] for row in rows)]  # no NaN
    rows = [{name: row[name] for name in known} for row in rows]
    units = "" if len(selection.metrics) > 1 else heading(selection.metrics[0], score)
    of = list(dict.fromkeys(run.stream for run in runs))
    facts = [of[0] if len(of) == 1 else f"{len(of)} streams", units]
    parts = section(selection.title, [f for f in facts if f], made, ["", INTERVAL, *rest])
    return TableView(selection.title, rows, parts)


def _scores(runs: Results) -> list[str]:
    """The base scores that the numbers are of; a line of a CSV file need not say its own."""
    return list(dict.fromkeys(run.values["score"] for run in runs if "score" in run.values))


def _key(selection: Selection, run: Result) -> Key:
    return tuple(str(getattr(run, FIELDS[name])) for name in selection.rows)


def _cells(selection: Selection, runs: Results) -> Cells:
    """The runs of each row and column; refuses two of one stream with the same seeds."""
    cells: dict[tuple[Key, str], list[Result]] = {}
    taken = set()
    for run in runs:
        key = _key(selection, run)
        column = "" if selection.columns == "metric" else run.stream
        once = key, run.stream, run.seed, run.seeds
        if once in taken:
            raise UserError(
                f"{' '.join(key)} has two runs of {run.stream} with seed {run.seed}: "
                "settings are mixed",
                "name more rows, such as settings, or say where",
            )
        taken.add(once)
        cells.setdefault((key, column), []).append(run)
    return {at: Results(tuple(each)) for at, each in cells.items()}


def _best_first(selection: Selection, cells: Cells, learn: set[str]) -> list[Key]:
    """The rows by the mean of the first metric; what does not learn comes last."""
    first = selection.metrics[0].removeprefix(MAX)
    lower = any(runs.is_lower(first) for runs in cells.values())
    sign = 1 if lower or is_cost(first) else -1

    def rank(key: Key) -> tuple[bool, bool, float]:
        mine = [run for (k, _), runs in cells.items() if k == key for run in runs]
        mean = _stat(Results(tuple(mine)), first).mean
        guesses = "learner" in selection.rows and not learn & {*key}
        return guesses, math.isnan(mean), sign * mean

    return sorted(dict.fromkeys(key for key, _ in cells), key=rank)


def _stat(runs: Results | None, name: str) -> Stat:
    """A metric of a cell, from the runs that have it."""
    metric = name.removeprefix(MAX)
    having = Results(tuple(run for run in runs or () if metric in run.values))
    if name.startswith(MAX) and having.rows:
        largest = max(run.value(metric) for run in having)
        return Results((replace(having.rows[0], values={metric: largest}),)).stat(metric)
    if len({run.stream for run in having}) > 1:
        having = having.mean(metric, over=("learners", "settings", "orders", "seeds"))
    return having.stat(metric)


def _head(
    column: str, name: str, selection: Selection, columns: Sequence[str], score: str | None
) -> str:
    metric = name.removeprefix(MAX)
    title = MAX * name.startswith(MAX) + heading(metric, score)
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
    selection: Selection, learn: Results
) -> tuple[dict[tuple[Key, str, str], str], list[str]]:
    """The ranks left open to each row, by column and metric, and what they rest on.

    None unless they are asked for, and each column is of one stream.
    """
    by_stream = selection.columns == "stream"
    each = learn.group("stream")
    if selection.over is None or not (by_stream or len(each) == 1):
        return {}, []
    over: Over = "seeds" if selection.over == "seeds" else "seeds and samples"
    scores = _scores(learn)
    score = scores[0] if len(scores) == 1 else None
    allowed, sampled = {}, dict[str, None]()
    judged_metrics = [m for m in selection.metrics if not (is_cost(m) or m.startswith(MAX))]
    for name in judged_metrics:
        for (stream,), runs in each.items():
            keys = {" ".join(key): key for run in runs if (key := _key(selection, run))}
            scored = [run for run in runs if not math.isnan(run.value(name))]
            mine = Results(
                tuple(
                    replace(run, learner=" ".join(_key(selection, run)), setting="")
                    for run in scored
                )
            )
            judged = mine.verdicts(name, over=over)
            for label, verdict in zip(mine.learners, judged.rows, strict=True):
                if verdict is not None:
                    column = stream if by_stream else ""
                    allowed[keys[label], column, name] = f"[{allowed_ranks(verdict)}]"
                    sampled |= {name: None} if SAMPLE in verdict.parts else {}
    remark = "in brackets: the ranks that the verdicts leave open, a bound of 5 % a row, over seeds"
    if not sampled:
        return allowed, [f"{remark} alone"]
    if len(sampled) == len(judged_metrics):
        return allowed, [f"{remark} and the test sample"]
    heads = " and ".join(heading(name, score) for name in sampled)
    return allowed, [f"{remark} and, for {heads}, the test sample"]
