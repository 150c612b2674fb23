"""Files of results as tables for claims: one for each file of data, over all files of results."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from embedbench.errors import UserError
from embedbench.reports.results import Result, Results
from embedbench.scores.mean_intervals import Stat

from .claim_table import FIELDS, PRINTED, ClaimTable, Digits, OfRun
from .data_kinds import OTHER, read_label
from .paper_table import EXACT, PaperTable, TableRow, Value
from .result_files import PaperResults

CURVE = "after session"  # the one label of a table whose columns are learners
PERFORMANCE = "pw-JS"  # what such a table is of
CLOSE = 1e-9  # of one value in two files of results
Labels = tuple[tuple[str, str], ...]  # of a row, the name of its table first
Cells = dict[tuple[Labels, str], dict[int | None, Any]]  # by row and column, by seed


def tables_of_results(
    sources: Mapping[str, PaperResults], official: Mapping[str, str]
) -> list[ClaimTable]:
    """A table for each file of data; runs of one cell in several sources are joined by seed.

    `official` has the paper's names of its data, by ours and by the table that is about one.
    """
    files: dict[str, Cells] = {}
    stands_for: dict[str, str] = {}
    unknown: dict[Any, int] = {}  # runs whose seed is not known, as negative numbers
    for source, results in sources.items():
        for table in results.tables:
            for row in table.rows:
                file, paper = _data_of(results, table, row, official)
                stands_for.setdefault(file, paper)
                cells = files.setdefault(file, {})
                labels = _labels(table, row)
                with_data = _labels(table, row, "data")
                for column, value in row.values.items():
                    if digits := _digits(value):
                        for where in (cells, files.setdefault(PRINTED, {})):
                            where.setdefault((with_data, column), {None: digits})
                    if value.ours is not None:
                        n = len(value.ours.values)
                        places = [(source, n, i) for i in range(n)]
                        seeds: Sequence[int] = results.seeds
                        if n != len(seeds):
                            seeds = [unknown.setdefault(p, -1 - len(unknown)) for p in places]
                        runs: dict[int | None, Any] = {
                            seed: OfRun(number, value.flags)
                            for seed, number in zip(seeds, value.ours.values, strict=True)
                        }
                        _join(cells, (labels, column), runs, source)
    return [
        ClaimTable(Results(tuple(_rows(cells))), file, stands_for.get(file, ""))
        for file, cells in files.items()
    ]


def _data_of(
    results: PaperResults, table: PaperTable, row: TableRow, official: Mapping[str, str]
) -> tuple[str, str]:
    """The data of a row, and the paper's data set that it stands in for.

    These are "emoji for CUB-200", those of a table "5 · emoji", or the only file; and where the
    label says it, a part of a data set of the paper or another backbone.
    """
    number, _, name = table.name.partition(" · ")
    data = dict(_labels(table, row, "data")).get("data")
    if not name and data is not None:  # two of them in a multi-modal experiment
        parts = [_data_of_label(part) for part in data.split(" / ")]
        return " / ".join(p[0] for p in parts), " / ".join(p[1] for p in parts)
    if stands_for := read_label(name)[0]:
        return name, stands_for
    if name:
        return official.get(name, name), official.get(name, "")
    if number in official and results.files:
        return official[number], official[number]
    if len(results.files) != 1:
        return PRINTED, ""
    (file,) = results.files
    if file.label is None or file.kind == OTHER:
        return file.name.rpartition(".")[0], ""
    return file.label, read_label(file.label)[0] or file.label


def _data_of_label(label: str) -> tuple[str, str]:
    """The data of a label, and the paper's data set that they are or stand in for."""
    if stands_for := read_label(label)[0]:
        return label, stands_for
    file, _, paper = label.partition(" for ")
    return file, paper or file


def _labels(table: PaperTable, row: TableRow, *also: str) -> Labels:
    """The labels of a row, but the data that it is about, unless that is asked for."""
    labels = zip(table.heads[: table.named], row.labels, strict=False)
    of_row = [(head, text) for head, text in labels if head != "data" or head in also]
    return (("table", table.name.partition(" · ")[0]), *of_row)


def _digits(value: Value) -> Digits | None:
    """A number that was computed without runs, on the paper's data, and the printed one."""
    printed = value.corrected
    if value.made != EXACT or value.stands_in or value.ours is None or printed is None:
        return None
    return Digits(value.ours.mean, printed, value.decimals)


def _join(cells: Cells, key: tuple[Labels, str], runs: dict[int | None, Any], source: str) -> None:
    """Join runs by seed; of runs without known seeds the longer list stays."""
    before = cells.get(key, {})
    if any(seed is None or seed < 0 for seed in (*before, *runs)):
        cells[key] = max(before, runs, key=len)
        return
    for seed in before.keys() & runs.keys():
        if not math.isclose(before[seed].value, runs[seed].value, abs_tol=CLOSE):
            raise UserError(
                f"expected one value of each seed in a cell, got another one in {source}: "
                f"{', '.join(text for _, text in key[0])}, {key[1]}",
                "judge these results apart",
            )
    known = {seed: run for seed, run in before.items() if run.flags is not None}
    cells[key] = before | runs | known  # one source may say the flags, and an older one not


def _rows(cells: Cells) -> Iterator[Result]:
    """A row for each seed of the rows of all tables; a curve for each learner of Table 5."""
    by_row: dict[tuple[Labels, int | None], dict[str, Any]] = {}
    curves: dict[tuple[Labels, int | None], dict[int, Any]] = {}
    for (labels, column), runs in cells.items():
        session = dict(labels).get(CURVE)
        for seed, value in runs.items():
            if session is None:
                by_row.setdefault((labels, seed), {})[column] = value
            else:
                of_learner = (labels[0], ("learner", column))
                curves.setdefault((of_learner, seed), {})[int(session)] = value
    for (labels, seed), values in by_row.items():
        yield make_row(dict(labels), values, seed)
    for (labels, seed), by_session in curves.items():
        curve = [by_session.get(k, math.nan) for k in range(max(by_session) + 1)]
        yield make_row(dict(labels), {}, seed, {PERFORMANCE: curve})


def make_row(
    labels: Mapping[str, str],
    values: Mapping[str, Any],
    seed: int | None = None,
    curves: Mapping[str, Sequence[Stat | float]] | None = None,
) -> Result:
    """A row of results by the labels and columns of a paper's table."""
    fields: dict[str, Any] = {"learner": ""}
    fields |= {key: labels[key] for key in FIELDS if key in labels}
    rest = {key: text for key, text in labels.items() if key not in FIELDS}
    curves = {} if curves is None else curves
    return Result(**fields, seed=seed, values={**rest, **values}, curves=curves)
