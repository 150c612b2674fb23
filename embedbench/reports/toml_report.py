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

from embedbench.config.json_records import ABSENT, JsonRecord, parse_toml
from embedbench.errors import UserError, list_first, unknown
from embedbench.scores.learner_verdicts import SAMPLE, Over, RowVerdict
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
from .outside_results import read_results, with_final
from .published_table import PUBLISHED, PublishedTable, compare, read_published, view
from .result_rows import LEFT_OUT
from .results import Result, Results, name_results
from .results_csv import MOST_NAMED
from .row_names import RowNames, read_names
from .run_rows import condition_values, matching, settings_apart, streams, value_names
from .table_metric import USUAL, first_score, meant
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
COLUMNS = ("metric", "stream")  # what a table has a column for each of


def show_file(path: Path, notify: Callable[[str], None]) -> list[TableView]:
    """The tables of a file: those that its `[report]`s select, and that of its `[published]`."""
    selections = read_selections(path)
    published = read_published(path)
    wanted = metrics_of(selections)
    if published is not None:
        wanted.add(published.metric)
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
    used = []
    for name in table.results:
        for run in runs_of(name, score):
            if _left_out(run):
                notify(f"left out: {run.label} seed {run.seed}: {run.values['flags']}")
            else:
                used.append(with_final(run, meant(table.metric), score or USUAL))
    return view(table, compare(table, used))


def read_file_names(path: Path) -> dict[str, str]:
    """The `[names]` of a file, which a study file gives its rows."""
    file = parse_toml(read_text(path, most=MOST), str(path))
    return read_names(file.get("names", {}), f"{path}: names")


def read_selections(path: Path) -> list[Selection]:
    """The tables that a file selects by `[report]`; none of one with `[published]` alone."""
    file = parse_toml(read_text(path, most=MOST), str(path))
    several = _listed(file.get("report"))
    if not several and PUBLISHED not in file:
        raise UserError(f"{path} must have a table [report] that says what to show", "or name RUNS")
    selections = {}  # by their places
    for number, table in enumerate(several, 1):
        at = f"{path}: report {number}" if len(several) > 1 else f"{path}: report"
        selections[at] = _read_selection(table, at)
    for at, selection in selections.items():
        _check_not_empty(selection, at)
    return list(selections.values())


def _listed(given: Any) -> list[Any]:
    """The `[[report]]`s of a file, or its one `[report]`; an empty one says nothing."""
    if isinstance(given, list):
        return given
    return [given] if given else []


def _read_selection(table: Any, at: str) -> Selection:
    """One `[report]`, checked but for empty lists."""
    if isinstance(table, dict):
        for key in table:
            if key not in KEYS:
                raise unknown("key", key, KEYS, at=at)
    read = Selection.from_json(table, at)
    selection = replace(
        read,
        metrics=tuple(map(_meant, read.metrics)),
        names=read_names(read.names, f"{at}: names"),
    )
    if selection.over is not None:
        _check_word("over", selection.over, get_args(Over), at)
    _check_word("columns", selection.columns, COLUMNS, at)
    for name in selection.rows:
        _check_word("rows", name, NAMES, at)
    return selection


def _check_word(key: str, word: str, known: Sequence[str], at: str) -> None:
    if word not in known:
        raise unknown(key, word, known, at=at)


def _meant(name: str) -> str:
    """The metric that a name means, which may have `MAX` before it."""
    if name.startswith(MAX):
        return MAX + meant(name.removeprefix(MAX))
    return meant(name)


def _check_not_empty(made: Selection, at: str) -> None:
    """Refuse lists of nothing; who wants the default leaves the key out."""
    lists: dict[str, Any] = {"runs": made.runs, "rows": made.rows, "metrics": made.metrics}
    for name, values in made.where.items():
        lists[f"where.{name}"] = values
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
        runs: list[Result] = []
        for name in selection.runs:
            runs += runs_of(name, score)
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
    wanted = further if score is None else [score, *further]
    result = []
    for row in collect(root, notify=notify, metrics=wanted):
        for run in row.results:
            assert run.record is not None
            values = Run(run.place or root.resolve(), root.resolve(), run.record).row()
            values["reference.preset"] = run.record.reference.preset
            for name in further:
                if name in CURVES:
                    values[name] = run.value(name)
            result.append(replace(run, learner=run.record.learner, values=values))
    return result


