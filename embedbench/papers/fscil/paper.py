"""`embedbench reproduce tang2024`: Tang et al. (2024), printed tables and any embedding files.

**Departs**: the paper trains a vision transformer on the base session; embeddings are of a backbone
that need not have seen the data. So both have rows in one table, and no difference is computed.

FR has one module per layer, and its losses are sums over the layers. So FR with a single layer
equals one branch of the ensemble, up to the initial weights and the draws. For raw features, a
layer replaces the final embedding; the prototype baseline classifies them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from embedbench.array_types import Floats
from embedbench.files.embedding_file import FINAL
from embedbench.papers.paper import Paper, per_file
from embedbench.papers.paper_runs import Read, make_stats
from embedbench.papers.paper_table import DRAWN, FIXED, PaperTable, TableRow, Value
from embedbench.scores import few_shot_scores
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import RunRecord

from .printed import (
    COLUMNS,
    FACTS,
    HEADS,
    SAME,
    TITLES,
    printed_rows,
    read_misprints,
    row_name,
    table,
)
from .runs import (
    LEARNERS,
    NO_LAYERS,
    OFFICIAL,
    SWEEPS,
    VARIANTS,
    FSCILRuns,
    of_losses,
)
from .tsne import tsne

SCORE = "accuracy"  # per sample, as is usual in the field
OURS: dict[str, str] = FACTS["ours"]  # by the paper's rows
LIKE_OURS = ("NC-FSCIL", "YourSelf (Ours)", "Ours")  # methods of the paper that we have too
NAMES = {"none": "ViT baseline", "cos_nov": "L_cos + L_NovCE", "cr": "… + L_CR"}
PAPERS_LAYERS = ("8", "9", "10")  # of Table 6
SHORT = 2.0  # points of base accuracy that a trained FR may lose to the prototype in session 0
LABELS = {"prototype": f"{FINAL}, raw", "fr": "ensemble"}


# --- our numbers, in percent, by column ---


def accuracies(record: RunRecord) -> Floats:
    """(T, T) R[i, j], the per-sample accuracy, in percent."""
    return 100 * np.array(record.by_score[SCORE].R, dtype=np.float64)


def _read_summary(number: str, record: RunRecord) -> float:
    given = record.by_score[SCORE].curves or {}
    curves = {name: np.array(values, dtype=np.float64) for name, values in given.items()}
    return 100 * few_shot_scores.summary(curves)[number]


def _read_first(record: RunRecord) -> float:
    """Accuracy on the base classes after session 0."""
    return float(accuracies(record)[0, 0])


SUMMARY = {"aAcc": "aacc", "gAcc": "gacc", "lAcc": "lacc", "novel": "novel_accuracy"}
SUMMARY["mean"] = SUMMARY["novel"]  # in the paper's tables
READ: dict[str, Read] = {
    **{column: partial(_read_summary, number) for column, number in SUMMARY.items()},
    "base, first": _read_first,
    "base, last": lambda r: float(accuracies(r)[-1, 0]),
    "novel, last": lambda r: 100 * (r.by_score[SCORE].curves or {})["novel_accuracy"][-1],
}


def _empty(key: str, runs: FSCILRuns, name: str) -> PaperTable:
    """A table of a file, without rows."""
    return PaperTable.of_facts(FACTS, key, file=name, label=runs.data[name].label)


def _add(
    result: PaperTable, runs: FSCILRuns, name: str, variant: str, labels: Sequence[str]
) -> None:
    """Append our row of a variant.

    The first number of an FR has a remark if a run was trained too short: if its base accuracy
    after session 0 is more than two points under the prototype's of the same seed.
    """
    records = runs.of(name, variant)
    reads = [READ[column] for column in result.columns if column in READ]
    result.add_numbers(labels, make_stats(records, *reads), decimals=2)
    if not variant.startswith("fr") and not variant.endswith("-recti"):
        return
    prototype = {r.seed: _read_first(r) for r in runs.of(name, "prototype")}
    gaps = [prototype[r.seed] - _read_first(r) for r in records if r.seed in prototype]
    short = [gap for gap in gaps if gap > SHORT + 1e-9]
    if short:
        values, head = result.rows[-1].values, result.columns[0]
        remark = (
            f"trained too short: after session 0 the base accuracy of {len(short)} of {len(gaps)} "
            f"runs is more than {SHORT:g} points under the prototype's, at most {max(short):.1f}"
        )
        values[head] = replace(values[head], remark=remark)


# --- learners ---


@per_file
def learners(runs: FSCILRuns, name: str) -> PaperTable:
    """Our version of Tables 1 to 3: learners by aAcc and by gAcc, with the paper's rows below."""
    result, label = _empty("learners", runs, name), runs.data[name].label
    records = {n: of for n in LEARNERS if (of := runs.of(name, n))}
    places: dict[str, dict[str, int]] = {}
    for column in ("aAcc", "gAcc"):
        means = {n: np.mean([READ[column](r) for r in of]) for n, of in records.items()}
        places[column] = {n: 1 + sum(v > mean for v in means.values()) for n, mean in means.items()}
    for n in sorted(records, key=lambda n: places["gAcc"][n]):
        _add(result, runs, name, n, (label, LEARNERS[n].label))
        for column, of_column in places.items():
            value = Value(None, Stat.of([of_column[n]]), 0)
            result.rows[-1].values[f"place by {column}"] = value
    if every := [r for of in records.values() for r in of]:
        base, sizes = max(map(_read_first, every)) / 100, every[0].n_classes or ()
        for case, make in few_shot_scores.CORNER_CASES.items():
            curves = few_shot_scores.curves_from_accuracies(make(len(sizes), base), sizes)
            numbers = few_shot_scores.summary(curves)
            ours = [100 * numbers[SUMMARY[column]] for column in result.columns[:4]]
            result.add_numbers((label, case), ours, decimals=2)
    for official in OFFICIAL:
        result.rows += tuple(_papers_methods(official, result.columns))
    left = [LEARNERS[n].label for n in runs.learners if not runs.possible(name, n)]
    result.notes += (f"{', '.join(left)}: {NO_LAYERS}",) if left else ()
    result.notes += tuple(runs.alignment(name))
    if records:
        result.notes += (
            "Lazy, Greedy and Greedy-NF begin with the best base accuracy of the learners",
        )
    return result


