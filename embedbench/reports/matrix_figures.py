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
RANGES = "mark: rank of the mean\nbar: ranks left open at 5 % a row"
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
    """The rank of each learner's mean, and a bar over the ranks that the verdicts leave open.

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
        There are several studies, or one learner.
    """
    every = studies(rows, metric)
    if len(every) > 1:
        titles = "; ".join(study.title for study in every)
        raise UserError(f"--figure ranks draws one study, and there are {len(every)}: {titles}")
    return diagram(compare(every[0]), styles_in(rows), width)


def diagram(result: Ranking, styles: dict[str, int], width: float) -> Figure:
    """One line for each learner of a ranking, best first; without a verdict it has no bar."""
    names = [words(entry.learner, 18 if width < 4 else 34) for entry in result.learners]
    places = _places(names)
    figure = Figure(figsize=(width, 0.8 + LINE_HEIGHT * places[-1]), layout="constrained")
    axes = figure.subplots()
    for entry, place in zip(result.learners, places, strict=True):
        if entry.ranks is not None and entry.behind is not None:
            axes.plot(entry.ranks, [place] * 2, color=LINE, linewidth=2.5, solid_capstyle="round")
        axes.plot([entry.rank or math.nan], [place], **look(styles[entry.learner]), zorder=3)
    axes.set_xlim(0.7, len(names) + 0.3)
    axes.set_ylim(places[-1] + 1, places[0] - 1)
    axes.set_yticks(places, names)
    axes.tick_params(axis="y", labelcolor=INK, length=0)
    axes.xaxis.set_major_locator(MaxNLocator(min(len(names), 8), integer=True))
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(f"rank by {result.metric.replace('_', ' ')}\n{RANGES}")
    return figure
