"""Figures with a name beside everything: matrices, Ω, ranks."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, MultipleLocator

from embedbench.array_types import Floats
from embedbench.errors import UserError

from .compare_learners import studies
from .comparison_results import Ranking, compare
from .cost_figures import metric_name
from .curve_figures import score_name, stack_runs
from .figure_files import OFFLINE, SMALL, STYLE, words
from .inline_svg import svg
from .learner_colours import BLANK, INK, LINE, SOFT, colour, look
from .result_rows import Row

COLOUR_MAP = matplotlib.colormaps["viridis"]  # perceptually uniform, also for colour-blind readers
LINE_HEIGHT = 0.135  # inches, of a line of text
RANGES = "mark: rank of the mean\nbar: ranks left open at 5 % a row"
OMEGAS = ("omega_base", "omega_new", "omega_all", "omega_streaming")
R_AXES = ("after session i", "on session j")


def heat_map(matrix: Floats, label: str, width: float = 2.6, **more: Any) -> str:
    """The figure of `draw_maps` of one matrix on a page; `label` describes it."""
    return svg(draw_maps({"": matrix}, width, **more), label)


def colour_scale(steps: int = 9) -> list[str]:
    """Colours of the heat maps from 0 to 100 %, as CSS."""
    return [matplotlib.colors.to_hex(COLOUR_MAP(i / (steps - 1))) for i in range(steps)]


def matrix(rows: Sequence[Row], width: float) -> Figure:
    """R[i, j] of each learner among the rows of one table, the mean over its runs."""
    drawn = [row for row in rows if row.used and row.learns]
    means = {row.label: stack_runs(row, "R").mean(axis=0) for row in drawn}
    return draw_maps(means, width, scale=score_name(rows[0].group, brief=True))


@rc_context(STYLE)
def draw_maps(
    maps: Mapping[str, Floats],
    width: float,
    *,
    axes_names: tuple[str, str] = R_AXES,
    names: Sequence[str] = (),
    numbers: bool = True,
    scale: str = "",
) -> Figure:
    """Matrices of one shape with values from 0 to 1 as colours; NaN is grey.

    Parameters
    ----------
    axes_names : (str, str)
        What rows and columns are.
    names : sequence of str
        Names of the rows and columns; empty: they are numbered from 0.
    numbers : bool
        Whether cells have their numbers where there is room for them.
    scale : str
        The label of the scale of the colours; empty: no scale.
    """
    most = (3 if len(maps) <= 12 else 4) * max(1, round(width / 3.25))
    down = -(-len(maps) // most)
    across = -(-len(maps) // down)
    high, wide = next(iter(maps.values())).shape
    side = min((width - (0.8 if scale else 0.45)) / across, 1.6 if across > 1 else width)
    titles = [words(title, max(8, int(15 * side))) for title in maps]
    lines = max(title.count("\n") + 1 for title in titles) * any(titles)
    cell = side * min(1.0, max(0.3, high / wide))
    figure = Figure(figsize=(width, down * (cell + 0.13 * lines) + 0.5), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).ravel()
    for axes, title, values in zip(panels, titles, maps.values(), strict=False):
        axes.set_facecolor(BLANK)
        image = axes.imshow(
            np.ma.masked_invalid(100 * values), vmin=0, vmax=100,
            cmap=COLOUR_MAP, aspect="auto", interpolation="none" if wide <= 256 else "auto",
        )  # fmt: skip
        axes.set_title(title, pad=3)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.xaxis.set_major_locator(MaxNLocator(max(2, min(5, int(side / 0.2))), integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        if names:
            axes.set_xticks(range(wide), names, rotation=90, fontsize=6)
            axes.set_yticks(range(high), names, fontsize=6)
        if numbers and side / wide > 0.16:
            _write_numbers(axes, values, min(8.0, 26 * side / wide))
    for axes in panels[len(maps) :]:
        axes.set_visible(False)
    for axes in panels[len(maps) - across : len(maps)]:  # the lowest of each column
        axes.tick_params(labelbottom=True)
    figure.supylabel(axes_names[0], fontsize="medium")
    figure.supxlabel(axes_names[1], fontsize="medium")
    if scale:
        figure.colorbar(image, ax=panels.tolist(), label=scale, aspect=30)
    return figure


def _write_numbers(axes: Axes, values: Floats, size: float) -> None:
    """Write the values of a matrix from 0 to 1 into its cells, as percent; size in points."""
    for (i, j), value in np.ndenumerate(values):
        if not np.isnan(value):
            bright = np.dot(COLOUR_MAP(float(value))[:3], (0.3, 0.59, 0.11))
            ink = "#111111" if bright > 0.5 else "#ffffff"
            text = f"{100 * value:.0f}"
            axes.text(j, i, text, ha="center", va="center", fontsize=size, color=ink)


@rc_context(STYLE)
def omega(rows: Sequence[Row], styles: Mapping[str, int], width: float) -> Figure:
    """Ω of each learner as bars, with 95 % intervals over its runs; the offline reference is 1.

    Raises
    ------
    UserError
        No run has Ω.
    """
    drawn = [row for row in rows if row.used and row.learns]
    defined = {n for row in drawn for n, s in row.metrics.items() if not math.isnan(s.mean)}
    metrics = [name for name in OMEGAS if name in defined]
    if not metrics:
        raise UserError("Ω is undefined in every run; the command that made them makes references")
    figure, panels, places = _lines([row.label for row in drawn], width, 0.55, len(metrics))
    for axes, name in zip(panels, metrics, strict=True):
        ends = [1.0]
        for row, place in zip(drawn, places, strict=True):
            stat = row.metrics.get(name)
            if stat is None or math.isnan(stat.mean):
                text = "open" if stat is not None and row.is_open(name) else "–"
                axes.text(0.02, place, text, va="center", color=SOFT, fontsize=SMALL)
                continue
            axes.barh(place, stat.mean, height=0.9, color=colour(styles[row.label]), zorder=2)
            bar: Any = {"color": INK, "elinewidth": 0.8, "capsize": 1.5, "zorder": 3}
            if not math.isnan(stat.half):
                axes.errorbar(stat.mean, place, xerr=stat.half, **bar)
            ends += [stat.mean, np.nansum([stat.mean, stat.half])]
        axes.axvline(1, **OFFLINE)
        axes.set_xlim(0, 1.04 * max(ends))
        axes.xaxis.set_major_locator(MultipleLocator(0.5) if max(ends) < 2.5 else MaxNLocator(4))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel(metric_name(name))
    return figure


def _lines(
    names: Sequence[str], width: float, height: float, panels: int = 1
) -> tuple[Figure, list[Axes], list[float]]:
    """A figure with names below each other: its panels, and the middle of each name."""
    names = [words(name, 18 if width < 4 else 34) for name in names]
    sizes = np.array([name.count("\n") + 1.3 for name in names])
    places = np.cumsum(sizes) - sizes / 2
    figure = Figure(figsize=(width, height + LINE_HEIGHT * places[-1]), layout="constrained")
    all_axes = figure.subplots(1, panels, sharey=True, squeeze=False)[0].tolist()
    for axes in all_axes:
        axes.set_ylim(places[-1] + 1, places[0] - 1)
        axes.set_yticks(places, names)
        axes.tick_params(axis="y", labelcolor=INK)
        axes.spines["left"].set_visible(False)
    return figure, all_axes, places.tolist()


def ranks(rows: Sequence[Row], styles: Mapping[str, int], width: float, metric: str) -> Figure:
    """The rank of each learner's mean in one study; its streams may differ in the class order.

    Raises
    ------
    UserError
        There are several studies, or one learner.
    """
    every = studies(rows, metric)
    if len(every) > 1:
        titles = "; ".join(study.title for study in every)
        raise UserError(f"--figure ranks draws one study, and there are {len(every)}: {titles}")
    return draw_ranks(compare(every[0]), styles, width)


@rc_context(STYLE)
def draw_ranks(result: Ranking, styles: Mapping[str, int], width: float) -> Figure:
    """The rank of each mean, best first, and a bar over the ranks that the verdicts leave open."""
    names = [entry.learner for entry in result.learners]
    figure, (axes,), places = _lines(names, width, 0.8)
    for entry, place in zip(result.learners, places, strict=True):
        if entry.ranks is not None and entry.behind is not None:
            axes.plot(entry.ranks, [place] * 2, color=LINE, linewidth=2.5, solid_capstyle="round")
        axes.plot([entry.rank or math.nan], [place], **look(styles[entry.learner]), zorder=3)
    axes.set_xlim(0.7, len(names) + 0.3)
    axes.xaxis.set_major_locator(MaxNLocator(min(len(names), 8), integer=True))
    axes.set_xlabel(f"rank by {result.metric.replace('_', ' ')}\n{RANGES}")
    return figure
