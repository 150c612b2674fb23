"""Figures with a name beside everything: matrices, Ω, ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, MultipleLocator

from embedbench.errors import UserError

from .compare_learners import studies
from .comparison_results import Ranking, compare
from .curve_figures import metric_name, score_name, stack_runs
from .figure_files import SMALL, words
from .heatmap import COLOUR_MAP, write_numbers
from .inline_svg import BLANK, INK, LINE, SOFT, colour, look
from .learner_colours import styles_in
from .result_rows import Row

LINE_HEIGHT = 0.135  # inches, of a line of text
TIES = ("dots on one bar: cannot be told apart at 5 %", "(paired t-tests, Holm’s correction)")
OMEGAS = ("omega_base", "omega_new", "omega_all", "omega_streaming")


def matrix(rows: Sequence[Row], width: float) -> Figure:
    """R[i, j] of each learner, the mean over its runs; NaN is grey.

    Cells have their numbers where there is room for them.

    Parameters
    ----------
    rows : sequence of Row
        The rows of one table.
    width : float
        Inches.
    """
    drawn = [row for row in rows if row.used and row.learns]
    most = (3 if len(drawn) <= 12 else 4) * round(width / 3.25)
    down = -(-len(drawn) // most)
    across = -(-len(drawn) // down)
    means = [stack_runs(row, "R").mean(axis=0) for row in drawn]
    high, wide = means[0].shape
    side = min((width - 0.8) / across, 1.6)
    names = [words(row.label, max(8, int(15 * side))) for row in drawn]
    lines = max(name.count("\n") + 1 for name in names)
    cell = side * min(1.0, max(0.3, high / wide))
    figure = Figure(figsize=(width, down * (cell + 0.13 * lines) + 0.5), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).ravel()
    for axes, name, values in zip(panels, names, means, strict=False):
        axes.set_facecolor(BLANK)
        image = axes.imshow(
            np.ma.masked_invalid(100 * values), vmin=0, vmax=100,
            cmap=matplotlib.colormaps[COLOUR_MAP], interpolation="none", aspect="auto",
        )  # fmt: skip
        axes.set_title(name, pad=3)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_xticks(range(0, wide, -(-wide // max(2, min(5, int(side / 0.2))))))
        axes.set_yticks(range(0, high, -(-high // 5)))
        if side / wide > 0.16:
            write_numbers(axes, values, size=min(7.0, 26 * side / wide))
    for axes in panels[len(drawn) :]:
        axes.set_visible(False)
    for axes in panels[len(drawn) - across : len(drawn)]:  # the lowest of each column
        axes.tick_params(labelbottom=True)
    figure.supxlabel("on session j", fontsize="medium")
    figure.supylabel("after session i", fontsize="medium")
    figure.colorbar(
        image, ax=panels.tolist(), label=score_name(rows[0].group, brief=True), aspect=30
    )
    return figure


def omega(rows: Sequence[Row], width: float) -> Figure:
    """Ω of each learner as bars, with 95 % intervals over its runs; the offline reference is 1.

    Parameters
    ----------
    rows : sequence of Row
        The rows of one table.
    width : float
        Inches.

    Raises
    ------
    UserError
        No run has Ω.
    """
    drawn = [row for row in rows if row.used and row.learns]
    defined = {n for row in drawn for n, s in row.metrics.items() if not math.isnan(s.mean)}
    shown = [name for name in OMEGAS if name in defined]
    if not shown:
        raise UserError("Ω is undefined in every run; the command that made them makes references")
    names = [words(row.label, 18 if width < 4 else 34) for row in drawn]
    places = _places(names)
    figure = Figure(figsize=(width, 0.55 + LINE_HEIGHT * places[-1]), layout="constrained")
    panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    styles = styles_in(rows)
    for axes, name in zip(panels, shown, strict=True):
        for row, place in zip(drawn, places, strict=True):
            _bar(axes, row, name, place, colour(styles[row.label]))
        ends = [patch.get_width() for patch in axes.patches] + [1.0]
        paths = [path for bars in axes.collections for path in bars.get_paths()]
        ends += [x for path in paths for x, _ in np.asarray(path.vertices)]
        axes.axvline(1, color=INK, linewidth=0.8, dashes=(5, 3), zorder=1)
        axes.set_xlim(0, 1.04 * max(ends))
        axes.set_ylim(places[-1] + 1, places[0] - 1)
        axes.set_yticks(places, names)
        axes.xaxis.set_major_locator(MultipleLocator(0.5) if max(ends) < 2.5 else MaxNLocator(4))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(metric_name(name))
        axes.tick_params(axis="y", labelcolor=INK)
    return figure


def _bar(axes: Axes, row: Row, metric: str, place: float, ink: str) -> None:
    """The mean of a metric and its interval; a word where it is undefined."""
    stat = row.metrics.get(metric)
    if stat is None or math.isnan(stat.mean):
        text = "open" if stat is not None and row.is_open(metric) else "–"
        axes.text(0.02, place, text, va="center", color=SOFT, fontsize=SMALL)
        return
    axes.barh(place, stat.mean, height=0.9, color=ink, zorder=2)
    if not math.isnan(stat.half):
        axes.errorbar(
            stat.mean, place, xerr=stat.half, color=INK, elinewidth=0.8, capsize=1.5, zorder=3
        )


def _places(names: Sequence[str]) -> list[float]:
    """The middle of each name where they are written below each other, in lines."""
    sizes = np.array([name.count("\n") + 1.3 for name in names])
    places: list[float] = (np.cumsum(sizes) - sizes / 2).tolist()
    return places


def ranks(rows: Sequence[Row], width: float, metric: str) -> Figure:
    """The critical-difference diagram: average ranks, 1 on the left; a bar joins a group of ties.

    Two learners have a dot on one bar if and only if they cannot be told apart.

    **Source**: Demšar (2006), Figure 1. **Departs**: ties are those of `report --compare`, from
    paired t-tests with Holm's correction, so there is no critical difference to draw; and since
    such ties need not be neighbours by rank, dots say which learners a bar joins.

    Parameters
    ----------
    rows : sequence of Row
        The rows of one study; its streams may differ in the class order.
    width : float
        Inches.
    metric : str
        The metric that ranks.

    Raises
    ------
    UserError
        There are several studies, one learner, or no order and seed that every learner ran.
    """
    every = studies(rows, metric)
    if len(every) > 1:
        titles = "; ".join(study.title for study in every)
        raise UserError(f"--figure ranks draws one study, and there are {len(every)}: {titles}")
    result = compare(every[0])
    if any(math.isnan(entry.average_rank) for entry in result.learners):
        raise UserError(
            "--figure ranks needs an order and a seed that every learner ran, and there is none; "
            "run the missing ones, or see report --compare"
        )
    return diagram(result, styles_in(rows), width)


def diagram(result: Ranking, styles: dict[str, int], width: float) -> Figure:
    entries = sorted(result.learners, key=lambda entry: entry.average_rank)
    rank = {entry.learner: entry.average_rank for entry in entries}
    names = {label: words(label, int(5.5 * width)) for label in rank}
    left = list(rank)[: (len(rank) + 1) // 2]
    right = list(rank)[len(left) :][::-1]
    ties = [group for group in result.groups if len(group) > 1]
    first = 0.6 * len(ties) + 0.7  # where names begin, in lines, below axis and bars
    heights = [_places([names[label] for label in side]) for side in (left, right) if side]
    below = len(TIES) + 0.5 if ties else 0
    lines = first + max(places[-1] for places in heights) + 1 + below
    tall = LINE_HEIGHT * lines + 0.38
    figure = Figure(figsize=(width, tall))
    margins = [_widest(figure, [names[label] for label in side]) for side in (left, right)]
    axes = figure.add_axes((margins[0], 0, 1 - sum(margins), LINE_HEIGHT * lines / tall))
    low, high = 1.0, max(2.0, float(len(rank)))
    axes.set(xlim=(low, high), ylim=(lines, 0), yticks=[])
    axes.set_xlabel(f"average rank by {result.metric.replace('_', ' ')}")
    axes.xaxis.set_ticks_position("top")
    axes.xaxis.set_label_position("top")
    axes.xaxis.set_major_locator(MaxNLocator(min(len(rank), 8), integer=True))
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.spines["top"].set_visible(True)
    for side, edge, places in zip((left, right), (low, high), heights, strict=False):
        for label, place in zip(side, places, strict=True):
            y = first + place
            axes.plot([rank[label]] * 2 + [edge], [0, y, y], color=LINE, linewidth=0.7)
            axes.plot([rank[label]], [0], **look(styles[label]), zorder=3)
            align = "right" if edge == low else "left"
            axes.annotate(
                names[label], (edge, y), (-3 if edge == low else 3, 0),
                textcoords="offset points", ha=align, va="center", multialignment=align,
            )  # fmt: skip
    reach = 0.012 * (high - low)
    for line, group in enumerate(ties):
        within = [rank[label] for label in group]
        ends = [min(within) - reach, max(within) + reach]
        y = 0.6 * (line + 1)
        axes.plot(ends, [y] * 2, color=INK, linewidth=2.2, solid_capstyle="butt")
        axes.plot(within, [y] * len(group), color=INK, linestyle="none", marker="o", markersize=4.6)
    if ties:
        figure.text(
            0.5, 0.01, "\n".join(TIES), color=SOFT, fontsize=SMALL, ha="center", va="bottom"
        )
    for artist in axes.lines:
        artist.set_clip_on(False)
    return figure


def _widest(figure: Figure, names: Sequence[str]) -> float:
    """The part of a figure's width that the widest of some names takes."""
    most = 0.0
    for name in names:
        text = figure.text(0, 0, f"{name} m")
        most = max(most, text.get_window_extent().width)
        text.remove()
    return most / figure.bbox.width
