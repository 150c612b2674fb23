"""`embedbench reproduce tang2024`: Tang et al. (2024), printed tables and any embedding files.

**Departs**: the paper trains a vision transformer on the base session; embeddings are of a backbone
that need not have seen the data. So both have rows in one table, and no difference is computed.

FR has one module per layer, and its losses are sums over the layers. So FR with a single layer
equals one branch of the ensemble, up to the initial weights and the draws. For raw features, a
layer replaces the final embedding; the prototype baseline classifies them.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from embedbench.array_types import Floats
from embedbench.files.embedding_file import FINAL
from embedbench.papers.paper import Paper, flags_of, make_stats, per_file
from embedbench.papers.paper_table import EXACT, PaperTable, TableRow, read_misprints
from embedbench.scores import few_shot_scores
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import RunRecord

from .runs import (
    FACTS,
    LEARNERS,
    NO_LAYERS,
    SWEEPS,
    VARIANTS,
    FSCILRuns,
    of_layers,
    of_losses,
)
from .tsne import tsne

Row = dict[str, Any]

TITLES: dict[str, dict[str, Any]] = FACTS["titles"]
SAME: dict[str, str] = FACTS["same"]
CLASSES = [60] + [5] * 8  # classes per session of miniImageNet and CIFAR-100
RATIO = CLASSES[0] / CLASSES[1]
LOSSES = ("fr", "cos_nov", "cr", "ir")
HEADS = {
    "method": "method",
    "layer": "layer",
    "after": "after",
    "fr": "FR",
    "cos_nov": "L_cos + L_NovCE",
    "cr": "L_CR",
    "ir": "L_IR",
    "model": "model",
    "dim": "width",
    "heads": "heads",
    "layers": "layers",
    "params_m": "M parameters",
}
CELLS = {"sessions": 1, "novel": 2, "on": 1}  # lists of cells, and the number of the first cell
COLUMNS = {"mean": "mean", "aacc": "aAcc", "gacc": "gAcc"}
SCORE = "accuracy"  # per sample, as is usual in the field
OURS: dict[str, str] = FACTS["ours"]  # by the paper's rows
FOLLOWS = (
    "ours: what follows from the printed cells. aAcc is the mean of the sessions; gAcc follows "
    "where accuracies on novel classes are printed too (Tables A6, A7), in corner cases at α = a/12"
)
BESIDE = (
    "our rows: the learners that we have, on embeddings; the paper's networks were trained on the "
    "base session",
)
LABELS = {"prototype": f"{FINAL}, raw", "fr": "ensemble"}


def printed_rows(number: str) -> list[Row]:
    """The printed rows of a table."""
    rows: list[Row] = FACTS["printed"]["tables"][number]
    return rows


def row_name(row: Row) -> str:
    """Method or layer, or the losses in use; for a corner case the session, or "mean"."""
    if "fr" in row:
        given = [name for name in LOSSES if row[name]]
        if not given:
            return "none"
        return "all losses" if len(given) == len(LOSSES) else given[-1]
    for key in ("after", "method", "layer", "model"):
        if key in row:
            return str(row[key])
    raise KeyError(f"a row without a name: {row}")


def common_name(row: Row) -> str:
    """The name of a row that it has in all tables: some call the same method otherwise."""
    name = row_name(row)
    return SAME.get(name, name)


# --- what follows from printed cells ---
#
# A row's aAcc is the mean of its printed sessions. If Tables A6 and A7 print a method's accuracy on
# the novel classes too, its gAcc can be computed: the base classes' accuracy follows from aAcc_i.


def matrix(sessions: Sequence[float], novel: Sequence[float], ratio: float = RATIO) -> Floats:
    """(T, T) accuracies that give the printed aAcc_i and novel accuracies, both in percent.

    A_i^1 = ((r + k) aAcc_i - k A_i^novel) / r, k = i - 1. Every novel session gets A_i^novel,
    because gAcc depends only on their sum.
    """
    k = np.arange(len(sessions))
    on_novel = np.array([0.0, *novel])
    R = np.tile(on_novel[:, None], len(k)) / 100
    R[:, 0] = ((ratio + k) * np.asarray(sessions) - k * on_novel) / ratio / 100
    R[np.triu_indices(len(k), 1)] = np.nan
    return R


def behind(number: str, row: Row) -> Floats | None:
    """Accuracies behind a row, if those on all and on novel classes are printed; else None."""
    about = TITLES[number]
    name = common_name(row)
    if "all" in about:  # a table of novel accuracies: another one has those on all classes
        methods, ablation = about["all"]
        for candidate in [*printed_rows(methods), printed_rows(ablation)[0]]:
            if common_name(candidate) == name:
                return matrix(candidate["sessions"], row["novel"])
    elif "novel" in about:
        for candidate in printed_rows(about["novel"]):
            if candidate["method"] == name:
                return matrix(row["sessions"], candidate["novel"])
    return None


def corner_case(number: str) -> Floats:
    """(T, T) the printed accuracies of a corner case; NaN above the diagonal."""
    T = len(CLASSES)
    R = np.full((T, T), np.nan)
    for i, row in enumerate(printed_rows(number)[:T]):  # without that of the means
        printed = row["on"]
        R[i, : len(printed)] = [value / 100 for value in printed]
    return R


def follows(number: str, row: Row) -> dict[str, float]:
    """A row's mean, aAcc and gAcc, computed from its other cells, in percent."""
    result: dict[str, float] = {}
    R = corner_case(number) if "case" in TITLES[number] else behind(number, row)
    if R is not None:
        curves = {
            "aacc": few_shot_scores.aacc(R, CLASSES),
            "gacc": few_shot_scores.gacc_area(R, RATIO),
        }
        after = row.get("after", "mean")
        for name, curve in curves.items():
            value = curve.mean() if after == "mean" else curve[after - 1]
            result[name] = 100 * float(value)
    if "novel" in row:
        result["mean"] = float(np.mean(row["novel"]))
    if "sessions" in row:
        result["aacc"] = float(np.mean(row["sessions"]))
    return result


