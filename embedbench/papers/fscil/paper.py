"""`embedbench reproduce tang2024`: Tang et al. (2024), printed tables and any embedding files.

**Departs**: the paper trains a vision transformer on the base session; embeddings are of a backbone
that need not have seen the data. So both have rows in one table, and no difference is computed.

FR has one module per layer, and its losses are sums over the layers. So FR with a single layer
equals one branch of the ensemble, up to the initial weights and the draws. For raw features, a
layer replaces the final embedding; the prototype baseline classifies them.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from embedbench.files.embedding_file import FINAL
from embedbench.papers.paper import Paper, ReproduceRequest, per_file
from embedbench.papers.paper_table import DRAWN, FIXED, PaperTable, Value, read_misprints
from embedbench.runs.run_spec import RunSpec
from embedbench.scores.few_shot_scores import CORNER_CASES, curves_from_accuracies
from embedbench.scores.few_shot_scores import summary as quoted
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import RunRecord

from . import runs as fscil_runs
from .printed import (
    COLUMNS,
    FACTS,
    HEADS,
    SAME,
    TITLES,
    printed_rows,
    row_name,
    table,
)
from .tsne import tsne

MAIN = ("aacc", "gacc", "lacc", "novel_accuracy")
PLACES = {"aacc": "place by aAcc", "gacc": "place by gAcc"}
OURS: dict[str, str] = FACTS["ours"]  # by the paper's rows
LIKE_OURS = ("NC-FSCIL", "YourSelf (Ours)", "Ours")  # methods of the paper that we have too
SUMMARY = {"mean": "novel_accuracy", "aacc": "aacc", "gacc": "gacc"}
NAMES = {"none": "ViT baseline", "cos_nov": "L_cos + L_NovCE", "cr": "… + L_CR"}
PAPERS_LAYERS = ("8", "9", "10")  # of Table 6
SHORT = 2.0  # points of base accuracy that a trained FR may lose to the prototype in session 0
READ: dict[str, fscil_runs.Read] = {
    "aAcc": partial(fscil_runs.read_summary, "aacc"),
    "gAcc": partial(fscil_runs.read_summary, "gacc"),
    "novel": partial(fscil_runs.read_summary, "novel_accuracy"),
    "base, last": lambda r: float(fscil_runs.accuracies(r)[-1, 0]),
    "novel, last": lambda r: float(fscil_runs.curve("novel_accuracy")(r)[-1]),
}
LABELS = {"prototype": f"{FINAL}, raw", "fr": "ensemble"}
LAST = {f"{kind}, last": f"accuracy on {kind} classes after the last session"
        for kind in ("base", "novel")}  # fmt: skip


def runs_on(asked: ReproduceRequest, tables: Sequence[str]) -> fscil_runs.FSCILRuns:
    """Return the runs on the requested files."""
    return asked.runs(
        fscil_runs.FSCILRuns, data=fscil_runs.find_data(asked.data, asked.out, asked.notify)
    )


def plan_runs(runs: fscil_runs.FSCILRuns, tables: Sequence[str]) -> list[RunSpec]:
    """Return the runs of the tables; runs on one stream are neighbours, so it is built once.

    A weight that two tables share is run once.
    """
    variants = [
        n for n in fscil_runs.LEARNERS if n in runs.learners and set(tables) & set(PAPER.tables)
    ]
    if "losses" in tables:
        variants += ["prototype", *fscil_runs.of_losses()]
    if "layers" in tables:
        variants += ["prototype", "fr"]
    if "figa4" in tables:
        variants += fscil_runs.SWEEPS
    specs: dict[tuple[Hashable, ...], RunSpec] = {}
    for name in runs.data:
        single = fscil_runs.of_layers(runs.layers(name)) if "layers" in tables else {}
        lists = [of_variant for v in [*variants, *single] if (of_variant := runs.specs(name, v))]
        for same_seed in zip(*lists, strict=True):
            for c in same_seed:
                specs.setdefault((name, c.protocol, c.learner, c.seed), c)
    return list(specs.values())


def _empty(key: str, runs: fscil_runs.FSCILRuns, name: str) -> PaperTable:
    """A table of a file, without rows."""
    return PaperTable.of_facts(FACTS, key, file=name, label=runs.data[name].label)


# --- learners ---


def _learners(runs: fscil_runs.FSCILRuns, name: str) -> PaperTable:
    """Our version of Tables 1 to 3: learners by aAcc and by gAcc, with the paper's rows below."""
    result, label = _empty("learners", runs, name), runs.data[name].label
    records = {n: of for n in fscil_runs.LEARNERS if (of := runs.of(name, n))}
    places = {}
    for m in PLACES:
        means = {n: np.mean([fscil_runs.summary(r)[m] for r in of]) for n, of in records.items()}
        places[m] = {n: 1 + sum(v > means[n] for v in means.values()) for n in means}
    for n in sorted(records, key=lambda n: places["gacc"][n]):
        values = dict(zip(result.columns, fscil_runs.quote(records[n], MAIN), strict=False))
        for m, head in PLACES.items():
            values[head] = Value(None, Stat.of([places[m][n]]), 0)
        if n == "fr":
            values = flag_short_runs(runs, name, n, values)
        result.rows.append(((label, fscil_runs.LEARNERS[n].label), values))
    for case, values in _corner_cases(records, MAIN, result.columns).items():
        result.rows.append(((label, case), values))
    for official in fscil_runs.OFFICIAL:
        result.rows += _of_the_paper(official, result.columns)
    left = [fscil_runs.LEARNERS[n].label for n in runs.learners if not runs.possible(name, n)]
    result.notes += [f"{', '.join(left)}: {fscil_runs.NO_LAYERS}"] if left else []
    result.notes += runs.alignment(name)
    if records:
        result.notes.append(
            "Lazy, Greedy and Greedy-NF begin with the best base accuracy of the learners"
        )
    return result