def _table(
    selection: Selection,
    every: Sequence[Result],
    names: RowNames,
    notify: Callable[[str], None],
) -> TableView:
    where = {name: condition_values(given) for name, given in selection.where.items()}
    if any(run.record is not None for run in every):
        for run in every:
            silent = [name for name in where if name not in run.values]
            if run.record is None and silent:
                notify(f"left out: {run.label}: it has no {silent[0]}, which where asks for")
    keep = matching([run.values for run in every], where)
    used = [run for run in itertools.compress(every, keep) if not _left_out(run)]
    if not used:
        raise UserError(f"no run is left to show in the table {selection.title!r}")
    used = _with_finals(_with_streams(used), selection, notify)
    rows = [run.values for run in used]
    named = []
    for run, setting in zip(used, settings_apart(rows), strict=True):
        named.append(replace(run, setting=setting))
    known = value_names(rows)
    for name in selection.metrics:
        metric = name.removeprefix(MAX)
        if metric not in known:
            raise unknown("value of the runs", metric, known)
    return _means(selection, Results(tuple(name_results(named, names))))


def _with_finals(
    runs: Sequence[Result], selection: Selection, notify: Callable[[str], None]
) -> list[Result]:
    """The runs; in those of files the final value of the score shown has both its names.

    Says which of a table's metrics a result of a file does not have.
    """
    shown = {run.stream: str(run.values["score"]) for run in runs if run.record is not None}
    made = []
    said = cache(notify)  # each sentence once
    for run in runs:
        score = shown.get(run.stream, USUAL)
        for name in selection.metrics if run.record is None else ():
            metric = name.removeprefix(MAX)
            run = with_final(run, metric, score)
            if shown and metric not in run.values:
                of = f" ({score})" if metric == FINAL else ""
                have = list_first(value_names([run.values]), MOST_NAMED) or "no numbers"
                said(f"{run.label} has no {metric}{of}; it has {have}")
        made.append(run)
    return made


def _with_streams(runs: Sequence[Result]) -> list[Result]:
    """The runs with the names of their streams: of ours where a line of a file is of one of these.

    Then it also has the class order that ours has with its seed, so that they are paired.
    """
    ours = [run for run in runs if run.record is not None]
    names = _stream_names(ours)
    known: dict[str, KnownStream] = {}
    for run in ours:
        title = names[id(run)]
        known.setdefault(title, KnownStream(title, run.values))
    others = []
    for run in runs:
        if run.record is not None:
            continue
        same = match_stream(run, list(known.values()))
        if same is None:
            others.append(run)
        else:
            names[id(run)] = same.title
    names |= _stream_names(others)
    orders: dict[tuple[str, int | None], set[str]] = {}
    for run in ours:
        orders.setdefault((names[id(run)], run.seed), set()).add(run.order)
    made = []
    for run in runs:
        stream = names[id(run)]
        order = orders.get((stream, run.seed), {run.order})
        made.append(replace(run, stream=stream, order=run.order or min(order)))
    return made


def _stream_names(runs: Sequence[Result]) -> dict[int, str]:
    """The name of the stream of each run, by its id."""
    return dict(zip(map(id, runs), streams([run.values for run in runs]), strict=True))


def _check_streams(cells: "Cells", runs: Results) -> list[str]:
    """Refuse a result of a file beside means over other streams; a remark where ours differ so."""
    of: dict[Key, set[str]] = {}
    for (key, _), mine in cells.items():
        of.setdefault(key, set()).update(run.stream for run in mine)
    most = max(of, key=lambda key: len(of[key]))
    others = [key for key in of if of[key] != of[most]]
    if not others:
        return []
    fewer = others[0]
    counts = f"{_row_text(fewer)} is of {len(of[fewer])} and {_row_text(most)} of {len(of[most])}"
    counts += " streams"
    if len({run.record is None for run in runs}) > 1:
        raise UserError(
            f"{counts}, and a result from elsewhere stands beside no mean over other streams",
            'say where, or columns = "stream"; docs/runs.md says how a file names its stream',
        )
    return [f"means over other streams are not comparable: {counts}"]


