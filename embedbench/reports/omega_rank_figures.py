"""Figures of Ω and of ranks: a line a learner, with its name beside it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, MultipleLocator

from embedbench.errors import UserError

from .compare_learners import studies
from .comparison_tables import check_several
from .cost_figures import metric_name
from .figure_style import OFFLINE, SMALL, STYLE, words
from .learner_colours import INK, LINE, SOFT, colour, look
from .result_rows import Row

LINE_HEIGHT = 0.135  # inches, of a line of text
RANGES = "mark: rank of the mean\nbar: ranks left open at 5 % a row"
OMEGAS = ("omega_base", "omega_new", "omega_all", "omega_streaming")


@rc_context(STYLE)
def omega(rows: Sequence[Row], styles: Mapping[str, int], width: float) -> Figure:
    """Ω of each learner as bars, with 95 % intervals over its runs; the offline reference is 1."""
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


@rc_context(STYLE)
def ranks(rows: Sequence[Row], styles: Mapping[str, int], width: float, metric: str) -> Figure:
    """The rank of each learner's mean in one study, and a bar over the ranks left open.

    Its streams may differ in the class order. The best mean comes first.

    Raises
    ------
    UserError
        There are several studies, or one learner.
    """
    every = studies(rows, metric)
    if len(every) > 1:
        titles = "; ".join(study.title for study in every)
        raise UserError(f"--figure ranks draws one study, and there are {len(every)}: {titles}")
    check_several(every[0])
    (study,) = every
    names = study.learners
    figure, (axes,), places = _lines(names, width, 0.8)
    for name, verdict, place in zip(names, study.verdicts, places, strict=True):
        if verdict.ranks is not None and verdict.behind is not None:
            axes.plot(verdict.ranks, [place] * 2, color=LINE, linewidth=2.5, solid_capstyle="round")
        axes.plot([verdict.rank or math.nan], [place], **look(styles[name]), zorder=3)
    axes.set_xlim(0.7, len(names) + 0.3)
    axes.xaxis.set_major_locator(MaxNLocator(min(len(names), 8), integer=True))
    axes.set_xlabel(f"rank by {study.metric.replace('_', ' ')}\n{RANGES}")
    return figure