def _papers_methods(official: str, heads: Sequence[str]) -> list[TableRow]:
    """Printed rows of the baseline and of the methods that we also have."""
    methods, ablation, *novel = FACTS["official"][official]["tables"]
    of_novel = [r for number in novel for r in printed_rows(number)]
    on_novel = {row_name(r).lstrip("+"): r["mean"] for r in of_novel}
    similar = [r for r in printed_rows(methods) if r["method"] in LIKE_OURS]
    rows = []
    for row in [printed_rows(ablation)[0], *similar]:
        method = row_name(row)
        wrong = read_misprints(ablation if method == "none" else methods)
        label = {"none": "ViT baseline", "Ours": "YourSelf (Ours)"}.get(method, method)
        cells = {
            "aacc": row["aacc"],
            "gacc": row["gacc"],
            str(len(row["sessions"])): row["sessions"][-1],
            "mean": on_novel.get("Vit-Baseline" if method == "none" else label),
        }
        values = {
            head: Value(v, None, 2, **wrong.get((method, cell), {}))
            for head, (cell, v) in zip(heads, cells.items(), strict=False)
            if v is not None
        }
        rows.append(TableRow((f"{OFFICIAL[official]}, the paper", label), values))
    return rows


# --- printed rows beside ours, on the paper's data ---


def compare_rows(runs: FSCILRuns) -> list[PaperTable]:
    """Printed rows beside ours: all tables of a file's data set; of a stand-in Table 1 alone."""
    tables = []
    for name, data in runs.data.items():
        same = [n for n, about in TITLES.items() if about.get("data") == data.official]
        for number in same if data.official else ["1"]:
            layers = runs.layers(name) if number == "6" else ()
            result = _beside(number, partial(runs.of, name), _variants(number, layers))
            result.rows = tuple(r for r in result.rows if any(v.ours for v in r.values.values()))
            if data.official is None:
                result.stand_in(name, f"{name} for miniImageNet")
            tables.append(result)
    return [table for table in tables if table.rows]


def _variants(number: str, layers: Sequence[str] = ()) -> dict[str, str]:
    """Our runs by the names of a table's printed rows; Table 6 has ours if the layers are three."""
    if number in ("4", "A8"):
        return OURS | {"cos_nov": "fr-paper-cos", "cr": "fr-paper-cr"}
    if number == "6" and len(layers) == len(PAPERS_LAYERS):
        pairs = [*zip(PAPERS_LAYERS, layers, strict=True)]
        return OURS | {f"{a}-{k}": f"{b}-{k.lower()}" for a, b in pairs for k in ("Raw", "Recti")}
    return OURS