# --- means: rows × columns ---

Key = tuple[str, ...]  # of a row: its learner, settings, stream or seed


def _row_text(key: Key) -> str:
    return " ".join(key).strip()


Cells = dict[tuple[Key, str], Results]  # row, column → runs; columns without a name are ""
FIELDS = {"learner": "learner", "settings": "setting", "stream": "stream", "seed": "seed"}


def _means(selection: Selection, runs: Results) -> TableView:
    """The mean of each cell over its seeds; over streams, of their means, if it has several."""
    learn = Results(tuple(run for run in runs if run.values.get("learns", True)))
    cells = _cells(selection, runs)
    allowed, remarks = _allowed(selection, learn)
    remarks += _remarks(selection, runs, learn, cells)
    score = _one_score(runs)
    streams_here = list(dict.fromkeys(column for _, column in cells))
    columns = [
        MetricColumn(stream, name, _head(stream, name, selection, streams_here, score))
        for stream, name in itertools.product(streams_here, selection.metrics)
    ]
    heads = [*selection.rows, *[column.title for column in columns]]
    table = new_table(heads, names=len(selection.rows))
    rows: list[dict[str, Any]] = []
    has_equal = False
    for key in _best_first(selection, cells, {run.learner for run in learn}):
        texts = list(key)
        numbers: dict[str, Any] = dict(zip(selection.rows, key, strict=True))
        for column in columns:
            stat = _stat(cells.get((key, column.stream)), column.name)
            if is_equal(stat) and not is_cost(column.name):
                has_equal = True
            ranks = allowed.get((key, column.stream, column.name), "")
            texts.append(f"{stat_text(stat, column.name.removeprefix(MAX))} {ranks}".rstrip())
            label = column.title if column.stream else column.name
            numbers[label] = stat.mean
            numbers[f"{label}.half_95"] = stat.half
        table.add_row(*map(line, texts))
        rows.append(numbers)
    if has_equal:
        remarks.append(EQUAL)
    facts = _facts(selection, runs, score)
    parts = section(selection.title, facts, table, ["", INTERVAL, *remarks])
    return TableView(selection.title, _without_nan(rows), parts)


class MetricColumn(NamedTuple):
    """A column of numbers: a metric on a stream."""

    stream: str  # "" where the metrics alone tell columns apart
    name: str  # of the metric, which may have `MAX` before it
    title: str


def _remarks(selection: Selection, runs: Results, learn: Results, cells: "Cells") -> list[str]:
    """What must be said of the runs below their table."""
    remarks = []
    if selection.columns == "metric":
        remarks += _check_streams(cells, runs)
    silent = [run.label for run in runs if run.record is None and not names_stream(run)]
    if silent and any(run.record is not None for run in runs):
        remarks += [ON_THEIR_WORD.format(name) for name in dict.fromkeys(silent)]
    if len(runs.group("stream")) == 1:
        learning = {}
        for (key, _), each in cells.items():
            if any(run in learn.rows for run in each):
                learning[_row_text(key)] = each
        remarks += describe_measurements(learning, selection.metrics[0].removeprefix(MAX))
    scores = _scores(runs)
    if len(scores) > 1:
        kinds = ", ".join(metric_name(FINAL, score) for score in scores)
        remarks.append(f"final scores are of several kinds, each stream by its own: {kinds}")
    return remarks


def _facts(selection: Selection, runs: Results, score: str | None) -> list[str]:
    """What stands below the title: the stream, or how many, and the unit of a single metric."""
    named = list(dict.fromkeys(run.stream for run in runs))
    facts = [named[0] if len(named) == 1 else f"{len(named)} streams"]
    if len(selection.metrics) == 1:
        facts.append(heading(selection.metrics[0], score))
    return [fact for fact in facts if fact]


