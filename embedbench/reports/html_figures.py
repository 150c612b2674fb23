"""The figures of an HTML report: accuracy against cost, and over sessions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from embedbench.arrays import Floats
from embedbench.scores.run_record import Moments, RunRecord

from .answer_tables import CURVES
from .curve_figures import cost_plot, row_costs, row_scores, stack_runs
from .result_rows import Group, Row
from .svg_charts import Curve, curve_plot

RESCALED = (("raa", "RAA: against guessing"), ("raf", "RAF: forgetting against guessing"))


def with_final_score(drawn: Sequence[Row]) -> list[Row]:
    """The learners among rows that have a final score."""
    return [r for r in drawn if r.learns and not math.isnan(r.metrics["final_accuracy"].mean)]


def trade_off_figures(drawn: Sequence[Row], styles: Mapping[str, int]) -> list[tuple[str, str]]:
    """Titles and SVGs of the final score against memory and against seconds of learning.

    A cost that no run says has no figure.

    Parameters
    ----------
    drawn : sequence of Row
        The rows of one table with runs that count.
    styles : mapping
        Label → style.
    """
    learners = with_final_score(drawn)
    if len(learners) < 2:
        return []
    scores = row_scores(learners, "final_accuracy")
    return [
        (title, cost_plot(title, costs, scores, learners, styles))
        for title, costs in row_costs(learners).items()
    ]


def curve_figures(
    group: Group, drawn: Sequence[Row], styles: Mapping[str, int]
) -> list[tuple[str, str]]:
    """Titles and SVGs of the accuracy curves; those of Ω_base and Ω_new where R is square.

    Parameters
    ----------
    group : Group
        A table.
    drawn : sequence of Row
        Its rows with runs that count.
    styles : mapping
        Label → style.
    """
    if group.sessions < 2 or not drawn:
        return []
    base_ideal, *others = group.ideals or [math.nan]
    ideal = math.nan if others else base_ideal  # the α_ideal of all sessions together
    pooled = [(stack_runs(r, "pooled"), styles.get(r.label)) for r in drawn]
    plots = [("All sessions so far", pooled, ideal, 0)]
    matrices = [(stack_runs(r, "R"), styles.get(r.label)) for r in drawn]
    if all(m.shape[1] == m.shape[2] for m, _ in matrices):
        base = [(m[:, :, 0], s) for m, s in matrices]
        new = [(np.diagonal(m, axis1=1, axis2=2)[:, 1:], s) for m, s in matrices]
        shared = ideal if group.first.reference.normalise_new else math.nan
        plots += [("Session 0", base, base_ideal, 0), ("The newest session", new, shared, 1)]
    for key, title in (*RESCALED, *CURVES):
        if all(key in (r.curves or {}) for row in drawn for r in row.records):
            values = [np.array([(r.curves or {})[key] for r in row.used]) for row in drawn]
            if not all(np.isnan(v).all() for v in values):  # defined on this stream
                curves = [(v, styles.get(r.label)) for v, r in zip(values, drawn, strict=True)]
                plots.append((title, curves, math.nan, 0))
    return [
        (title, curve_plot([Curve(v, s) for v, s in curves], level, first, f"{title}: accuracy"))
        for title, curves, level, first in plots
    ]


# The figure of accuracy by samples, for runs that were also evaluated within sessions.


def by_samples(rows: Sequence[Row], styles: Mapping[str, int]) -> list[tuple[str, str]]:
    """Title and SVG of the score on all sessions so far, against training samples seen.

    There is no figure unless some run was evaluated within sessions. Rows of older records, which
    have no moments, are not drawn.

    Parameters
    ----------
    rows : sequence of Row
        Rows of one table.
    styles : mapping
        Label → index of its colour and marker.
    """
    from .svg_charts import Curve, curve_plot

    drawn = [row for row in rows if row.used and all(r.moments for r in row.used)]
    if not any(_is_often(r) for row in drawn for r in row.used):
        return []
    curves = []
    for row in drawn:
        moments = [r.moments for r in row.used if r.moments]
        curves.append(Curve(_aligned(moments), styles.get(row.label), _samples(moments)))
    title = "All sessions so far, by samples"
    return [(title, curve_plot(curves, np.nan, 0, f"{title}: accuracy"))]


def _is_often(record: RunRecord) -> bool:
    """Whether a run was evaluated within sessions."""
    return record.moments is not None and len(record.moments.pooled) > len(record.pooled)


def _samples(moments: Sequence[Moments]) -> Floats:
    """(M,) training samples seen at each moment of the first run."""
    return np.array(moments[0].samples_seen, dtype=np.float64)


def _aligned(moments: Sequence[Moments]) -> Floats:
    """(n, M) scores of the runs at the moments of the first run.

    With another class order, sessions have other sizes and end at other moments. So a run's score
    is interpolated between its moments; before its first moment it is NaN.
    """
    at = _samples(moments)
    scores = [(m.samples_seen, np.array(m.pooled, dtype=np.float64)) for m in moments]
    return np.stack([np.interp(at, samples, values, left=np.nan) for samples, values in scores])
