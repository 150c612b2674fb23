"""Figures and Table S9 of Kemker et al. (2018)."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from embedbench.arrays import Floats
from embedbench.files.file import EmbeddingFile
from embedbench.papers.published import EXACT, PaperTable, Value, load_published
from embedbench.scores.stats import Stat

from .runs import LEARNERS, KemkerRuns


def table_s9(runs: KemkerRuns) -> PaperTable:
    """Table S9: number of features that are not redundant, and their share in percent."""
    from embedbench.files.redundancy import redundancy

    table = PaperTable("S9", "Non-redundant features (FCBF)", ("data",), ("features", "percent"))
    table.printed, table.units = runs.printed_labels(), {"features": "features", "percent": "%"}
    for row in load_published("kemker2018")["tables"]["S9"]:
        data = runs.data.get(row["data"])
        values = {
            "features": Value(row["kept"], None, 0, made=EXACT),
            "percent": Value(row["percent"], None, 1, made=EXACT),
        }
        if data:
            result, _ = redundancy(EmbeddingFile.open(data.file))
            kept, share = Stat.of([result["kept"]]), Stat.of([100 * result["share"]])
            values = {
                "features": Value(row["kept"], kept, 0, data.stands_in, made=EXACT),
                "percent": Value(row["percent"], share, 1, data.stands_in, made=EXACT),
            }
        table.rows.append(((runs.label((row["data"],)),), values))
    table.notes.append("ours: intervals by Fayyad and Irani's MDL criterion, δ = 0")
    return table


def figures(runs: KemkerRuns) -> PaperTable:
    """Figures 2, S2 and S3: accuracy by session on each data set."""
    from embedbench.reports.plots import Curve, curve_plot
    from embedbench.reports.styles import assign_styles, glyph

    styles = assign_styles((learner, learner) for learner in LEARNERS)
    table = PaperTable("Figures 2, S2, S3", "Figures 2, S2 and S3: accuracy by session", (), ())
    table.notes.append(
        ", ".join(f"{glyph(styles[learner])} {name}" for learner, name in LEARNERS.items())
        + "; dashed: the offline MLP"
    )
    pictures: list[tuple[str, str, Callable[[Floats, Floats], Floats], int]] = [
        ("incremental-class", "all classes so far (Figs. 2 and S3)", lambda _, pooled: pooled, 0),
        ("incremental-class", "the base set (Fig. S3)", lambda R, _: R[:, 0], 0),
        ("permutation", "the original data (Fig. S2)", lambda R, _: R[:, 0], 0),
        ("permutation", "the newest permutation (Fig. S2)", lambda R, _: np.diagonal(R), 0),
    ]
    for name, (protocol, what, part, first) in itertools.product(runs.data, pictures):
        curves, ideal = [], float("nan")
        for learner in LEARNERS:
            if (learner, protocol) == ("pathnet", "incremental-class"):
                continue
            records = runs.of((learner, protocol, (name,)))
            if not records:
                continue
            parts = [
                part(np.array(r.R, dtype=np.float64), np.array(r.pooled, dtype=np.float64))
                for r in records
            ]
            curves.append(Curve(np.stack(parts), styles[learner]))
            ideal = min(records[0].ideals, default=float("nan"))
        if curves:
            title = f"{runs.data[name].label}, {protocol}: {what}"
            table.figures.append((title, curve_plot(curves, ideal, first, title)))
    return table
