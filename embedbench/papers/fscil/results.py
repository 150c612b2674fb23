"""Our learners on few-shot streams, beside the results of Tang et al. (2024).

**Departs**: the paper trains a vision transformer on the base session; we use embeddings of a
backbone that never saw the data. So both have rows in one table, and no difference is computed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np

from embedbench.papers.published import PaperTable, Value
from embedbench.scores.few_shot_scores import CORNER_CASES, curves_from_accuracies
from embedbench.scores.few_shot_scores import summary as quoted
from embedbench.scores.mean_intervals import Stat

from .figures import measure
from .losses import flag_short_runs
from .printed import PRINTED, misprints, printed_rows, row_name
from .runs import LEARNERS, NO_LAYERS, OFFICIAL, FSCILRuns, accuracies, summary

MAIN = {"aacc": "aAcc", "gacc": "gAcc", "lacc": "lAcc", "novel_accuracy": "novel"}
FURTHER = {
    "gacc_exact": "gAcc, exact",
    "tacc": "tAcc",
    "hacc": "hAcc",
    "pd": "PD",
    "kr": "KR",
    "rpd": "RPD",
    "max_forgetting": "F",
}
PLACES = {"aacc": "place by aAcc", "gacc": "place by gAcc"}
OURS = ("NC-FSCIL", "YourSelf (Ours)", "Ours")  # methods of the paper that we have too


def learners(runs: FSCILRuns) -> list[PaperTable]:
    """Our version of Tables 1 to 3: learners by aAcc and by gAcc, with the paper's rows below."""
    return [_learners(runs, name) for name in runs.data]


def _learners(runs: FSCILRuns, name: str) -> PaperTable:
    data = runs.data[name]
    columns = [*MAIN.values(), *PLACES.values()]
    title = f"learners by accuracy and by gAcc, {data.label}, percent"
    table = PaperTable(f"Learners · {name}", title, ("data", "learner"), columns)
    means = {n: _means(runs, name, n) for n in LEARNERS if runs.of(name, n)}
    places = {m: _places({n: numbers[m] for n, numbers in means.items()}) for m in PLACES}
    for n in sorted(means, key=lambda n: places["gacc"][n]):
        values = dict(zip(MAIN.values(), measure(runs, name, n, list(MAIN)) or [], strict=True))
        for m, head in PLACES.items():
            values[head] = Value(None, Stat.of([places[m][n]]), 0)
        if n == "fr":
            values = flag_short_runs(runs, name, n, values)
        table.rows.append(((data.label, LEARNERS[n].label), values))
    for case, numbers in _corner_cases(runs, name).items():
        values = {MAIN[m]: Value(None, Stat.of([100 * numbers[m]]), 2) for m in MAIN}
        table.rows.append(((data.label, case), values))
    for official in OFFICIAL:
        table.rows += _of_the_paper(official)
    swapped = _swapped({n: (v["aacc"], v["gacc"]) for n, v in means.items()})
    table.notes += [
        f"sorted by gAcc; by aAcc {swapped} of {len(means) * (len(means) - 1) // 2} pairs of "
        "learners stand the other way round",
        "ours are embeddings, the paper's networks were trained on the base session; no mean "
        "takes both",
        *_missing(runs, name),
        *runs.alignment(name),
    ]
    if means:
        table.notes.append(
            "Lazy, Greedy and Greedy-NF begin with the best base accuracy of the learners"
        )
    return table


def _missing(runs: FSCILRuns, name: str) -> list[str]:
    left = [LEARNERS[n].label for n in runs.learners if not runs.possible(name, n)]
    if not left:
        return []
    return [f"{', '.join(left)}: {NO_LAYERS}"]


def _means(runs: FSCILRuns, name: str, variant: str) -> dict[str, float]:
    """Means over the seeds of every number, as fractions."""
    each = [summary(r) for r in runs.of(name, variant)]
    return {what: float(np.mean([s[what] for s in each])) for what in each[0]}


def _places(of: Mapping[str, float]) -> dict[str, int]:
    """Return ranks by a number, the highest first; equal numbers share a rank."""
    return {n: 1 + sum(other > v for other in of.values()) for n, v in of.items()}


def _swapped(of: Mapping[str, tuple[float, float]]) -> int:
    """Number of pairs whose order differs between the two numbers."""
    pairs = combinations(of.values(), 2)
    return sum((a[0] - b[0]) * (a[1] - b[1]) < 0 for a, b in pairs)


def _corner_cases(runs: FSCILRuns, name: str) -> dict[str, dict[str, float]]:
    """The corner cases with the sessions of a file; empty without runs."""
    records = [r for n in LEARNERS for r in runs.of(name, n)]
    if not records:
        return {}
    base = max(float(accuracies(r)[0, 0]) for r in records)
    sizes = records[0].n_classes or ()
    return {
        case: quoted(curves_from_accuracies(made(len(sizes), base), sizes))
        for case, made in CORNER_CASES.items()
    }


