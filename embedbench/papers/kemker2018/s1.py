"""Figure S1: EWC on permuted MNIST, with and without the validation data of past sessions."""

from __future__ import annotations

import numpy as np

from embedbench.papers.published import PaperTable, Value
from embedbench.runs.cell import RunSpec
from embedbench.scores.run_record import RunRecord
from embedbench.scores.stats import Stat

from .runs import KemkerRuns

# Without a cap, λ = 10,000 runs for 85 or more epochs a session; five learn the first to 96 %.
COMMON = ("ewc.stop.epochs=5", "ewc.lam_decay=0.25")
CHOICES = {
    "λ = 0": ("ewc.lam=0",),
    "λ by the session's validation data": (),
    "λ by all sessions' validation data": ("ewc.past_validation=true",),
}
AFTER = (2, 5, 10)  # sessions learned


def s1_cells(runs: KemkerRuns, choice: str) -> list[RunSpec]:
    """The runs of one curve."""
    items = [*COMMON, *CHOICES[choice]]
    return runs.cells_on("ewc", "permutation", ["mnist"], items, preset=None)


def table_s1(runs: KemkerRuns) -> PaperTable:
    """Figure S1: mean test accuracy over all permutations learned so far."""
    from embedbench.reports.plots import Curve, curve_plot
    from embedbench.reports.styles import glyph

    heads = [f"after {n}" for n in AFTER]
    title, last = "Figure S1: EWC on permuted MNIST, percent", "λ in the end"
    table = PaperTable("Figure S1", title, ("λ",), [*heads, last], unit="%", units={last: "λ"})
    curves = []
    for style, choice in enumerate(CHOICES):
        records = runs.records(s1_cells(runs, choice)) if "mnist" in runs.data else []
        values = {head: Value(decimals=1) for head in heads}
        if records:
            pooled = np.array([r.by_score["accuracy"].pooled for r in records])  # (n, T)
            values = {
                head: Value(None, Stat.of(100 * pooled[:, n - 1]), 1)
                for head, n in zip(heads, AFTER, strict=True)
            }
            values[last] = Value(None, Stat.of(_last_lam(r) for r in records), 0)
            curves.append(Curve(pooled, style))
        table.rows.append(((choice,), values))
    if curves:
        title = "Permuted MNIST: mean over the permutations learned so far (Fig. S1)"
        table.figures.append((title, curve_plot(curves, float("nan"), 0, title)))
    marks = ", ".join(f"{glyph(i)} {choice}" for i, choice in enumerate(CHOICES))
    table.notes += [
        marks,
        "the paper's figure has no numbers to print beside ours; λ falls from 10,000 by quarters: "
        "until a new session is learned four fifths as well as without a penalty, or, with past "
        "validation data, to the best mean over all sessions so far; at most 5 epochs a session",
    ]
    return table


def _last_lam(record: RunRecord) -> float:
    return float(record.sessions[-1].log["lam"])