def _without_nan(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without the numbers that are NaN in all of them."""
    known = [name for name in rows[0] if any(row[name] == row[name] for row in rows)]
    return [{name: row[name] for name in known} for row in rows]


def _scores(runs: Results) -> list[str]:
    """The base scores that the numbers are of; a line of a CSV file need not say its own."""
    return list(dict.fromkeys(run.values["score"] for run in runs if "score" in run.values))


def _one_score(runs: Results) -> str | None:
    """The base score of all runs; None where they have several, or say none."""
    scores = _scores(runs)
    return scores[0] if len(scores) == 1 else None


def _key(selection: Selection, run: Result) -> Key:
    return tuple(str(getattr(run, FIELDS[name])) for name in selection.rows)


def _cells(selection: Selection, runs: Results) -> Cells:
    """The runs of each row and column.

    Two of one row, stream, `seed` and `seeds` are refused: something else tells them apart.
    """
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
    of_row: dict[Key, list[Result]] = {}
    for (key, _), runs in cells.items():
        of_row.setdefault(key, []).extend(runs)

    def rank(key: Key) -> tuple[bool, bool, float]:
        mean = _stat(Results(tuple(of_row[key])), first).mean
        guesses = "learner" in selection.rows and not learn & {*key}
        return guesses, math.isnan(mean), sign * mean

    return sorted(of_row, key=rank)


def _stat(runs: Results | None, name: str) -> Stat:
    """A metric of a cell, from the runs that have it."""
    metric = name.removeprefix(MAX)
    every = () if runs is None else runs.rows
    having = Results(tuple(run for run in every if metric in run.values))
    if name.startswith(MAX) and having.rows:
        largest = max(run.value(metric) for run in having)
        return Results((replace(having.rows[0], values={metric: largest}),)).stat(metric)
    if len({run.stream for run in having}) > 1:
        having = having.mean(metric, over=("learners", "settings", "orders", "seeds"))
    return having.stat(metric)


def _head(
    column: str, name: str, selection: Selection, columns: Sequence[str], score: str | None
) -> str:
    title = heading(name.removeprefix(MAX), score)
    if name.startswith(MAX):
        title = MAX + title
    short = _short(columns)[column]
    if not short:
        return title
    return f"{short} {title}" if len(selection.metrics) > 1 else short


def _short(names: Sequence[str]) -> dict[str, str]:
    """Names of streams without what all of them share; one alone stays whole."""
    parts = {name: name.split(" · ") for name in names}
    shared = set.intersection(*[set(each) for each in parts.values()])
    short = {}
    for name, each in parts.items():
        own = [part for part in each if part not in shared]
        short[name] = " · ".join(own) or name
    return short


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
    allowed = {}
    sampled = []  # metrics whose verdicts rest on the test sample, too
    judged_metrics = [m for m in selection.metrics if not (is_cost(m) or m.startswith(MAX))]
    for name in judged_metrics:
        rests_on_sample = False
        for (stream,), runs in each.items():
            verdicts = _verdicts(selection, runs, name, over)
            for key, verdict in verdicts.items():
                column = stream if by_stream else ""
                allowed[key, column, name] = f"[{allowed_ranks(verdict)}]"
                if SAMPLE in verdict.parts:
                    rests_on_sample = True
        if rests_on_sample:
            sampled.append(name)
    remark = "in brackets: the ranks that the verdicts leave open, a bound of 5 % a row, over seeds"
    if not sampled:
        return allowed, [f"{remark} alone"]
    if len(sampled) == len(judged_metrics):
        return allowed, [f"{remark} and the test sample"]
    score = _one_score(learn)
    heads = " and ".join(heading(name, score) for name in sampled)
    return allowed, [f"{remark} and, for {heads}, the test sample"]


def _verdicts(selection: Selection, runs: Results, name: str, over: Over) -> dict[Key, RowVerdict]:
    """The verdicts on the rows of one stream by a metric; none on what is not compared."""
    keys = {}
    scored = []
    for run in runs:
        key = _key(selection, run)
        keys[" ".join(key)] = key
        if not math.isnan(run.value(name)):
            scored.append(replace(run, learner=" ".join(key), setting=""))
    mine = Results(tuple(scored))
    judged = mine.verdicts(name, over=over)
    verdicts = {}
    for label, verdict in zip(mine.learners, judged.rows, strict=True):
        if verdict is not None:
            verdicts[keys[label]] = verdict
    return verdicts