# --- the printed tables, with what follows from their cells ---


def table(number: str) -> PaperTable:
    """A printed table, with means computed from its other cells beside the printed ones."""
    rows = printed_rows(number)
    about = TITLES[number]
    wrong = read_misprints(FACTS, number)
    keys = _keys_in(rows, HEADS)
    columns = _keys_in(rows, COLUMNS)
    lists = _keys_in(rows[:1], CELLS)  # at most one kind of list a table
    cells = lists[0] if lists else ""
    first = CELLS.get(cells, 0)
    if number == "6":  # its sessions count from 0
        first = 0
    width = max(len(row.get(cells, ())) for row in rows)
    numbers = [str(first + i) for i in range(width)]
    result = PaperTable(
        number,
        about["title"],
        (*[HEADS[key] for key in keys], *numbers),
        tuple(COLUMNS[key] for key in columns),
        named=len(LOSSES) if "fr" in keys else 1,
        misprints=wrong,
    )
    for row in rows:
        printed_cells = [str(cell) for cell in row.get(cells, ())]
        empty = [""] * (width - len(printed_cells))
        labels = (*[_text(row, key) for key in keys], *printed_cells, *empty)
        computed = follows(number, row)
        ours = [computed.get(key) if key in row else None for key in columns]
        printed = [row.get(key) for key in columns]
        result.add_numbers(labels, ours, printed, 2, row=row_name(row), made=EXACT)
    if columns:
        result.notes += (FOLLOWS,)
    result.notes += tuple(about.get("notes", ()))
    for (row_of, column), misprint in wrong.items():
        if column.isdigit():  # of a cell, and not of a column of means
            result.notes += (f"{row_of}, {column}: {misprint['remark']}",)
    return result


def _keys_in(rows: Sequence[Row], known: Iterable[str]) -> list[str]:
    """Those of the known keys that some row has."""
    return [key for key in known if any(key in row for row in rows)]


def _text(row: Row, key: str) -> str:
    value = row.get(key)
    if isinstance(value, bool):
        return "✓" if value else "–"
    if key == "after":
        return "mean" if value == "mean" else f"f_{value}"
    if isinstance(value, float):
        return f"{value:g}"
    if value is None:
        return "–"
    return f"{value} †" if row.get("reported") else str(value)


# --- our numbers ---

SUMMARY = {"aAcc": "aacc", "gAcc": "gacc", "lAcc": "lacc", "novel": "novel_accuracy"}
SUMMARY["mean"] = SUMMARY["novel"]  # in the paper's tables


def read_numbers(record: RunRecord) -> dict[str, float]:
    """The numbers of a run in percent, by column."""
    scores = record.by_score[SCORE]
    curves = {name: np.array(v, dtype=np.float64) for name, v in (scores.curves or {}).items()}
    summary = few_shot_scores.summary(curves)
    numbers = {column: summary[name] for column, name in SUMMARY.items()}
    numbers |= {"base, first": scores.R[0][0], "base, last": scores.R[-1][0]}
    numbers["novel, last"] = curves["novel_accuracy"][-1]
    return {column: 100 * float(number) for column, number in numbers.items()}


def _stats(records: Sequence[RunRecord], columns: Sequence[str]) -> list[Stat]:
    return make_stats(records, lambda r: [read_numbers(r)[column] for column in columns])