learners = per_file(_learners)


def _corner_cases(
    records: Mapping[str, Sequence[RunRecord]], what: Sequence[str], heads: Sequence[str]
) -> dict[str, dict[str, Value]]:
    """Rows of the corner cases with the sessions of a file; empty without runs."""
    every = [r for of in records.values() for r in of]
    if not every:
        return {}
    base, sizes = (
        max(float(fscil_runs.accuracies(r)[0, 0]) for r in every),
        every[0].n_classes or (),
    )
    pairs, rows = [*zip(heads, what, strict=False)], {}
    for case, make in CORNER_CASES.items():
        numbers = quoted(curves_from_accuracies(make(len(sizes), base), sizes))
        rows[case] = {h: Value(None, Stat.of([100 * numbers[m]]), 2) for h, m in pairs}
    return rows


def _of_the_paper(
    official: str, heads: Sequence[str]
) -> list[tuple[tuple[str, ...], dict[str, Value]]]:
    """Printed rows of the baseline and of the methods that we also have."""
    methods, ablation, *novel = FACTS["official"][official]["tables"]
    of_novel = [r for number in novel for r in printed_rows(number)]
    on_novel = {row_name(r).lstrip("+"): r["mean"] for r in of_novel}
    similar = [r for r in printed_rows(methods) if r["method"] in LIKE_OURS]
    rows: list[tuple[tuple[str, ...], dict[str, Value]]] = []
    for row in [printed_rows(ablation)[0], *similar]:
        method = row_name(row)
        wrong = read_misprints(FACTS, ablation if method == "none" else methods)
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
        rows.append(((f"{fscil_runs.OFFICIAL[official]}, the paper", label), values))
    return rows


# --- printed rows beside ours, on the paper's data ---


def compare_rows(runs: fscil_runs.FSCILRuns) -> list[PaperTable]:
    """Printed rows beside ours: all tables of a file's data set; of a stand-in Table 1 alone."""
    tables = []
    for name, data in runs.data.items():
        same = [n for n, about in TITLES.items() if about.get("data") == data.official]
        for number in same if data.official else ["1"]:
            layers = runs.layers(name) if number == "6" else ()
            result = _beside(number, partial(runs.of, name), _variants(number, layers))
            result.rows = [row for row in result.rows if any(v.ours for v in row[1].values())]
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
    columns = [k for k in COLUMNS if any(k in r for r in printed_rows(number))]
    head = HEADS["layer" if number == "6" else "method"]
    title = f"{TITLES[number]['title'].removesuffix(', percent')}: runs, percent"
    heads = [COLUMNS[k] for k in columns]
    result = PaperTable(f"{number}, runs", title, (head,), heads, unit="%")
    wrong = read_misprints(FACTS, number)
    for row in printed_rows(number):
        method = row_name(row)
        variant = variants.get(method, "")
        ours = records(variant) if variant else ()
        how = FIXED if variant.endswith(("prototype", "-raw")) else DRAWN
        values = {
            COLUMNS[k]: replace(
                fscil_runs.percent(ours, partial(fscil_runs.read_summary, SUMMARY[k])),
                published=row.get(k),
                made=how,
                **wrong.get((method, k), {}),
            )
            for k in columns
        }
        result.rows.append(((NAMES.get(method, method),), values))
    result.notes.append(
        "our rows: the learners that we have, on embeddings; the paper's networks were trained on "
        "the base session"
    )
    return result


def printed_tables() -> list[PaperTable]:
    """Every printed table, and the tables of methods once more, for runs."""
    runs = [n for n, about in TITLES.items() if "data" in about]
    beside = [replace(_beside(n, lambda _: (), {}), notes=[]) for n in runs]
    return [*map(table, TITLES), *beside]


# --- losses ---


