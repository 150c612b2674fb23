"""Figures of the HTML pages as inline SVG; only `save_map` writes a file.

matplotlib is imported only here and in `svg`, without pyplot: a figure is drawn, turned into text,
and dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from embedbench.arrays import Floats
from embedbench.disk import writing
from embedbench.scores.stats import t_quantile

from .svg import BLANK, HUES, INK, LINE, SOFT, STYLE, colour, svg

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "p", "h")
GLYPHS = ("●", "■", "▲", "◆", "▼", "✚", "✖", "★", "⬟", "⬢")  # the markers as text
COLOUR_MAP = "viridis"  # perceptually uniform, also for colour-blind readers
NUMBERED = 11  # up to this number of sessions the cells of a matrix show their values


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


def hue(style: int) -> int:
    """Index of the CSS colour of a style; colours repeat after ten learners."""
    return style % HUES


def glyph(style: int) -> str:
    """The marker of a style as a character."""
    return GLYPHS[style % len(GLYPHS)]


def curve_plot(
    curves: Sequence[Curve],
    ideal: float,
    first: int,
    label: str,
    *,
    axis: str = "after session",
    tight: bool = False,
    unit: str = "%",
    deviations: bool = False,
    places: Sequence[str] = (),
) -> str:
    """Means over runs with bands of the 95 % t-interval; α_ideal dashed, chance dotted.

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
    tight : bool
        Whether the scale ends at the largest value instead of at 100 %.
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
            _draw_curve(axes, curve, first, 100.0 if unit == "%" else np.inf, deviations)
        if not np.isnan(ideal):
            axes.axhline(scale * ideal, color=INK, linewidth=1, dashes=(5, 3), zorder=1)
        lowest = min(float(np.nanmin(c.values, initial=0)) for c in curves)
        free = tight or unit != "%"
        axes.set_ylim(lowest - 0.02 * scale if lowest < 0 else 0, None if free else 102)
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


def _draw_curve(axes: Axes, curve: Curve, first: int, top: float, deviations: bool) -> None:
    values = curve.values
    n, sessions = values.shape
    x = _across(curve, first)
    mean = values.mean(axis=0)
    if curve.style is None:
        axes.plot(x, mean, color=SOFT, linewidth=1.2, linestyle=(0, (1, 2)), zorder=1)
        return
    ink = colour(curve.style)
    if n > 1:
        half = values.std(axis=0, ddof=1) * (1 if deviations else t_quantile(n) / np.sqrt(n))
        low, high = np.clip(mean - half, 0, top), np.clip(mean + half, 0, top)
        axes.fill_between(x, low, high, color=ink, alpha=0.11, linewidth=0)
    every = max(1, sessions // 8)
    axes.plot(
        x,
        mean,
        color=ink,
        linewidth=1.6,
        marker=MARKERS[curve.style % len(MARKERS)],
        markersize=4 if sessions <= 40 else 3.5,
        markeredgewidth=0,
        markevery=(curve.style % every, every),
        solid_joinstyle="round",
    )


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


def heat_map(
    matrix: Floats,
    label: str,
    *,
    axes_names: tuple[str, str] = ("after session i", "on session j"),
    numbers: bool = True,
) -> str:
    """R[i, j] from 0 to 100 %: rows after session i, columns eval set j; NaN grey.

    Small matrices show the numbers in the cells, unless `numbers` is False. For other matrices with
    values from 0 to 1, `axes_names` names rows and columns.
    """
    rows, columns = matrix.shape
    with matplotlib.rc_context({**STYLE, "axes.spines.left": False, "axes.spines.bottom": False}):
        side = 3.4
        figure = Figure(figsize=(side, side * min(1.0, max(0.35, rows / columns))))
        figure.set_layout_engine("constrained")
        axes = figure.add_subplot()
        _show(axes, matrix, axes_names)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(6, integer=True))
        axes.set_xlim(-0.5, columns - 0.5)
        axes.set_ylim(rows - 0.5, -0.5)
        if numbers and max(rows, columns) <= NUMBERED:
            _write_numbers(axes, matrix, matplotlib.colormaps[COLOUR_MAP])
        return svg(figure, label)


