"""The layer study of Tang et al. (2024) with our runs: Table 6 and the right of Figure 3.

FR has one module per layer, and its losses are sums over the layers. So FR with a single layer
equals one branch of the ensemble, up to the initial weights and the draws. For raw features, a
layer replaces the final embedding; the prototype baseline classifies them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from embedbench.arrays import Floats
from embedbench.files.embedding_file import FINAL
from embedbench.papers.published import PaperTable, Value
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import RunRecord

from .losses import flag_short_runs
from .printed import SAME, printed_rows, row_name
from .results import verdict
from .runs import NO_LAYERS, FSCILRuns, accuracies, curve, summary

READ: dict[str, Callable[[RunRecord], float]] = {
    "aAcc": lambda r: summary(r)["aacc"],
    "gAcc": lambda r: summary(r)["gacc"],
    "novel": lambda r: summary(r)["novel_accuracy"],
    "base, last": lambda r: float(accuracies(r)[-1, 0]),
    "novel, last": lambda r: float(curve("novel_accuracy")(r)[-1]),
}
LABELS = {"prototype": f"{FINAL}, raw", "fr": "ensemble"}
LAST = {
    "base, last": "accuracy on base classes after the last session",
    "novel, last": "accuracy on novel classes after the last session",
}


def layers(runs: FSCILRuns) -> list[PaperTable]:
    """Our version of Table 6 and the right of Figure 3; and the paper's statements about layers."""
    return [made(runs, name) for name in runs.data for made in (_layers, _statements)]


def _layers(runs: FSCILRuns, name: str) -> PaperTable:
    data, names = runs.data[name], runs.layers(name)
    title = f"Table 6, Figure 3: layers, raw and rectified, and ensemble, {data.label}, percent"
    table = PaperTable(f"Layers · {name}", title, ("data", "features"), list(READ), across=2)
    each = [f"{layer}-{kind}" for layer in names for kind in ("raw", "recti")]
    for variant in [*each, *LABELS] if names else []:
        records = runs.of(name, variant)
        if records:
            values = {
                head: Value(None, Stat.of(100 * read(r) for r in records), 2)
                for head, read in READ.items()
            }
            if runs.variants(name)[variant].learner == "fr":
                values = flag_short_runs(runs, name, variant, values)
            label = LABELS.get(variant) or runs.variants(name)[variant].label
            table.rows.append(((data.label, label), values))
    if table.rows:
        table.figures += _figures(runs, name, names)
        table.notes.append(_legend())
    table.rows += _of_the_paper()
    table.notes += [
        "aAcc, gAcc: means over the sessions; novel: over those with novel classes; last: after "
        "the last session, which the figures show",
        "raw: the prototype baseline on that layer alone; rectified: FR with the module of that "
        "layer alone; ensemble: FR with all of them",
        "ours are embeddings, the paper's network was trained on the base session; no mean takes "
        "both",
        *([] if names else [NO_LAYERS]),
        *runs.alignment(name),
    ]
    return table


def _of_the_paper() -> list[tuple[tuple[str, ...], dict[str, Value]]]:
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


def _figures(runs: FSCILRuns, name: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """Right of Figure 3: accuracy on base and on novel classes by layer, raw and rectified."""
    from embedbench.reports.curve_figures import Curve, curve_plot

    kinds = (
        [*(f"{n}-raw" for n in names), "prototype", ""],
        [*(f"{n}-recti" for n in names), "", "fr"],
    )
    places = [*names, FINAL, "ensemble"]
    figures = []
    for head, caption in LAST.items():
        each = [_by_layer(runs, name, variants, READ[head]) for variants in kinds]
        drawn = [Curve(values, style) for style, values in enumerate(each) if len(values)]
        if drawn:
            label = f"{runs.data[name].label}: {caption}"
            picture = curve_plot(drawn, float("nan"), 0, label, axis="", places=places)
            figures.append((caption, picture))
    return figures


def _legend() -> str:
    from embedbench.reports.learner_colours import glyph

    return f"{glyph(0)} raw, {glyph(1)} rectified"


def _by_layer(
    runs: FSCILRuns, name: str, variants: Sequence[str], read: Callable[[RunRecord], float]
) -> Floats:
    """(n, len(variants)) for the seeds that all variants have; NaN for "" and missing variants."""
    each = [{r.seed: read(r) for r in runs.of(name, v)} if v else {} for v in variants]
    seeds = [set(e) for e in each if e]
    common = sorted(set.intersection(*seeds)) if seeds else []
    return np.array([[e.get(s, np.nan) for e in each] for s in common], dtype=np.float64)


# --- what the paper says ---


@dataclass(frozen=True)
class Claim:
    """A statement of the paper about the difference of two variants.

    Parameters
    ----------
    statement : str
        The statement in words.
    printed : str
        The printed difference, or "–".
    variant : str
        The variant that the statement is about; "{}" stands for a layer.
    baseline : str
        The variant that is subtracted.
    number : str
        The name in `READ` of the compared number.
    holds : callable
        Whether the statement holds for a difference.
    """

    statement: str
    printed: str
    variant: str
    baseline: str
    number: str
    holds: Callable[[float], bool]


def _claims() -> tuple[Claim, ...]:
    """Return the paper's statements about layers, with the differences printed in Table 6."""
    gacc = [row["gacc"] for row in printed_rows("6")]
    raw, rectified, ensemble = gacc[:-1:2], gacc[1::2], gacc[-1]
    gains = [b - a for a, b in zip(raw, rectified, strict=True)]

    def more(gap: float) -> bool:
        return gap > 0

    def less(gap: float) -> bool:
        return gap < 0

    return (
        Claim(
            "raw, better on novel classes than the final embedding",
            printed="up to +15",
            variant="{}-raw",
            baseline="prototype",
            number="novel, last",
            holds=more,
        ),
        Claim(
            "raw, worse on base classes than the final embedding",
            printed="–",
            variant="{}-raw",
            baseline="prototype",
            number="base, last",
            holds=less,
        ),
        Claim(
            "FR raises gAcc",
            printed=_span(gains),
            variant="{}-recti",
            baseline="{}-raw",
            number="gAcc",
            holds=more,
        ),
        Claim(
            "the ensemble has a higher gAcc than this branch",
            printed=_span([ensemble - g for g in rectified]),
            variant="fr",
            baseline="{}-recti",
            number="gAcc",
            holds=more,
        ),
    )


def _span(gaps: Sequence[float]) -> str:
    return f"{min(gaps):+.2f} to {max(gaps):+.2f}".replace("-", "−")


def _statements(runs: FSCILRuns, name: str) -> PaperTable:
    title = f"What the paper says of layers, {runs.data[name].label}, points"
    heads = ("statement", "layer", "miniImageNet, the paper")
    table = PaperTable(f"Layers, statements · {name}", title, heads, ("measured", "holds"))
    for claim in _claims():
        for layer in runs.layers(name):
            pair = (claim.variant.format(layer), claim.baseline.format(layer))
            gaps = runs.gaps(name, *pair, READ[claim.number])
            labels = (claim.statement, layer, claim.printed)
            table.rows.append((labels, verdict(gaps, claim.holds)))
    table.notes += [
        "differences of runs of one seed, means over the seeds; they hold where the mean has the "
        "sign. Novel and base classes after the last session, as in the figures",
        *([] if table.rows else [NO_LAYERS]),
    ]
    return table
