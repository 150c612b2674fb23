"""Results from elsewhere: a CSV file of runs, of scores after each session, or of printed means.

This is its one reader, for `report` and the `runs` of a `[report]`; docs/runs.md has the columns.
A file with a column `seed` has lines of single runs, any other one lines of what somebody printed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from embedbench.errors import UserError, list_first
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import FINAL

from .percent_or_fraction import Number, check_share, find_divisors
from .printed_means import PRINTED, TABLE, read_printed
from .results import Result
from .results_csv import (
    KIND,
    MOST_NAMED,
    SESSION,
    SPREAD,
    TEXTS,
    UNNAMED,
    Lines,
    is_accuracy,
    is_name,
    read_lines,
    run_row,
)
from .run_rows import RowOfRun

Notify = Callable[[str], None]


def read_results(path: Path, notify: Notify = lambda _: None) -> list[Result]:
    """The results in a CSV file, as fractions; `notify` gets a sentence on what is converted.

    Raises
    ------
    UserError
        The file, a line or a cell is not as docs/runs.md says.
    """
    lines = read_lines(path)
    results = _read_runs(lines, notify) if lines.of_runs else read_printed(lines, notify)
    return join_sessions(results, path)


def _read_runs(lines: Lines, notify: Notify) -> list[Result]:
    """A result for each line of a run; accuracies in percent become fractions."""
    for name in (SPREAD, KIND, "mean"):
        if name in lines.names:
            raise UserError(
                f"{lines.path} has both seed and {name}",
                "a line is of one run, with its seed, or of a mean, with ± and n",
            )
    rows = [run_row(line) for line in lines.lines]
    for name in filter(is_accuracy, lines.names):
        having = [
            (row, line.at) for row, line in zip(rows, lines.lines, strict=True) if name in row
        ]
        numbers = [Number(row[name], at, str(row.get("unit", ""))) for row, at in having]
        divisors = find_divisors(numbers, f"{name} of {lines.path}")
        if 100 in divisors:
            notify(f"{name} of {lines.path} is in percent")
        for (row, at), divisor in zip(having, divisors, strict=True):
            row[name] /= divisor
            check_share(row[name], name, at)
    _name_unread(lines, rows, notify)
    return [Result(learner=row["learner"], seed=row["seed"], values=row) for row in rows]


def _name_unread(lines: Lines, rows: Sequence[RowOfRun], notify: Notify) -> None:
    """Say which columns hold no numbers of runs."""
    unread = []
    for name in lines.names:
        if not name or is_name(name) or name in (*TEXTS, SESSION):
            continue
        values = [row[name] for row in rows if name in row]
        if any(type(value) not in (int, float) for value in values):
            unread.append(name)
    if "" in lines.names:
        unread.append(UNNAMED)
    if unread:
        notify(f"not read in {lines.path}: {list_first(unread, MOST_NAMED)}")


# --- the final value of a score, which has two names ---


def with_final(result: Result, metric: str, score: str) -> Result:
    """The same with the final value of a base score under the other one of its names, too.

    These are `FINAL` and the score's own one. `score` is the one that the table shows; a result
    that says its own keeps to that. Results with the metric, and other metrics, stay.
    """
    score = str(result.values.get("score", score))
    others = {FINAL: score, score: FINAL}
    other = others.get(metric, "")
    if metric in result.values or other not in result.values:
        return result
    values = {**result.values, metric: result.values[other]}
    curves = dict(result.curves)
    if other in curves:
        curves[metric] = curves[other]
    if PRINTED in values:
        values[PRINTED] = {**values[PRINTED], metric: values[PRINTED][other]}
    lower = result.lower | {metric} if other in result.lower else result.lower
    return replace(result, values=values, curves=curves, lower=lower)


# --- scores after each session ---


def join_sessions(results: Sequence[Result], path: Path) -> list[Result]:
    """One result for the lines of one run, or mean, that differ in session: curves and the end.

    Lines without a session stay as they are.
    """
    if not any(SESSION in result.values for result in results):
        return list(results)
    together: dict[tuple[Any, ...], dict[int, Result]] = {}
    for result in results:
        session = result.values.get(SESSION)
        if session is None:
            raise UserError(
                f"{path}: a line of {result.learner} has no session", "number all from 0"
            )
        names = {k: v for k, v in result.values.items() if is_name(k) or k == TABLE}
        key = result.learner, result.seed, tuple(names.items())
        mine = together.setdefault(key, {})
        if session in mine:
            raise UserError(f"{path} has two lines of {_who(result)} after session {session}")
        mine[session] = result
    return [_join(mine, path) for mine in together.values()]


def _join(by_session: Mapping[int, Result], path: Path) -> Result:
    """The result of the last session, with the curves that lead to it."""
    count = len(by_session)
    last = by_session[max(by_session)]
    if sorted(by_session) != list(range(count)):
        listed = ", ".join(map(str, sorted(by_session)))
        raise UserError(
            f"the sessions of {_who(last)} in {path}",
            "a line for each session, counted from 0",
            expected="0, 1, 2, …",
            got=listed,
        )
    values = {name: value for name, value in last.values.items() if name != SESSION}
    curves: dict[str, tuple[Any, ...]] = {}
    for name, value in values.items():
        if is_name(name) or type(value) not in (int, float, Stat):
            continue
        curves[name] = tuple(by_session[i].values.get(name, math.nan) for i in range(count))
    return replace(last, values=values, curves=curves)


def _who(result: Result) -> str:
    seed = "" if result.seed is None else f" seed {result.seed}"
    return f"{result.learner}{seed}"
