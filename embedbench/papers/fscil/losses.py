"""FR with each loss added, beside Tables 4, 5, A8 and Figure 7 of Tang et al. (2024).

Every row is run under two sets of weights: those that the paper prints, and those of the authors'
scripts, whose weight of L_NovCE is 5 to 20 times larger. The whole of FR is run with both
ensembles: the paper averages softmaxes, the authors' code cosines.
"""

from collections.abc import Mapping
from dataclasses import replace

from embedbench.papers.published import PaperTable, Value
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import RunRecord

from .figures import by_alpha, measure
from .printed import PRINTED, Row, printed_rows
from .runs import NO_LAYERS, OFFICIAL, VARIANTS, FSCILRuns, accuracies
from .weights import ROWS, of_losses

HEADS = {"aacc": "aAcc", "gacc": "gAcc", "novel_accuracy": "novel"}
BASE = "base, first"
SHORT = 2.0  # points of base accuracy that a trained FR may lose to the prototype in session 0


def losses(runs: FSCILRuns) -> list[PaperTable]:
    """Our version of Tables 4, 5, A8 and Figure 7: FR with each loss added."""
    return [_losses(runs, name) for name in runs.data]


def _losses(runs: FSCILRuns, name: str) -> PaperTable:
    data = runs.data[name]
    title = f"Tables 4, 5, A8: losses added to the baseline, {data.label}, percent"
    columns = [*HEADS.values(), BASE]
    table = PaperTable(f"Losses · {name}", title, ("learner", *OFFICIAL.values()), columns, named=1)
    variants = {"prototype": VARIANTS["prototype"], **of_losses(data.official)}
    steps = list(ROWS)
    for n, variant in variants.items():
        step = 0 if n == "prototype" else 1 + steps.index(n.rpartition("-")[2])
        printed = [_pair(printed_rows(PRINTED[o][1])[min(step, 3)]) for o in OFFICIAL]
        values: dict[str, Value] = {}
        if numbers := measure(runs, name, n, list(HEADS)):
            values = dict(zip(HEADS.values(), numbers, strict=True))
            values[BASE] = Value(None, Stat.of(100 * first(r) for r in runs.of(name, n)), 2)
            values = flag_short_runs(runs, name, n, values)
        table.rows.append(((variant.label, *printed), values))
    table.figures += by_alpha(runs, name, {n: i for i, n in enumerate(variants)})
    if table.figures:
        from embedbench.reports.learner_colours import glyph

        legend = ", ".join(f"{glyph(i)} {v.label}" for i, v in enumerate(variants.values()))
        table.notes.append(f"Figure 7: {legend}")
    table.notes += [
        "of the paper's data sets aAcc and gAcc as printed, under either weights",
        f"{BASE}: accuracy on the base classes after session 0",
        *([] if runs.possible(name, "fr") else [NO_LAYERS]),
        *runs.alignment(name),
    ]
    return table


def _pair(row: Row) -> str:
    return f"{row['aacc']:.2f} / {row['gacc']:.2f}"


def first(record: RunRecord) -> float:
    """Accuracy on the base classes after session 0."""
    return float(accuracies(record)[0, 0])


def flag_short_runs(
    runs: FSCILRuns, name: str, variant: str, values: Mapping[str, Value]
) -> dict[str, Value]:
    """The values of a row of FR; the first has a remark if a run was trained too short.

    It was if its base accuracy after session 0 is more than two points under the prototype's of the
    same seed.
    """
    result = dict(values)
    gaps = [-gap for gap in runs.gaps(name, variant, "prototype", first)]
    short = [gap for gap in gaps if gap > SHORT + 1e-9]
    if short:
        remark = (
            f"trained too short: after session 0 the base accuracy of {len(short)} of {len(gaps)} "
            f"runs is more than {SHORT:g} points under the prototype's, at most {max(short):.1f}"
        )
        head = next(iter(result))
        result[head] = replace(result[head], remark=remark)
    return result