def _fill(key: str, runs: FSCILRuns, name: str, labels: Mapping[str, Sequence[str]]) -> PaperTable:
    """Our table of a file with a row for each variant that has runs."""
    result = PaperTable.of_facts(FACTS, key, file=runs.tag(name), label=runs.label(name))
    for variant, row in labels.items():
        records = runs.of(name, variant)
        if stats := _stats(records, result.columns):
            result.add_numbers(row, stats, decimals=2, flags=flags_of(records))
    if not runs.layers(name):
        result.notes += (NO_LAYERS,)
    return result


@per_file
def learners(runs: FSCILRuns, name: str) -> PaperTable:
    """Our version of Tables 1 to 3: learners by gAcc."""
    labels = {n: (runs.label(name), variant.label) for n, variant in LEARNERS.items()}
    result = _fill("learners", runs, name, labels)
    result.rows = tuple(sorted(result.rows, key=_gacc, reverse=True))
    return result


def _gacc(row: TableRow) -> float:
    """Our gAcc of a row; `_fill` makes rows of what has runs alone."""
    ours = row.values["gAcc"].ours
    assert ours is not None
    return ours.mean


# --- printed rows beside ours, on the paper's data ---


def compare_rows(runs: FSCILRuns) -> list[PaperTable]:
    """Printed rows beside ours: all tables of a file's data set; of a stand-in Table 1 alone."""
    tables = []
    for name, data in runs.data.items():
        numbers = ["1"]
        if data.official:
            numbers = [n for n, about in TITLES.items() if about.get("data") == data.official]
        tables += [_beside(number, runs, name) for number in numbers]
    return [table for table in tables if table.rows]


def _beside(number: str, runs: FSCILRuns, name: str) -> PaperTable:
    """The printed means of a table, and ours, of the learners that have runs."""
    rows = printed_rows(number)
    keys = _keys_in(rows, COLUMNS)
    columns = tuple(COLUMNS[key] for key in keys)
    head = HEADS["layer" if number == "6" else "method"]
    title = f"{TITLES[number]['title'].removesuffix(', percent')}: runs, percent"
    result = PaperTable(f"{number}, runs", title, (head,), columns, (), BESIDE)
    result.misprints = read_misprints(FACTS, number)
    other = not runs.is_own(name)
    if other:
        result.name += f" · {runs.tag(name)}"
    for row in rows:
        method = row_name(row)
        if method not in OURS:
            continue
        records = runs.of(name, OURS[method])
        ours = _stats(records, columns)
        if ours:
            label = "ViT baseline" if method == "none" else method
            printed = [row.get(key) for key in keys]
            flags = flags_of(records)
            result.add_numbers([label], ours, printed, 2, row=method, stands_in=other, flags=flags)
    return result


# --- losses and layers ---


@per_file
def losses(runs: FSCILRuns, name: str) -> PaperTable:
    """Our version of Tables 4, 5, A8 and Figure 7: FR with each loss added.

    Every row is run under the weights that the paper prints and under those of the authors'
    scripts, whose weight of L_NovCE is 5 to 20 times larger; the whole of FR with both ensembles:
    the paper averages softmaxes, the authors' code cosines.
    """
    steps = {"prototype": VARIANTS["prototype"], **of_losses(runs.data[name].official)}
    added = range(1, len(steps) // 2 + 1)  # losses, under each of the two kinds of weights
    printed_tables = [printed_rows(official["losses"]) for official in FACTS["official"].values()]
    labels = {}
    for n_losses, (variant, of) in zip([0, *added, *added], steps.items(), strict=True):
        printed = [table[min(n_losses, 3)] for table in printed_tables]
        cells = [f"{row['aacc']:.2f} / {row['gacc']:.2f}" for row in printed]
        labels[variant] = (of.label, *cells)
    return _fill("losses", runs, name, labels)


@per_file
def sweeps(runs: FSCILRuns, name: str) -> PaperTable:
    """Our version of Figure A4: aAcc and gAcc of FR by the weight of each loss."""
    labels = {variant: variant.split("-")[1:] for variant in SWEEPS}
    return _fill("figa4", runs, name, labels)


@per_file
def layers(runs: FSCILRuns, name: str) -> PaperTable:
    """Our version of Table 6 and the right of Figure 3."""
    each = {variant: of.label for variant, of in of_layers(runs.layers(name)).items()}
    every = each | LABELS if each else {}
    labels = {variant: (runs.label(name), label) for variant, label in every.items()}
    return _fill("layers", runs, name, labels)


PAPER = Paper(
    FACTS,
    runs=FSCILRuns,
    exact={number.lower(): partial(table, number) for number in TITLES},
    tables={"learners": learners, "compared": compare_rows},
    # many runs of FR, or one extra run per file
    costly={"losses": losses, "layers": layers, "tsne": tsne, "figa4": sweeps},
    unplanned=("tsne",),
)
