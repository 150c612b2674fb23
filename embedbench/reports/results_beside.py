"""Results from elsewhere as tables: `report table.csv` alone, or `report RUNS theirs.csv`."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from embedbench.errors import UserError, list_first, unknown
from embedbench.scores.run_record import FINAL
from embedbench.text.terminal_text import line, new_table

from .comparison_tables import TableView, section
from .headings_and_units import INCREMENTAL, SCORE_NAMES, heading, value_text
from .load_results import Run
from .match_streams import ON_THEIR_WORD, KnownStream, explain_misfit, match_stream, names_stream
from .means_tables import OURS, SCHEMA, MeansTable, view
from .outside_results import read_results, with_final
from .printed_means import MEAN, PRINTED, TABLE
from .result_rows import LEFT_OUT, Row, split_tables
from .results import Result, Results, name_results
from .results_csv import MOST_NAMED, is_accuracy
from .row_names import NO_NAMES, RowNames
from .run_rows import settings_apart, streams, value_names
from .table_metric import USUAL

__all__ = ["SCHEMA", "TableChoice", "tables_beside", "tables_of_files"]

Notify = Callable[[str], None]


@dataclass(frozen=True)
class TableChoice:
    """What is asked of tables: metrics (none: all), a difference to see, names of rows."""

    metrics: Sequence[str] = ()
    difference: float | None = None
    names: RowNames = NO_NAMES


def read_files(paths: Iterable[Path], names: RowNames, notify: Notify) -> dict[Path, list[Result]]:
    """The results in CSV files; runs whose flags keep them out of means are left out."""
    files = {}
    notify = cache(notify)  # each sentence once
    for path in paths:
        kept = []
        for result in read_results(path, notify):
            if flags := {*str(result.values.get("flags", "")).split()} & {*LEFT_OUT}:
                notify(f"left out: {result.label} seed {result.seed} of {path}: {min(flags)}")
            elif not result.values.get("learns", True):
                notify(f"left out: {result.label} of {path}: it does not learn")
            else:
                kept.append(result)
        files[path] = name_results(kept, names)
    return files


def tables_of_files(paths: Sequence[Path], wanted: TableChoice, notify: Notify) -> list[TableView]:
    """The tables in CSV files alone: one for each table or stream that they name, and metric."""
    tables: dict[str, list[tuple[Path, Result]]] = {}
    read = read_files(paths, wanted.names, notify)
    every = []
    for path, results in read.items():
        every += [(path, result) for result in results]
    rows = [{**result.values, "learner": result.learner} for _, result in every]
    named = zip(every, streams(rows), settings_apart(rows), strict=True)
    for (path, result), stream, setting in named:
        title = " · ".join(filter(None, [result.values.get(TABLE, ""), stream]))
        tables.setdefault(title, []).append((path, replace(result, setting=setting)))
    views = []
    unshown: dict[str, None] = {}
    for title, placed in tables.items():
        told, places = _told_apart(placed, several=len(paths) > 1)
        together = Results(tuple(told))
        for metric in wanted.metrics:
            together = Results(tuple(with_final(one, metric, USUAL) for one in together))
        _check_once(together)
        shown = wanted.metrics or _usual_metrics(together)
        if not wanted.metrics:
            unshown |= dict.fromkeys(n for n in _names(together.rows) if n not in shown)
        for metric in shown:
            mine = _having(together, metric)
            if not len(mine):
                continue
            of = heading(metric)
            name = " · ".join(filter(None, [title or paths[0].name, "" if metric == MEAN else of]))
            table = MeansTable(name, metric, mine, places, (), wanted.difference)
            views += [view(table), *_by_session(table)]
    if views and unshown:
        notify(f"not shown: {list_first([*unshown], MOST_NAMED)}; --metric names what is")
    if not views:
        names = {name for placed in tables.values() for name in _names([r for _, r in placed])}
        if wanted.metrics:
            raise unknown("value of the results", wanted.metrics[0], names)
        raise UserError(f"{paths[0]} has no number that is defined", "see docs/runs.md")
    return views


def tables_beside(
    rows: Sequence[Row], paths: Sequence[Path], wanted: TableChoice, notify: Notify
) -> list[TableView]:
    """The results of CSV files beside ours, a table for each stream and metric that agree."""
    tables = split_tables(rows)
    known = [_known_stream(mine) for mine in tables]
    placed: dict[int, list[tuple[Path, Result]]] = {}
    reasons = list[str]()
    for path, results in read_files(paths, wanted.names, notify).items():
        for result in results:
            found = match_stream(result, known)
            if found is not None:
                placed.setdefault(known.index(found), []).append((path, result))
            else:
                reasons.append(f"{result.label} of {path}: {explain_misfit(result, known)}")
    if not placed:
        why = f" ({reasons[0]})" if reasons else ""
        raise UserError(f"no result of {paths[0]} is of a stream of ours{why}", "see docs/runs.md")
    for reason in dict.fromkeys(reasons):
        notify(f"left out: {reason}")
    views = []
    for i, theirs in placed.items():
        views += _stream_tables(tables[i], known[i], theirs, wanted, notify)
    return views


def _known_stream(mine: Sequence[Row]) -> KnownStream:
    """A table of ours as a stream that lines may name: by its title, or its directory."""
    group = mine[0].group
    run = Run(Path("run"), Path(), group.first)
    return KnownStream(group.title, run.row(), (group.place, Path(group.place).name))


def _stream_tables(
    mine: Sequence[Row],
    stream: KnownStream,
    theirs: list[tuple[Path, Result]],
    wanted: TableChoice,
    notify: Notify,
) -> list[TableView]:
    """The tables of one stream, ours and theirs; refuses theirs if no metric agrees."""
    ours = [result for row in mine if row.learns for result in row.results]
    labels = {result.label for result in ours}
    outside, places = _told_apart(theirs, several=True, taken=labels)
    _check_once(Results(tuple(outside)))
    sessions = mine[0].group.sessions
    for result in outside:
        for curve in result.curves.values():
            if len(curve) != sessions:
                raise UserError(
                    f"sessions of {result.label}",
                    "give a line for each session, counted from 0",
                    expected=f"{sessions}, as the stream {stream.title} has",
                    got=len(curve),
                )
    for metric in wanted.metrics:
        score = mine[0].group.score
        outside = [with_final(result, metric, score) for result in outside]
    given = _names(outside)
    if MEAN in given:
        raise UserError(
            f"{next(iter(theirs))[0]} has means of a metric that it does not name",
            "say in a column metric: accuracy (per test sample), or class_accuracy (mean of the "
            "classes' recalls)",
        )
    agreed = [name for name in given if any(not math.isnan(run.value(name)) for run in ours)]
    for name in wanted.metrics:
        if name not in agreed:
            raise unknown("metric that ours and theirs have", name, agreed)
    if not agreed:
        have = {*SCORE_NAMES, *mine[0].group.first.metrics}
        raise unknown("metric", given[0] if given else "", have, at=theirs[0][0])
    if not wanted.metrics and (others := [name for name in given if name not in agreed]):
        files = list_first([*dict.fromkeys(path.name for path, _ in theirs)], 3)
        notify(f"not shown: {list_first(others, MOST_NAMED)} of {files}: no run of ours has it")
    notes = []
    for result in outside:
        if not names_stream(result):
            notes.append(ON_THEIR_WORD.format(result.label))
    views = []
    for metric in wanted.metrics or agreed:
        both = Results(
            (*_having(Results(tuple(ours)), metric), *_having(Results(tuple(outside)), metric))
        )
        title = f"{stream.title} · {heading(metric, mine[0].group.score)}"
        remarks = (*_main_score(metric, mine[0], outside), *dict.fromkeys(notes))
        where = {label: places.get(label, OURS) for label in both.learners}
        table = MeansTable(title, metric, both, where, remarks, wanted.difference)
        views += [view(table), *_by_session(table)]
    return views


def _main_score(metric: str, row: Row, outside: Sequence[Result]) -> list[str]:
    """A remark where a metric is of the main score of ours, which theirs does not name."""
    score = row.group.first.score
    if metric not in (FINAL, INCREMENTAL) or all("score" in r.values for r in outside):
        return []
    return [
        f"{metric} of ours is of {SCORE_NAMES.get(score, score)}: theirs must be, too; a column "
        "accuracy (per test sample) or class_accuracy says which"
    ]


def _told_apart(
    placed: Sequence[tuple[Path, Result]], *, several: bool, taken: Iterable[str] = ()
) -> tuple[list[Result], dict[str, str]]:
    """Results whose labels are of one file each, and label → file; none where there is one file."""
    files: dict[str, dict[Path, None]] = {}
    for path, result in placed:
        files.setdefault(result.label, {})[path] = None
    named = []
    places = {}
    for path, result in placed:
        if len(files[result.label]) > 1 or result.label in taken:
            result = replace(result, learner=f"{result.label} ({path.name})", setting="")
        named.append(result)
        if several:
            places[result.label] = path.name
    return named, places


def _check_once(results: Results) -> None:
    """Refuse two lines of one run."""
    taken = set()
    for result in results:
        once = result.label, result.seed
        if result.seed is not None and once in taken:
            raise UserError(
                f"{result.label} has two lines with seed {result.seed} on one stream",
                "tell them apart by a column settings, or stream",
            )
        taken.add(once)


def _having(results: Results, metric: str) -> Results:
    """The results that have a metric."""
    return Results(tuple(r for r in results if not math.isnan(_value(r, metric))))


def _value(result: Result, metric: str) -> float:
    return math.nan if isinstance(result.values.get(metric), str) else result.value(metric)


def _names(results: Sequence[Result]) -> list[str]:
    """The metrics that results from elsewhere have, in their order."""
    names: dict[str, None] = {}
    for result in results:
        names |= dict.fromkeys(result.values.get(PRINTED, value_names([result.values])))
    return list(names)


def _usual_metrics(results: Results) -> list[str]:
    """The metrics that are shown unasked: all printed ones; of runs the final accuracy, or such."""
    names = _names(list(results))
    if any(PRINTED in result.values for result in results):
        return names
    if FINAL in names:
        return [FINAL]
    accuracies = [name for name in names if is_accuracy(name)]
    if accuracies or len(names) == 1:
        return accuracies or names
    raise UserError(
        f"the results have {list_first(names, 5) or 'no numbers'}", "name one, --metric"
    )


def _by_session(table: MeansTable) -> list[TableView]:
    """The means after each session, where theirs are known; and their mean, AIA."""
    curves = [len(c) for r in table.results for n, c in r.curves.items() if n == table.metric]
    if not curves:
        return []
    numbers = range(max(curves))
    made = new_table(["method", *(str(i) for i in numbers), "mean"])
    rows = []
    for label, results in table.rows.items():
        means = [results.stat(table.metric, moment=i).mean for i in numbers]
        if all(math.isnan(mean) for mean in means):
            continue
        average = sum(means) / len(means)
        made.add_row(*map(line, [label, *(value_text(v, table.metric) for v in (*means, average))]))
        rows.append(
            {"method": label, **{f"after_{i}": v for i, v in enumerate(means)}, "mean": average}
        )
    title = f"{table.title}, after each session"
    parts = section(title, [], made, ["", "mean: over sessions (AIA)"])
    return [TableView(title, rows, parts, {"title": title, "metric": table.metric, "rows": rows})]