def named_map(matrix: Floats, names: Sequence[str], label: str, axes_names: tuple[str, str]) -> str:
    """A square matrix from 0 to 1 with the names of its rows and columns; NaN grey."""
    with matplotlib.rc_context({**STYLE, "axes.spines.left": False, "axes.spines.bottom": False}):
        side = 1.8 + 0.15 * len(names)
        figure = Figure(figsize=(side, side), layout="constrained")
        axes = figure.add_subplot()
        _show(axes, matrix, axes_names)
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=8)
        axes.set_yticks(range(len(names)), names, fontsize=8)
        return svg(figure, label)


def _show(axes: Axes, matrix: Floats, axes_names: tuple[str, str]) -> None:
    """Draw values from 0 to 1 as colours, NaN grey; `axes_names` names rows and columns."""
    axes.set_facecolor(BLANK)
    colours = matplotlib.colormaps[COLOUR_MAP]
    axes.imshow(np.ma.masked_invalid(matrix), cmap=colours, vmin=0, vmax=1, interpolation="none")
    axes.set_ylabel(axes_names[0])
    axes.set_xlabel(axes_names[1])
    axes.tick_params(length=0)


def rank_plot(
    names: Sequence[str], ranks: Sequence[float], groups: Sequence[Sequence[int]], label: str
) -> str:
    """Average ranks on one axis, 1 on the left; a bar joins learners that cannot be told apart.

    Parameters
    ----------
    groups : sequence of sequence of int
        Positions of the learners in each group.
    label : str
        A description of the figure for screen readers.
    """
    by_rank = sorted(range(len(names)), key=lambda i: ranks[i])
    left = by_rank[: (len(names) + 1) // 2]
    bars = [g for g in groups if len(g) > 1]
    first = 0.5 * len(bars) + 0.7  # y position of the first name, below axis and bars
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 0.7 + 0.24 * (2 * first + len(left))))
        axes = figure.add_axes((0.22, 0.03, 0.56, 0.85))
        low, high = 1.0, max(2.0, float(len(names)))
        axes.set_xlim(low, high)
        axes.set_ylim(first + len(left), 0)
        axes.xaxis.set_ticks_position("top")
        axes.xaxis.set_major_locator(MaxNLocator(min(len(names), 10), integer=True))
        axes.set_yticks([])
        for side in ("left", "bottom"):
            axes.spines[side].set_visible(False)
        axes.spines["top"].set_visible(True)
        for edge, members in ((low, left), (high, by_rank[len(left) :][::-1])):
            for row, i in enumerate(members):
                y = first + row
                axes.plot([ranks[i], ranks[i], edge], [0, y, y], color=LINE, linewidth=0.9)
                align = "right" if edge == low else "left"
                axes.text(edge, y, f"  {names[i]}  ", ha=align, va="center", color=INK)
        for row, tied in enumerate(bars):
            ends = [min(ranks[i] for i in tied), max(ranks[i] for i in tied)]
            reach = 0.03 * (high - low) / 2
            y = 0.5 * (row + 1)
            axes.plot([ends[0] - reach, ends[1] + reach], [y, y], color=INK, linewidth=3)
        for artist in axes.lines:
            artist.set_clip_on(False)
        return svg(figure, label)


def save_map(matrix: Floats, path: Path, axis: str, value: str) -> None:
    """Write a square matrix of values from 0 to 1 as a PNG with a colour scale.

    Parameters
    ----------
    axis, value : str
        The label of both axes, and the label of the colour scale.
    """
    figure = Figure(figsize=(7, 6), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(matrix, cmap=matplotlib.colormaps[COLOUR_MAP], vmin=0, vmax=1)
    axes.set_xlabel(axis)
    axes.set_ylabel(axis)
    figure.colorbar(image, label=value)
    with writing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=200)


def _write_numbers(axes: Axes, matrix: Floats, colours: Colormap) -> None:
    size = 13 if len(matrix) <= 4 else 11 if len(matrix) <= 7 else 8.5
    for (i, j), value in np.ndenumerate(matrix):
        if not np.isnan(value):
            bright = np.dot(colours(float(value))[:3], (0.3, 0.59, 0.11)) > 0.5
            ink = "#111111" if bright else "#ffffff"
            text = f"{100 * value:.0f}"
            axes.text(j, i, text, ha="center", va="center", fontsize=size, color=ink)


def colour_scale(steps: int = 9) -> list[str]:
    """Colours of the heat maps from 0 to 100 %, as CSS."""
    colours = matplotlib.colormaps[COLOUR_MAP]
    return [matplotlib.colors.to_hex(colours(i / (steps - 1))) for i in range(steps)]