def _of_the_paper(official: str) -> list[tuple[tuple[str, ...], dict[str, Value]]]:
    """Printed rows of the baseline and of the methods that we also have."""
    methods, ablation, novel = PRINTED[official]
    on_novel = {row_name(r).lstrip("+"): r["mean"] for r in (printed_rows(novel) if novel else ())}
    chosen = [printed_rows(ablation)[0], *(r for r in printed_rows(methods) if r["method"] in OURS)]
    rows: list[tuple[tuple[str, ...], dict[str, Value]]] = []
    for row in chosen:
        method = row_name(row)
        wrong = misprints(ablation if method == "none" else methods)
        label = {"none": "ViT baseline", "Ours": "YourSelf (Ours)"}.get(method, method)
        key = "Vit-Baseline" if method == "none" else label
        cells = {
            "aacc": row["aacc"],
            "gacc": row["gacc"],
            str(len(row["sessions"])): row["sessions"][-1],
            "mean": on_novel.get(key),
        }
        values = {
            head: Value(v, None, 2, **wrong.get((method, cell), {}))
            for head, (cell, v) in zip(MAIN.values(), cells.items(), strict=True)
            if v is not None
        }
        rows.append(((f"{OFFICIAL[official]}, the paper", label), values))
    return rows


def further(runs: FSCILRuns) -> list[PaperTable]:
    """hAcc, tAcc and scores of forgetting, with the corner cases."""
    return [_further(runs, name) for name in runs.data]


def _further(runs: FSCILRuns, name: str) -> PaperTable:
    title = f"further scores of the learners, {runs.data[name].label}, percent"
    table = PaperTable(f"Further · {name}", title, ("learner",), list(FURTHER.values()))
    for n, variant in LEARNERS.items():
        of_learner = measure(runs, name, n, list(FURTHER))
        if of_learner is not None:
            table.rows.append(((variant.label,), dict(zip(table.columns, of_learner, strict=True))))
    for case, numbers in _corner_cases(runs, name).items():
        values = {h: Value(None, Stat.of([100 * numbers[m]]), 2) for m, h in FURTHER.items()}
        table.rows.append(((case,), values))
    table.notes.append(
        "tAcc, gAcc: means over sessions; hAcc: over those with novel classes; PD, KR, RPD and F: "
        "after the last session, means over those before it; drops are negative in PD and RPD"
    )
    return table


# --- what the paper says ---


def statements(runs: FSCILRuns) -> list[PaperTable]:
    """The paper's statements about FR and the two metrics, and whether they hold here."""
    return [_statements(runs, name) for name in runs.data]


def _statements(runs: FSCILRuns, name: str) -> PaperTable:
    title = f"What the paper says, {runs.data[name].label}, points"
    heads = ("statement", *OFFICIAL.values())
    table = PaperTable(f"Statements · {name}", title, heads, ("measured", "holds"))
    gains: dict[str, tuple[str, Callable[[float], bool]]] = {
        "FR raises gAcc over the baseline by three points or more": ("gacc", lambda v: v >= 3),
        "FR leaves aAcc within a point of the baseline's": ("aacc", lambda v: abs(v) <= 1),
        "FR raises the accuracy on novel classes": ("novel_accuracy", lambda v: v > 0),
    }
    for statement, (what, holds) in gains.items():
        printed = [_printed_gain(o, what) for o in OFFICIAL]
        table.rows.append(((statement, *printed), _gain(runs, name, what, holds)))
    swaps = [_printed_swaps(o) for o in OFFICIAL]
    means = {n: _means(runs, name, n) for n in LEARNERS if runs.of(name, n)}
    swapped = _swapped({n: (v["aacc"], v["gacc"]) for n, v in means.items()})
    some = len(means) > 1
    values = {
        "measured": Value(None, Stat.of([swapped]) if some else None, 0),
        "holds": _holds(swapped > 0 if some else None),
    }
    statement = "gAcc orders methods otherwise than aAcc; pairs that change places"
    table.rows.append(((statement, *swaps), values))
    table.notes.append(
        "differences of runs of one seed, means over the seeds; open: the interval has both. What "
        "counts as holding is ours"
    )
    return table


def _gain(
    runs: FSCILRuns, name: str, what: str, holds: Callable[[float], bool]
) -> dict[str, Value]:
    """FR minus the baseline, in points, seed by seed."""
    return verdict(runs.gaps(name, "fr", "prototype", lambda r: summary(r)[what]), holds)


def verdict(gaps: Sequence[float], holds: Callable[[float], bool]) -> dict[str, Value]:
    """Return the mean difference, and whether a statement holds: "yes", "no", "open" or "–".

    With several differences, the statement is also tested at both ends of the mean's 95 % interval;
    if the three results differ, it is "open". Without differences it is "–".
    """
    if not gaps:
        return {"measured": Value(), "holds": _holds(None)}
    stat = Stat.of(gaps)
    half = 0.0 if math.isnan(stat.half) else stat.half
    verdicts = {holds(stat.mean + d) for d in (-half, 0.0, half)}
    held = _holds(verdicts.pop()) if len(verdicts) == 1 else Value(words=("–", "open"))
    return {"measured": Value(None, stat, 2), "holds": held}


def _holds(holds: bool | None) -> Value:
    return Value(words=("–", {True: "yes", False: "no", None: "–"}[holds]))


def _printed_gain(official: str, what: str) -> str:
    """YourSelf minus the ViT baseline, as printed."""
    rows = {labels[1]: values for labels, values in _of_the_paper(official)}
    pair = [rows[n].get(MAIN[what]) for n in ("YourSelf (Ours)", "ViT baseline")]
    numbers = [v.published for v in pair if v is not None and v.published is not None]
    return f"{numbers[0] - numbers[1]:+.2f}".replace("-", "−") if len(numbers) == 2 else "–"


def _printed_swaps(official: str) -> str:
    """Number of pairs of printed methods whose order differs, and number of pairs."""
    rows = [r for r in printed_rows(PRINTED[official][0]) if r["gacc"] is not None]
    n = len(rows)
    return f"{_swapped({row_name(r): (r['aacc'], r['gacc']) for r in rows})} of {n * (n - 1) // 2}"
