"""The figure of runs that were evaluated between the ends of sessions too: accuracy by samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from embedbench.arrays import Floats
from embedbench.scores.record import Record

from .rows import Row


def by_samples(rows: Sequence[Row], styles: Mapping[str, int]) -> list[tuple[str, str]]:
    """Title and SVG of the score on all sessions so far against training samples seen.

    There is none unless some run has moments between the ends of sessions. Rows of older records,
    which keep no moments, are not drawn.

    Parameters
    ----------
    rows : of one table
    styles : label → number of its colour and marker
    """
    from .plots import Curve, curve_plot

    shown = [row for row in rows if row.used and all("moments" in r for r in row.used)]
    often = any(len(r["moments"]["pooled"]) > len(r["pooled"]) for row in shown for r in row.used)
    if not often:
        return []
    curves = [Curve(_aligned(row.used), styles.get(row.label), _samples(row.used)) for row in shown]
    title = "All sessions so far, by samples"
    return [(title, curve_plot(curves, np.nan, 0, f"{title}: accuracy"))]


def _samples(runs: Sequence[Record]) -> Floats:
    """(M,) training samples seen at the moments of the first run."""
    return np.array(runs[0]["moments"]["samples_seen"], dtype=np.float64)


def _aligned(runs: Sequence[Record]) -> Floats:
    """(n, M) scores of the runs at the moments of the first one.

    Another class order has sessions of other sizes, and so moments elsewhere: the score is read off
    the straight line between two of its own. NaN before its first.
    """
    at = _samples(runs)
    moments = [r["moments"] for r in runs]
    scores = [(m["samples_seen"], np.array(m["pooled"], dtype=np.float64)) for m in moments]
    return np.stack([np.interp(at, samples, values, left=np.nan) for samples, values in scores])
