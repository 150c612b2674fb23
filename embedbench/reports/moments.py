"""The figure of accuracy by samples, for runs that were also evaluated within sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from embedbench.arrays import Floats
from embedbench.scores.run_record import Moments, RunRecord

from .rows import Row


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
    from .plots import Curve, curve_plot

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
