"""Lines of a CSV file that somebody printed: a method, a mean, what stands behind ±, and n runs."""

import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from embedbench.errors import UserError, list_first, unknown
from embedbench.scores.mean_intervals import Stat

from .percent_or_fraction import Number, check_share, find_divisors
from .results import Result
from .results_csv import (
    CI,
    COLUMNS,
    KIND,
    KINDS,
    MOST_NAMED,
    SEM,
    SESSION,
    SPREAD,
    STD,
    STD_N,
    UNDEFINED,
    UNNAMED,
    Line,
    Lines,
    Z,
    cell_value,
    find_kind,
    is_accuracy,
    is_name,
    read_count,
    read_number,
)
from .table_metric import named_by_column

MEAN = "mean"  # a column; and what its numbers are where no column `metric` says it
METRIC, UNIT, BETTER, TABLE, SOURCE = "metric", "unit", "better", "table", "source"
OWN = {MEAN, METRIC, UNIT, BETTER, TABLE, SOURCE, SESSION, SPREAD, KIND, "n"}
PRINTED = "printed"  # among the values of a result: metric → `PrintedMean`
DIRECTIONS = ("higher", "lower")
LOSSES = ("forgetting", "error")  # words in the name of a metric where less is better
BOTH = re.compile(r"(\S+?) ?(?:±|\+-|\+/-) ?(\S+)")  # a mean and ± in one cell


@dataclass(frozen=True)
class PrintedMean:
    """What was printed of a mean, as a fraction.

    Parameters
    ----------
    mean, spread : float
        The numbers before and behind ±; NaN where there is none.
    kind : str
        What ± is, of `results_csv.KINDS`; "" where that is not said.
    n : int or None
        Number of runs.
    digit : float
        Half a unit of the last digit that the means of its table have.
    """

    mean: float
    spread: float
    kind: str
    n: int | None
    digit: float = 0.0

    @property
    def stat(self) -> Stat:
        """The mean with sd and interval, as far as they are known."""
        n = self.n
        if n is None or n == 1:
            return Stat(self.mean, math.nan, math.nan, (), n or 0)
        if self.kind == CI:
            return Stat.printed(self.mean, n, half=self.spread)
        # of one run, to that of the mean
        factors = {
            STD: 1.0,
            STD_N: math.sqrt(n / (n - 1)),
            SEM: math.sqrt(n),
            Z: math.sqrt(n) / 1.96,
        }
        return Stat.printed(self.mean, n, sd=self.spread * factors.get(self.kind, math.nan))

    @property
    def lacks(self) -> str:
        """What is missing for an interval, in words; "" if nothing is."""
        if math.isnan(self.spread):
            return "no spread is printed"
        if self.n is None:
            return "the number of runs is not said"
        return "" if self.kind else "what ± is, is not said"


@dataclass(frozen=True)
class _Cell:
    """A number of a line: what it is of, and what was printed."""

    line: Line
    metric: str
    printed: PrintedMean
    decimals: int

    @property
    def table(self) -> tuple[str, str]:
        """The cells that have one unit, and one number of digits."""
        return self.line.cells.get(TABLE, ""), self.metric


def read_printed(lines: Lines, notify: Callable[[str], None]) -> list[Result]:
    """A result for each method (and session) of each table, without a seed."""
    columns = _value_columns(lines, notify)
    together: dict[tuple[str, str], list[_Cell]] = {}
    for line, column in itertools.product(lines.lines, columns):
        cell = _read_cell(line, column, lines)
        together.setdefault(cell.table, []).append(cell)
    scaled: list[_Cell] = []
    for mine in together.values():
        scaled += _scale(mine, lines, notify)
    return _join_metrics(scaled, lines)


def _value_columns(lines: Lines, notify: Callable[[str], None]) -> list[str]:
    """The columns of numbers: `mean`, or those that hold numbers alone."""
    for line in lines.lines:
        if "learner" not in line.cells:
            raise UserError(f"{line.at} names no method", COLUMNS)
    free = [name for name in lines.names if name and name not in OWN and not is_name(name)]
    if MEAN in lines.names:
        columns = [MEAN]
        unread = free
    else:
        columns = [name for name in free if is_accuracy(name) or _holds_numbers(lines, name)]
        unread = [name for name in free if name not in columns]
    if not columns:
        raise UserError(
            f"{lines.path} has no column of numbers", f"call it mean, or accuracy; {COLUMNS}"
        )
    for name in (SPREAD, METRIC):
        if name in lines.names and (len(columns) > 1 or (name == METRIC and columns != [MEAN])):
            raise UserError(
                f"{lines.path} does not say which of {list_first(columns, 3)} its {name} is of",
                "call that column mean",
            )
    if "" in lines.names:
        unread.append(UNNAMED)
    if unread:
        notify(f"not read in {lines.path}: {list_first(unread, MOST_NAMED)}")
    return columns


