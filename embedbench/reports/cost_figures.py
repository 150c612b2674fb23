"""Figures of what a score costs: memory and seconds of learning."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from embedbench.errors import UserError, unknown
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import FINAL

from .chance_and_upper_bound import chance, offline
from .compare_learners import LOWER
from .figure_style import CHANCE, OFFLINE, STYLE, fit, level_name, words
from .headings_and_units import is_percent
from .learner_colours import INK, colour, look
from .result_rows import Row, has_labels

FRONT: Any = {  # a ring around each member
    "color": INK, "linewidth": 0.8, "zorder": 1, "label": "Pareto front",
    "marker": "o", "markersize": 8.5, "markerfacecolor": "none", "markeredgewidth": 0.6,
}  # fmt: skip


def trade_off(
    rows: Sequence[Row],
    styles: Mapping[str, int],
    width: float,
    *,
    metric: str = FINAL,
    only: str | None = None,
) -> Figure:
    """A metric of the rows of one table against each of their costs, or against one.

    Raises
    ------
    UserError
        The metric is unknown, or undefined in every run; or no run has a cost.
    """
    drawn = [row for row in rows if row.used and row.learns]
    scores, marks = row_scores(drawn, metric), {row.label: styles[row.label] for row in drawn}
    costs = {name: each for name, each in row_costs(drawn).items() if only in (None, name)}
    if not costs:
        raise UserError("no run says what it cost; --figure curves draws them")
    labels = metric == FINAL and has_labels(rows[0].group.first)
    name = "final pw-JS (%)" if labels else metric_name(metric)
    figure = draw_costs(costs, scores, marks, width, name, lower=metric in LOWER)
    levels = (("offline", offline, OFFLINE), ("chance", chance, CHANCE))
    for name, level, line in levels if metric == FINAL else ():
        value, (low, high) = level(rows[0].group), figure.axes[0].get_ylim()
        if low <= 100 * value <= high:
            for axes in figure.axes:
                axes.axhline(100 * value, **line, label=level_name(name, value))
    return figure


@rc_context(STYLE)
def draw_costs(
    costs: Mapping[str, Sequence[float]],
    scores: Sequence[Stat],
    marks: Mapping[str, int],
    width: float,
    name: str,
    *,
    lower: bool = False,
) -> Figure:
    """Scores against costs, a panel each: beside each other on a page, below in a column.

    A mark is a learner, with the 95 % interval over its runs; a line joins the Pareto front, the
    learners that no other beats. Costs are in logarithms where they differ by more than ten times.

    Parameters
    ----------
    costs : mapping
        The label of an axis → what each learner cost, NaN where that is not known.
    marks : mapping
        The name of each learner → its style.
    lower : bool
        Whether lower scores are better.
    """
    beside = width > 4
    figure = Figure((width, 2.4 if beside else 1.9 * len(costs)), layout="constrained")
    shape = (1, len(costs)) if beside else (len(costs), 1)
    panels = figure.subplots(*shape, sharey=True, squeeze=False).ravel()
    ends = [s.mean + side for s in scores for side in (0, -s.half, s.half) if side == side]
    fit(panels[0], np.nanmin(ends), np.nanmax(ends))
    panels[0].yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    for axes in panels[:1] if beside else panels:
        axes.set_title(name, loc="left")
    for axes, (cost, each) in zip(panels, costs.items(), strict=True):
        _cost_axis(axes, cost, each)
        for (label, style), x, score in zip(marks.items(), each, scores, strict=True):
            if math.isnan(x + score.mean):
                continue
            if not math.isnan(score.half):
                axes.errorbar(x, score.mean, score.half, color=colour(style), elinewidth=0.8)
            mark = {"linestyle": "none", "markersize": 5, "zorder": 3, **look(style)}
            axes.plot([x], [score.mean], **mark, label=words(label))
        front = pareto(each, [-score.mean if lower else score.mean for score in scores])
        ends = [scores[i].mean for i in front]
        axes.plot([each[i] for i in front], ends, drawstyle="steps-post", **FRONT)
    return figure


def _cost_axis(axes: Axes, name: str, costs: Sequence[float]) -> None:
    """An axis of bytes or seconds; logarithmic where they differ by more than ten times."""
    axes.set_xlabel(name)
    axes.grid()
    least, most = float(np.nanmin(costs)), float(np.nanmax(costs))
    if not 0 < 10 * least < most:
        axes.set_xlim(0, 1.05 * most or 1)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        return
    axes.set_xscale("log")
    axes.set_xlabel(f"{name}, logarithmic")
    axes.set_xlim(least / 1.3, most * 1.3)
    subs = (1.0, 2.0, 5.0) if most < 100 * least else (1.0,)
    axes.xaxis.set_major_locator(LogLocator(subs=subs))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.minorticks_off()


def pareto(costs: Sequence[float], scores: Sequence[float]) -> list[int]:
    """Positions that no other beats: none costs as little and scores as much, and one of it more.

    Cheapest first; NaN is never among them.
    """
    points = list(zip(costs, scores, strict=True))
    places = [i for i, point in enumerate(points) if not np.isnan(point).any()]
    front: list[int] = []
    for i in sorted(places, key=lambda i: (costs[i], -scores[i])):
        if not front or scores[i] > scores[front[-1]] or points[i] == points[front[-1]]:
            front.append(i)
    return front


def row_costs(rows: Sequence[Row]) -> dict[str, list[float]]:
    """The label of an axis → what each row cost, NaN where that is not known.

    A cost that is known of no row is left out.
    """
    costs = {
        "memory after the last session (MB)": [
            row.footprint.get("total", math.nan) / 1e6 for row in rows
        ],
        "learning (s)": [row.number("seconds.learn").mean for row in rows],
    }
    return {name: each for name, each in costs.items() if not np.isnan(each).all()}


def row_scores(rows: Sequence[Row], metric: str) -> list[Stat]:
    """A metric of each row, in percent where tables have it so."""
    names = {name for row in rows for name in row.metrics}
    if metric not in names:
        raise unknown("metric", metric, names)
    factor = 100 if is_percent(metric) else 1
    scores = [Stat.of(factor * v for v in row.metrics[metric].values) for row in rows]
    if all(math.isnan(score.mean) for score in scores):
        raise UserError(f"{metric} is undefined in every run; name another --metric")
    return scores


def metric_name(metric: str) -> str:
    """A metric for an axis."""
    if metric.startswith("omega_"):
        return f"Ω_{metric.removeprefix('omega_')}"
    return metric.replace("_", " ") + " (%)" * is_percent(metric)


def with_final_score(rows: Sequence[Row]) -> list[Row]:
    """The learners among rows that have a final score."""
    return [r for r in rows if r.used and r.learns and not math.isnan(r.metrics[FINAL].mean)]
