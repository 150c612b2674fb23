"""Files of results as tables for claims: one for each file of data, over all files of results."""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from embedbench.errors import UserError
from embedbench.reports.results import Result
from embedbench.reports.results import Results as Rows
from embedbench.scores.mean_intervals import Stat

from .claim_table import FIELDS, PRINTED, ClaimTable, Digits
from .paper_table import EXACT, PaperTable, TableRow, Value
from .result_files import Results

CURVE = "after session"  # of a table whose columns are learners: its one label
PERFORMANCE = "pw-JS"  # what such a table is of
CLOSE = 1e-9  # of one value in two files of results
Labels = tuple[tuple[str, str], ...]  # of a row, the name of its table first


@dataclass(frozen=True)
class DataName:
    """What a table calls its data: the file, and the paper's data set that it stands in for."""

    file: str
    stands_for: str = ""


@dataclass
class _Cells:
    """The runs in all cells of one file of data, and numbers that need no runs."""

    stands_for: str = ""
    runs: dict[tuple[Labels, str], dict[int, float]] = field(default_factory=dict)
    digits: dict[Labels, Result] = field(default_factory=dict)


def tables_of_results(
    sources: Mapping[str, Results], official: Mapping[str, str]
) -> list[ClaimTable]:
    """A table for each file of data; runs of one cell in several sources are joined by seed.

    `official` has the paper's names of its data, by ours and by the table that is about one.
    """
    files: dict[str, _Cells] = {}
    unknown: dict[Hashable, int] = {}  # runs whose seed is not known, as negative numbers
    for source, results in sources.items():
        for table in results.tables:
            for row in table.rows:
                data = _data_of(results, table, row, official)
                cells = files.setdefault(data.file, _Cells())
                cells.stands_for = cells.stands_for or data.stands_for
                if digits := _digits(table, row):
                    for file in (data.file, PRINTED):
                        of_file = files.setdefault(file, _Cells()).digits
                        of_file.setdefault(_labels(table, row, "data"), digits)
                for column, value in row.values.items():
                    if value.ours is not None:
                        n = len(value.ours.values)
                        places = [(source, n, i) for i in range(n)]
                        seeds: Sequence[int] = results.seeds
                        if n != len(seeds):
                            seeds = [unknown.setdefault(p, -1 - len(unknown)) for p in places]
                        runs = dict(zip(seeds, value.ours.values, strict=True))
                        _add(cells.runs, (_labels(table, row), column), runs, source)
    return [
        ClaimTable(Rows(tuple(_rows(cells))), file, cells.stands_for)
        for file, cells in files.items()
    ]


def _data_of(
    results: Results, table: PaperTable, row: TableRow, official: Mapping[str, str]
) -> DataName:
    """The data of a row: of "emoji for CUB-200", of a table "5 · emoji", or of the only file."""
    number, _, name = table.name.partition(" · ")
    labels = dict(zip(table.heads[: table.named], row.labels, strict=False))
    if not name and "data" in labels:  # "emoji for CUB-200", and two in a multi-modal experiment
        parts = [part.partition(" for ") for part in labels["data"].split(" / ")]
        file = " / ".join(part[0].removesuffix(", a stand-in") for part in parts)
        return DataName(file, " / ".join(part[2] or part[0] for part in parts))
    if name:
        return DataName(official.get(name, name), official.get(name, ""))
    if number in official and results.files:
        return DataName(official[number], official[number])
    stems = [file.name.rpartition(".")[0] for file in results.files]
    return DataName(stems[0] if len(stems) == 1 else PRINTED)


def _labels(table: PaperTable, row: TableRow, *also: str) -> Labels:
    """The labels of a row, but the data that it is about, unless that is asked for."""
    labels = zip(table.heads[: table.named], row.labels, strict=False)
    of_row = [(head, text) for head, text in labels if head != "data" or head in also]
    return (("table", table.name.partition(" · ")[0]), *of_row)


def _digits(table: PaperTable, row: TableRow) -> Result | None:
    """A row of numbers that were computed without runs, on the paper's data."""
    values = {column: _digits_of(value) for column, value in row.values.items()}
    known = {column: digits for column, digits in values.items() if digits is not None}
    if not known:
        return None
    return make_row(dict(_labels(table, row, "data")), known, None)


def _digits_of(value: Value) -> Digits | None:
    printed = value.corrected
    if value.made != EXACT or value.stands_in or value.ours is None or printed is None:
        return None
    return Digits(value.ours.mean, printed, value.decimals)


def _add(
    cells: dict[tuple[Labels, str], dict[int, float]],
    key: tuple[Labels, str],
    runs: dict[int, float],
    source: str,
) -> None:
    """Join runs by seed; of runs without known seeds the longer list stays."""
    before = cells.get(key, {})
    if min([*before, *runs], default=0) < 0:
        cells[key] = max(before, runs, key=len)
        return
    for seed in before.keys() & runs.keys():
        if not math.isclose(before[seed], runs[seed], abs_tol=CLOSE):
            raise UserError(
                f"expected one value of each seed in a cell, got another one in {source}: "
                f"{', '.join(text for _, text in key[0])}, {key[1]}",
                "judge these results apart",
            )
    cells[key] = before | runs


def _rows(cells: _Cells) -> Iterator[Result]:
    """A row for each seed of the rows of all tables; a curve for each learner of Table 5."""
    by_row: dict[tuple[Labels, int], dict[str, float]] = {}
    curves: dict[tuple[Labels, int], dict[int, float]] = {}
    for (labels, column), runs in cells.runs.items():
        given = dict(labels)
        for seed, value in runs.items():
            if CURVE in given:
                of_learner = (labels[0], ("learner", column))
                curves.setdefault((of_learner, seed), {})[int(given[CURVE])] = value
            else:
                by_row.setdefault((labels, seed), {})[column] = value
    for (labels, seed), values in by_row.items():
        yield make_row(dict(labels), values, seed)
    for (labels, seed), by_session in curves.items():
        curve = [by_session.get(k, math.nan) for k in range(max(by_session) + 1)]
        yield make_row(dict(labels), {}, seed, {PERFORMANCE: curve})
    yield from cells.digits.values()


def make_row(
    labels: Mapping[str, str],
    values: Mapping[str, Any],
    seed: int | None,
    curves: Mapping[str, Sequence[Stat | float]] | None = None,
) -> Result:
    """A row of results by the labels and columns of a paper's table."""
    fields: dict[str, Any] = {key: labels[key] for key in FIELDS if key in labels}
    fields.setdefault("learner", "")
    rest = {key: text for key, text in labels.items() if key not in FIELDS}
    return Result(**fields, seed=seed, values={**rest, **values}, curves=curves or {})