def _beside(
    number: str, records: Callable[[str], Sequence[RunRecord]], variants: Mapping[str, str]
) -> PaperTable:
    """The printed means of a table, and ours by variant and number."""
    keys = [k for k in COLUMNS if any(k in r for r in printed_rows(number))]
    title = f"{TITLES[number]['title'].removesuffix(', percent')}: runs, percent"
    heads, columns = (HEADS["layer" if number == "6" else "method"],), [COLUMNS[k] for k in keys]
    result = PaperTable(f"{number}, runs", title, heads, tuple(columns), unit="%")
    wrong = read_misprints(number)
    for row in printed_rows(number):
        method = row_name(row)
        variant = variants.get(method, "")
        label = NAMES.get(method, method)
        how = FIXED if variant.endswith(("prototype", "-raw")) else DRAWN
        result.misprints |= {
            (label, COLUMNS[k]): wrong[method, k] for k in keys if (method, k) in wrong
        }
        ours = make_stats(records(variant) if variant else (), *(READ[c] for c in columns))
        result.add_numbers([label], ours, [row.get(k) for k in keys], 2, made=how)
    result.notes += (
        "our rows: the learners that we have, on embeddings; the paper's networks were trained on "
        "the base session",
    )
    return result


def printed_tables() -> list[PaperTable]:
    """Every printed table, and the tables of methods once more, for runs."""
    runs = [n for n, about in TITLES.items() if "data" in about]
    beside = [replace(_beside(n, lambda _: (), {}), notes=()) for n in runs]
    return [*map(table, TITLES), *beside]


# --- losses ---


@per_file
def losses(runs: FSCILRuns, name: str) -> PaperTable:
    """Our version of Tables 4, 5, A8 and Figure 7: FR with each loss added.

    Every row is run under the weights that the paper prints and under those of the authors'
    scripts, whose weight of L_NovCE is 5 to 20 times larger; the whole of FR with both ensembles:
    the paper averages softmaxes, the authors' code cosines.
    """
    result, steps = _empty("losses", runs, name), list(FACTS["losses"])
    variants = {"prototype": VARIANTS["prototype"], **of_losses(runs.data[name].official)}
    for n, variant in variants.items():
        step = 0 if n == "prototype" else 1 + steps.index(n.rpartition("-")[2])
        of_official = (FACTS["official"][o]["tables"][1] for o in OFFICIAL)
        printed = (printed_rows(number)[min(step, 3)] for number in of_official)
        cells = (f"{row['aacc']:.2f} / {row['gacc']:.2f}" for row in printed)
        _add(result, runs, name, n, (variant.label, *cells))
    result.notes += () if runs.possible(name, "fr") else (NO_LAYERS,)
    result.notes += tuple(runs.alignment(name))
    return result


@per_file
def sweeps(runs: FSCILRuns, name: str) -> PaperTable:
    """Our version of Figure A4: aAcc and gAcc of FR by the weight of each loss."""
    result = _empty("figa4", runs, name)
    for variant in SWEEPS:
        if records := runs.of(name, variant):
            stats = make_stats(records, READ["aAcc"], READ["gAcc"])
            result.add_numbers(variant.split("-")[1:], stats, decimals=2)
    result.notes += () if runs.possible(name, "fr") else (NO_LAYERS,)
    return result


# --- layers: Table 6 and the right of Figure 3 ---


@per_file
def layers(runs: FSCILRuns, name: str) -> PaperTable:
    """Our version of Table 6 and the right of Figure 3, with the paper's rows below.

    They are Table 6 as printed, with the final layer from Table 5 and novel accuracies from Table
    A6.
    """
    result, names, label = _empty("layers", runs, name), runs.layers(name), runs.data[name].label
    each = [f"{layer}-{kind}" for layer in names for kind in ("raw", "recti")]
    for variant in [*each, *LABELS] if names else []:
        if runs.of(name, variant):
            of_variant = LABELS.get(variant) or runs.variants(name)[variant].label
            _add(result, runs, name, variant, (label, of_variant))
    novel = {r["method"]: r for r in printed_rows("A6")}
    for row in [*printed_rows("6"), printed_rows("5")[0]]:
        layer = row_name(row)
        values = {"aAcc": row["aacc"], "gAcc": row["gacc"]}
        if layer in SAME:
            printed = novel[SAME[layer]]
            values |= {"novel": printed["mean"], "novel, last": printed["novel"][-1]}
        layer = "12-Raw, final (Table 5)" if layer == "none" else layer
        cells = [values.get(column) for column in result.columns]
        result.add_numbers(("miniImageNet, the paper", layer), (), cells, 2)
    if not names:
        result.notes += (NO_LAYERS,)
    result.notes += tuple(runs.alignment(name))
    return result


PAPER = Paper(
    FACTS,
    runs=FSCILRuns,
    exact={number.lower(): partial(table, number) for number in TITLES},
    printed=printed_tables,
    tables={"learners": learners, "compared": compare_rows},
    # many runs of FR, or one extra run per file
    costly={"losses": losses, "layers": layers, "tsne": tsne, "figa4": sweeps},
)
