"""Curves and bars of the HTML pages as inline SVG.

matplotlib is used without pyplot: a figure is drawn, turned into text, and dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from embedbench.arrays import Floats
from embedbench.scores.mean_intervals import t_quantile

from .figure_files import fit
from .inline_svg import INK, SOFT, STYLE, colour, look, svg

LEAST = 5  # runs of a band


@dataclass(frozen=True)
class Curve:
    """Scores of one learner, session by session or by training samples.

    Parameters
    ----------
    values : array of float
        (n, T) fractions, one row per run; NaN where undefined.
    style : int or None
        Index of its colour and marker; None for the chance level (dotted).
    samples : array of float or None
        (T,) training samples seen at each column; None where columns are sessions.
    """

    values: Floats
    style: int | None
    samples: Floats | None = None


def curve_plot(
    curves: Sequence[Curve],
    ideal: float,
    first: int,
    label: str,
    *,
    axis: str = "after session",
    unit: str = "%",
    deviations: bool = False,
    places: Sequence[str] = (),
) -> str:
    """Means over runs, see `draw_curve`; α_ideal dashed, chance dotted.

    The y axis fits the values.

    Parameters
    ----------
    ideal : float
        α_ideal as a fraction; NaN draws no line.
    first : int
        The session of the first column of values.
    label : str
        A description of the figure for screen readers.
    axis : str
        The label of the x axis.
    unit : str
        "%"; with another unit the values are not fractions and are drawn unchanged.
    deviations : bool
        Draw bands of the standard deviation over runs instead.
    places : sequence of str
        Names of the columns, if these are not sessions.
    """
    scale = 100.0 if unit == "%" else 1.0
    curves = [replace(c, values=scale * c.values) for c in curves]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.4, 3.0), layout="constrained")
        axes = figure.add_subplot()
        for curve in curves:
            draw_curve(axes, curve, first, 100.0 if unit == "%" else np.inf, deviations=deviations)
        if not np.isnan(ideal):
            axes.axhline(scale * ideal, color=INK, linewidth=1, dashes=(5, 3), zorder=1)
        fit_to(axes, 100 if unit == "%" else np.inf)
        last = max(_across(c, first)[-1] for c in curves)
        axes.set_xlim(-0.02 * last, 1.02 * last)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        if places:
            axes.set_xticks(range(first, first + len(places)), places, rotation=30, ha="right")
        axes.grid(axis="y")
        by_session = all(c.samples is None for c in curves)
        axes.set_xlabel(axis if by_session else "training samples seen")
        axes.set_ylabel(unit, rotation=0, loc="top", va="top")  # "bottom" would be cut off
        axes.spines["left"].set_visible(False)
        axes.set_axisbelow(True)
        return svg(figure, label)


def _across(curve: Curve, first: int) -> Floats:
    """(T,) positions of a curve's columns along the x axis."""
    if curve.samples is not None:
        return curve.samples
    return np.arange(first, first + curve.values.shape[1], dtype=np.float64)


def draw_curve(
    axes: Axes,
    curve: Curve,
    first: int,
    top: float,
    *,
    deviations: bool = False,
    alpha: float = 0.11,
) -> Line2D:
    """Draw the mean of a curve over its runs, and how far they lie apart.

    That is a band of the 95 % t-interval, or of the standard deviation, between 0 and `top`; of
    fewer than `LEAST` runs, whose interval says little, the runs themselves.
    """
    values = curve.values
    n, sessions = values.shape
    x = _across(curve, first)
    mean = values.mean(axis=0)
    if curve.style is None:
        (line,) = axes.plot(x, mean, color=SOFT, linewidth=1.2, linestyle=(0, (1, 2)), zorder=1)
        return line
    ink = colour(curve.style)
    if 1 < n < LEAST and not deviations:
        axes.plot(x, values.T, color=ink, linewidth=0.6, alpha=0.5)
    elif n > 1:
        half = values.std(axis=0, ddof=1) * (1 if deviations else t_quantile(n) / np.sqrt(n))
        low, high = np.clip(mean - half, 0, top), np.clip(mean + half, 0, top)
        axes.fill_between(x, low, high, color=ink, alpha=alpha, linewidth=0)
    every = max(1, -(-sessions // 6))
    (line,) = axes.plot(
        x,
        mean,
        **look(curve.style),
        markevery=(curve.style % every, every),
        solid_joinstyle="round",
    )
    return line


def fit_to(axes: Axes, most: float) -> None:
    """Let the y axis end at the lines and bands that were drawn; never under 0 or over `most`."""
    values = [np.asarray(line.get_ydata(), dtype=np.float64) for line in axes.lines]
    paths = [path for bands in axes.collections for path in bands.get_paths()]
    every = np.concatenate([*values, *(np.asarray(p.vertices)[:, 1] for p in paths), [np.nan]])
    fit(axes, float(np.nanmin(every)), float(np.nanmax(every)), most)


def class_bars(
    values: Sequence[float], styles: Sequence[int], cuts: Sequence[int], label: str
) -> str:
    """One bar per class, fractions in the colours of `styles`; dashed lines before bars `cuts`."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8.8, 2.4), layout="constrained")
        axes = figure.add_subplot()
        heights = 100 * np.asarray(values)
        axes.bar(np.arange(len(heights)), heights, color=[colour(s) for s in styles])
        for cut in cuts:
            axes.axvline(cut - 0.5, color=SOFT, linewidth=0.8, dashes=(4, 3))
        axes.set_ylim(0, 102)
        axes.set_xlim(-0.6, len(heights) - 0.4)
        axes.set_xticks([])
        axes.set_xlabel("classes")
        axes.set_ylabel("%", rotation=0, loc="top")
        return svg(figure, label)