def _losses(runs: fscil_runs.FSCILRuns, name: str) -> PaperTable:
    """Our version of Tables 4, 5, A8 and Figure 7: FR with each loss added.

    Every row is run under the weights that the paper prints and under those of the authors'
    scripts, whose weight of L_NovCE is 5 to 20 times larger; the whole of FR with both ensembles:
    the paper averages softmaxes, the authors' code cosines.
    """
    result, steps = _empty("losses", runs, name), list(FACTS["losses"])
    variants = {
        "prototype": fscil_runs.VARIANTS["prototype"],
        **fscil_runs.of_losses(runs.data[name].official),
    }
    for n, variant in variants.items():
        step = 0 if n == "prototype" else 1 + steps.index(n.rpartition("-")[2])
        of_official = (FACTS["official"][o]["tables"][1] for o in fscil_runs.OFFICIAL)
        printed = (printed_rows(number)[min(step, 3)] for number in of_official)
        cells = (f"{row['aacc']:.2f} / {row['gacc']:.2f}" for row in printed)
        values: dict[str, Value] = {}
        if records := runs.of(name, n):
            numbers = [*fscil_runs.quote(records, ("aacc", "gacc", "novel_accuracy"))]
            numbers.append(fscil_runs.percent(records, first))
            values = dict(zip(result.columns, numbers, strict=True))
            values = flag_short_runs(runs, name, n, values)
        result.rows.append(((variant.label, *cells), values))
    result.notes += [] if runs.possible(name, "fr") else [fscil_runs.NO_LAYERS]
    result.notes += runs.alignment(name)
    return result


losses = per_file(_losses)


def first(record: RunRecord) -> float:
    """Accuracy on the base classes after session 0."""
    return float(fscil_runs.accuracies(record)[0, 0])


def flag_short_runs(
    runs: fscil_runs.FSCILRuns, name: str, variant: str, values: Mapping[str, Value]
) -> dict[str, Value]:
    """The values of a row of FR; the first has a remark if a run was trained too short.

    It was if its base accuracy after session 0 is more than two points under the prototype's of the
    same seed.
    """
    gaps = [-gap for gap in runs.gaps(name, variant, "prototype", first)]
    short = [gap for gap in gaps if gap > SHORT + 1e-9]
    if not short:
        return dict(values)
    remark = (
        f"trained too short: after session 0 the base accuracy of {len(short)} of {len(gaps)} "
        f"runs is more than {SHORT:g} points under the prototype's, at most {max(short):.1f}"
    )
    head = next(iter(values))
    return {**values, head: replace(values[head], remark=remark)}


def _sweeps(runs: fscil_runs.FSCILRuns, name: str) -> PaperTable:
    """Our version of Figure A4: aAcc and gAcc of FR by the weight of each loss."""
    result = _empty("figa4", runs, name)
    for beta in fscil_runs.BETAS:
        by_weight = [runs.of(name, f"fr-{beta}-{weight:g}") for weight in fscil_runs.SWEPT]
        for weight, records in zip(fscil_runs.SWEPT, by_weight, strict=True):
            if records:
                values = dict(
                    zip(result.columns, fscil_runs.quote(records, ("aacc", "gacc")), strict=True)
                )
                result.rows.append(((beta, f"{weight:g}"), values))
    result.notes += [] if runs.possible(name, "fr") else [fscil_runs.NO_LAYERS]
    return result


sweeps = per_file(_sweeps)


# --- layers: Table 6 and the right of Figure 3 ---


def _layers(runs: fscil_runs.FSCILRuns, name: str) -> PaperTable:
    """Our version of Table 6 and the right of Figure 3."""
    result, names, label = _empty("layers", runs, name), runs.layers(name), runs.data[name].label
    each = [f"{layer}-{kind}" for layer in names for kind in ("raw", "recti")]
    for variant in [*each, *LABELS] if names else []:
        if records := runs.of(name, variant):
            values = {head: fscil_runs.percent(records, read) for head, read in READ.items()}
            known = runs.variants(name)[variant]
            if known.learner == "fr":
                values = flag_short_runs(runs, name, variant, values)
            result.rows.append(((label, LABELS.get(variant) or known.label), values))
    result.rows += _papers_layers()
    result.notes += [*([] if names else [fscil_runs.NO_LAYERS]), *runs.alignment(name)]
    return result


layers = per_file(_layers)


def _papers_layers() -> list[tuple[tuple[str, ...], dict[str, Value]]]:
    """Table 6 as printed, with the final layer from Table 5 and novel accuracies from Table A6."""
    novel = {r["method"]: r for r in printed_rows("A6")}
    rows: list[tuple[tuple[str, ...], dict[str, Value]]] = []
    for row in [*printed_rows("6"), printed_rows("5")[0]]:
        layer = row_name(row)
        values = {"aAcc": row["aacc"], "gAcc": row["gacc"]}
        if layer in SAME:
            printed = novel[SAME[layer]]
            values |= {"novel": printed["mean"], "novel, last": printed["novel"][-1]}
        label = "12-Raw, final (Table 5)" if layer == "none" else layer
        cells = {head: Value(v, None, 2) for head, v in values.items()}
        rows.append((("miniImageNet, the paper", label), cells))
    return rows


PAPER = Paper(
    FACTS,
    runs=runs_on,
    specs=plan_runs,
    learners=fscil_runs.list_registered,
    exact={number.lower(): partial(table, number) for number in TITLES},
    printed=printed_tables,
    tables={
        "learners": learners,
        "compared": compare_rows,
    },
    # many runs of FR, or one extra run per file
    costly={"losses": losses, "layers": layers, "tsne": tsne, "figa4": sweeps},
)