def _holds_numbers(lines: Lines, name: str) -> bool:
    """Whether a column has numbers, and nothing else."""
    texts = [line.cells[name] for line in lines.lines if name in line.cells]
    numbers = [text for text in texts if re.search("[0-9]", text)]
    return bool(numbers) and all(re.fullmatch(r"[-+−0-9.,eE±/ _()%]+|nan|NaN", t) for t in texts)


def _read_cell(line: Line, column: str, lines: Lines) -> _Cell:
    """A mean of a line with its ±, n and kind; numbers as they are printed."""
    text = line.cells.get(column, UNDEFINED[0])
    behind = line.cells.get(SPREAD, "")
    if both := BOTH.fullmatch(text):
        if behind:
            raise UserError(f"{line.at} has ± twice, {text!r} and {behind!r}", "leave one out")
        text = both[1]
        behind = both[2]
    mean = read_number(text, column, line.at)
    n = read_count(line)
    spread = read_number(behind or UNDEFINED[0], SPREAD, line.at)
    if spread < 0:
        raise UserError(f"{SPREAD} in {line.at}", expected="0 or more", got=behind)
    if n == 1 and not math.isnan(spread):
        raise UserError(
            f"{line.at} has n = 1 and ± {behind}", "one run has no spread: leave ± empty"
        )
    given = line.cells.get(KIND, lines.spread_is)
    kind = find_kind(given)
    if given and not kind:
        raise unknown("± is", given, dict.fromkeys(KINDS.values()), at=line.at)
    decimals = 0 if math.isnan(mean) else max(0, -int(Decimal(text).as_tuple().exponent))
    metric = named_by_column(line.cells.get(METRIC, column))
    return _Cell(line, metric, PrintedMean(mean, spread, kind, n), decimals)


def _scale(cells: Sequence[_Cell], lines: Lines, notify: Callable[[str], None]) -> list[_Cell]:
    """The numbers of one metric of one table as fractions."""
    table, metric = cells[0].table
    what = f"{metric} of {table or lines.path}"
    numbers = [Number(c.printed.mean, c.line.at, c.line.cells.get(UNIT, "")) for c in cells]
    divisors = find_divisors(numbers, what)
    decimals = max(cell.decimals for cell in cells)
    result = []
    for cell, divisor in zip(cells, divisors, strict=True):
        was = cell.printed
        if divisor == 1 and was.spread > 1:
            raise UserError(
                f"{cell.line.at} has the mean {was.mean:g}, a fraction, and ± {was.spread:g}",
                "write both in one unit",
            )
        printed = replace(
            was,
            mean=was.mean / divisor,
            spread=was.spread / divisor,
            digit=0.5 * 10.0**-decimals / divisor,
        )
        if is_accuracy(metric):
            check_share(printed.mean, metric, cell.line.at)
        result.append(replace(cell, printed=printed))
    if 100 in divisors:
        notify(f"{what} is in percent")
    return result


def _join_metrics(cells: Sequence[_Cell], lines: Lines) -> list[Result]:
    """One result for what several cells and lines say of one method in one table."""
    results: dict[tuple[Any, ...], Result] = {}
    for cell in cells:
        names = _names(cell.line)
        key = tuple(names.items())
        made = results.get(key) or Result(learner=names["learner"], values={**names, PRINTED: {}})
        if cell.metric in made.values:
            table = f" in {names[TABLE]}" if TABLE in names else ""
            raise UserError(
                f"{lines.path} has two lines of {names['learner']}{table}",
                "name them differently, or say in a column table which is of which",
            )
        printed = {**made.values[PRINTED], cell.metric: cell.printed}
        values = {**made.values, cell.metric: cell.printed.stat, PRINTED: printed}
        lower = made.lower
        usual = DIRECTIONS[any(word in cell.metric.lower() for word in LOSSES)]
        better = cell.line.cells.get(BETTER, usual)
        if better not in DIRECTIONS:
            raise unknown("better", better, DIRECTIONS, at=cell.line.at)
        if better == DIRECTIONS[1]:
            lower = lower | {cell.metric}
        results[key] = replace(made, values=values, lower=lower)
    return list(results.values())


def _names(line: Line) -> dict[str, Any]:
    """What a line says of its result beside its numbers."""
    kept = (TABLE, SOURCE, SESSION)
    names = {
        name: cell_value(text, name, line.at)
        for name, text in line.cells.items()
        if name in kept or is_name(name)
    }
    return {**names, "learner": line.cells["learner"]}
