"""The results table that a claim is written over: what one file has, or what a paper prints.

Its rows are those of `reports.results`. The `values` of a row are the columns of a table of
`reproduce`, and those of its labels that are neither learner nor order; the name of that table is
the value "table".
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from embedbench.array_types import Floats
from embedbench.errors import UserError
from embedbench.reports.contrasts import Contrast, Number
from embedbench.reports.results import Result, Results
from embedbench.scores.mean_intervals import Stat

PRINTED = "printed"  # the file of what is checked on printed numbers
FIELDS = ("learner", "order")  # labels that a row of results has a field for
SAID = ("table", "protocol")  # labels that are no part of a number's name
LAST = -1  # the last session of a curve


class Digits(NamedTuple):
    """A number computed without runs, and the printed one with its number of decimals."""

    computed: float
    printed: float
    decimals: int


class OfRun(NamedTuple):
    """The number of one run, and the flags of the runs of its cell; None: they are not known."""

    value: float
    flags: tuple[str, ...] | None = None


class Draws(NamedTuple):
    """How printed means and spreads become simulated runs: tables, runs of each, and a seed."""

    tables: int
    runs: int
    seed: int = 0


@dataclass(frozen=True, eq=False)
class ClaimTable:
    """The rows of one file, asked for numbers by name.

    Parameters
    ----------
    rows : Results
        Runs with seeds, or printed means (`Stat`).
    file : str
        The name of the data.
    stands_for : str
        The paper's data set that it is, or stands in for; "" if it is none's.
    draws : Draws or None
        Simulate runs from printed means and spreads, and give these in their place.
    """

    rows: Results
    file: str = PRINTED
    stands_for: str = ""
    draws: Draws | None = None
    _noise: dict[int, Floats] = field(default_factory=dict, init=False)

    def __call__(
        self,
        column: str,
        of: Mapping[str, Any] | None = None,
        /,
        *,
        at: int | None = None,
        **labels: Any,
    ) -> Number:
        """The number in a column of the rows with these labels.

        It is a missing one if there is none, or if it is undefined in any run. `at` is a session of
        a curve. The name of the number is the labels that were asked for, but
        table and protocol, and the column.
        """
        wanted = {**(of or {}), **labels}
        asked = [text for key, text in wanted.items() if key not in SAID]
        texts = [text if isinstance(text, str) else text[0] for text in asked]
        name = ", ".join([*texts, column])
        given: dict[Result, Stat | OfRun] = {}
        for row in self._rows(wanted):
            value = _value(row, column, at)
            if value is not None:
                given[row] = value
        if not given or any(math.isnan(_mean(value)) for value in given.values()):
            return Number.missing(name)
        row, first = next(iter(given.items()))
        if len({row.seed for row in given}) < len(given):
            unsaid = ", ".join(f"{key} {text}" for key, text in wanted.items() if key in SAID)
            where = f" of {unsaid}" if unsaid else ""
            raise UserError(
                f"{name}{where}: expected one row of each seed", "name more of its labels"
            )
        if isinstance(first, Stat):
            return self._printed(name, row, first)
        runs = [of_run for of_run in given.values() if isinstance(of_run, OfRun)]
        values = np.array([of_run.value for of_run in runs], dtype=np.float64)
        seeds = [row.seed for row in given]
        number = Number.of_runs(name, seeds, values, (row.stream, row.order))
        return replace(number, flags=frozenset().union(*[of_run.flags or () for of_run in runs]))

    def _printed(self, name: str, row: Result, stat: Stat) -> Number:
        """A printed mean, or simulated runs of it; the numbers of one row move together."""
        if self.draws is None:
            return Number.printed(name, stat.mean, stat.sd, stat.n, id(row))
        if id(row) not in self._noise:
            rng = np.random.default_rng([self.draws.seed, len(self._noise)])
            self._noise[id(row)] = rng.standard_normal((self.draws.tables, self.draws.runs))
        values = stat.mean + stat.sd * self._noise[id(row)]
        return Number.of_runs(name, range(self.draws.runs), values, (row.stream, row.order))

    def curve(self, column: str, /, **labels: Any) -> list[Number]:
        """The numbers of a curve, one for each session."""
        sessions = max((len(row.curves.get(column, ())) for row in self._rows(labels)), default=0)
        return [self(column, at=k, **labels) for k in range(sessions)]

    def labels(self, key: str, /, **wanted: Any) -> list[str]:
        """The texts of a label in the rows with other labels, in order of appearance."""
        names = [row.names for row in self._rows(wanted)]
        return list(dict.fromkeys(str(of_row[key]) for of_row in names if key in of_row))

    def digits(self, *columns: str, **labels: Any) -> Iterator[Contrast]:
        """The contrasts that numbers computed without runs have the printed digits.

        Each is named with its table, as rows of several tables may have the same labels.
        """
        for row in self._rows(labels):
            for column, value in row.values.items():
                if isinstance(value, Digits) and column in columns:
                    name = f"{_table_of(row)}: {' '.join([*_texts(row), column])}"
                    gap = Number(name, np.array(abs(value.computed - value.printed)), runs=1)
                    # numbers are rounded by hand, so half a unit of the last digit is allowed
                    yield gap.below(0.5 * 10**-value.decimals + 1e-9)

    def _rows(self, wanted: Mapping[str, Any]) -> list[Result]:
        """The rows with these labels; a label that no row has is in none."""
        for key in wanted:
            if not any(key in row.names for row in self.rows):
                return []
        return list(self.rows.where(wanted))


def _value(row: Result, column: str, at: int | None) -> Stat | OfRun | None:
    """What a row has in a column, or at a session of a curve; None if that is no number."""
    value = row.values.get(column)
    if at is not None:
        curve = row.curves.get(column, ())
        value = curve[at] if -len(curve) <= at < len(curve) else None
    if isinstance(value, Stat | OfRun):
        return value
    return OfRun(float(value)) if isinstance(value, int | float) else None


def _mean(value: Stat | OfRun) -> float:
    return value.mean if isinstance(value, Stat) else value.value


def _table_of(row: Result) -> str:
    """The table of a row, "Table S6"; a name that is a word stands for itself: "Figure S1"."""
    name = str(row.values.get("table", ""))
    return name if re.match("[A-Z][a-z]", name) else f"Table {name}"


def _texts(row: Result) -> list[str]:
    """The labels of a row."""
    texts = [v for key, v in row.values.items() if isinstance(v, str) and key != "table"]
    return [text for text in (row.learner, row.order, *texts) if text]
