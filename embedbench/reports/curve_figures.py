"""Figures of accuracy: over sessions, and against what it costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from embedbench.arrays import Floats
from embedbench.errors import UserError, unknown
from embedbench.scores.mean_intervals import Stat, format_signed

from .chance_and_upper_bound import chance, offline
from .compare_learners import LOWER
from .figure_files import fit, legend
from .inline_svg import INK, SOFT, STYLE, colour, look, svg
from .learner_colours import styles_in
from .result_rows import Group, Row
from .svg_charts import Curve, draw_curve, fit_to
from .terminal_tables import is_percent

MANY = 8  # from so many learners on, bands are paler
FRONT: Any = {  # a ring around each member
    "color": INK, "linewidth": 0.8, "zorder": 1,
    "marker": "o", "markersize": 8.5, "markerfacecolor": "none", "markeredgewidth": 0.6,
}  # fmt: skip
DASHES, DOTS = (0, (5, 3)), (0, (1, 2))


def stack_runs(row: Row, key: str) -> Floats:
    """Arrays of the main score over the runs used, stacked: (n, …)."""
    return np.array([getattr(run, key) for run in row.used], dtype=np.float64)


def curves(rows: Sequence[Row], width: float) -> Figure:
    """The main score over all sessions so far, after each session.

    Means over runs, see `draw_curve`. The curve of chance and the level of the offline reference
    are drawn where they lie between the others; the legend then has their last values.

    Parameters
    ----------
    rows : sequence of Row
        The rows of one table.
    width : float
        Inches.

    Raises
    ------
    UserError
        The stream has one session.
    """
    group, drawn = rows[0].group, [row for row in rows if row.used]
    if group.sessions < 2:
        raise UserError(
            "--figure curves needs two sessions, and this stream has one; "
            "--figure trade-off draws it"
        )
    styles = styles_in(rows)
    height = 2.0 if width < 4 else 2.6
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    entries: dict[str, Artist] = {}
    for row in drawn:
        if row.learns:
            curve = Curve(100 * stack_runs(row, "pooled"), styles[row.label])
            pale = 0.15 if len(styles) < MANY else 0.06
            line = draw_curve(axes, curve, 0, 100, alpha=pale)
            if not np.isnan(curve.values).all():
                entries[row.label] = line
    fit_to(axes, 100)
    axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    axes.spines["left"].set_visible(False)
    entries |= _levels(axes, rows, by_session=True)
    axes.set_xlim(-0.015 * (group.sessions - 1), 1.015 * (group.sessions - 1))
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.set_xlabel("after session")
    name = score_name(group)
    axes.set_ylabel(name if width >= 4 else name.replace("per-class ", "per-class\n"))
    legend(figure, entries, height=height)
    return figure


def score_name(group: Group, *, brief: bool = False) -> str:
    """The main score of a table, for an axis."""
    names = {"class_accuracy": "accuracy" if brief else "mean per-class accuracy", "pw_js": "pw-JS"}
    return f"{names.get(group.first.score, group.first.score)} (%)"


def _levels(axes: Axes, rows: Sequence[Row], *, by_session: bool = False) -> dict[str, Artist]:
    """The offline reference and chance, within the axes as they are.

    By session, runs of chance give a curve as on the page; without such runs it is a level.
    """
    group = rows[0].group
    guesses = [r for r in rows if r.used and not r.learns][:1] if by_session else []
    levels = (("offline", offline(group), INK, DASHES), ("chance", chance(group), SOFT, DOTS))
    low, high = axes.get_ylim()
    entries: dict[str, Artist] = {}
    for name, value, ink, dashes in levels:
        runs = [100 * stack_runs(row, "pooled") for row in guesses if name == "chance"]
        ends = runs[0].mean(axis=0) if runs else np.array([100 * value])
        if math.isnan(value) or not ((low <= ends) & (ends <= high)).any():
            continue
        line = Line2D([], [], color=ink, linewidth=0.9, linestyle=dashes)
        entries[f"{name} ({format_signed(100 * value, 1)})"] = line
        if runs:
            draw_curve(axes, Curve(runs[0], None), 0, 100)
        else:
            axes.axhline(100 * value, color=ink, linewidth=0.9, linestyle=dashes, zorder=1)
    axes.set_ylim(low, high)
    return entries


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


def trade_off(rows: Sequence[Row], width: float, metric: str) -> Figure:
    """A metric against the bytes held after the last session, and against seconds of learning.

    A mark is a learner, with the 95 % interval over its runs; a line joins the Pareto front, the
    learners that no other beats. Costs are means over the runs, in logarithms where they differ
    by more than ten times. Two panels: beside each other on a page, one above the other in a
    column.

    Parameters
    ----------
    rows : sequence of Row
        The rows of one table.
    width : float
        Inches.
    metric : str
        The metric of the y axis.

    Raises
    ------
    UserError
        The metric is unknown, or undefined in every run.
    """
    drawn = [row for row in rows if row.used and row.learns]
    scores = row_scores(drawn, metric)
    costs = row_costs(drawn)
    if not costs:
        raise UserError("no run says what it cost; --figure curves draws them")
    beside = width > 4
    height = 2.4 if beside else 1.9 * len(costs)
    figure = Figure(figsize=(width, height), layout="constrained")
    shape = (1, len(costs)) if beside else (len(costs), 1)
    panels = figure.subplots(*shape, sharey=True, squeeze=False).ravel()
    entries: dict[str, Artist] = {}
    for axes, (name, each) in zip(panels, costs.items(), strict=True):
        entries |= _points(axes, each, scores, drawn, styles_in(rows), lower=metric in LOWER)
        _cost_axis(axes, name, each)
    _fit(panels[0], scores)
    for axes in panels[:1] if beside else panels:
        axes.set_ylabel(metric_name(metric))
    for axes in panels if metric == "final_accuracy" else ():
        entries |= _levels(axes, rows)
    legend(figure, entries, height=height)
    return figure


def row_costs(rows: Sequence[Row]) -> dict[str, list[float]]:
    """The label of an axis → what each row cost, NaN where that is not known.

    A cost that is known of no row is left out.
    """
    costs = {
        "memory after the last session (MB)": [
            row.footprint.get("total", math.nan) / 1e6 for row in rows
        ],
        "learning (s)": [row.seconds["learn"].mean for row in rows],
    }
    return {name: each for name, each in costs.items() if not np.isnan(each).all()}


def cost_plot(
    name: str,
    costs: Sequence[float],
    scores: Sequence[Stat],
    rows: Sequence[Row],
    styles: Mapping[str, int],
) -> str:
    """One panel of `trade_off`, as SVG for a page; `name` is the label of its axis of costs."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.4, 3.1), layout="constrained")
        axes = figure.add_subplot()
        _points(axes, costs, scores, rows, styles, scale=1.4)
        _cost_axis(axes, name, costs)
        _fit(axes, scores)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.set_ylabel("%", rotation=0, loc="top", va="top")
        _levels(axes, rows)
        return svg(figure, f"final score against {name}")


def _points(
    axes: Axes,
    costs: Sequence[float],
    scores: Sequence[Stat],
    rows: Sequence[Row],
    styles: Mapping[str, int],
    *,
    lower: bool = False,
    scale: float = 1.0,
) -> dict[str, Artist]:
    """Draw the learners and their Pareto front; return what a legend names."""
    entries = {
        row.label: _point(axes, cost, score, styles[row.label], scale)
        for row, cost, score in zip(rows, costs, scores, strict=True)
        if not math.isnan(cost + score.mean)
    }
    front = pareto(costs, [-score.mean if lower else score.mean for score in scores])
    (line,) = axes.plot(
        [costs[i] for i in front],
        [scores[i].mean for i in front],
        drawstyle="steps-post",
        **{**FRONT, "markersize": scale * FRONT["markersize"]},
    )
    return {**entries, "Pareto front": line}


def _fit(axes: Axes, scores: Sequence[Stat]) -> None:
    """Let the y axis end at the intervals of the scores."""
    ends = [s.mean + side for s in scores for side in (0, -s.half, s.half) if side == side]
    fit(axes, np.nanmin(ends), np.nanmax(ends))


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


def _point(axes: Axes, cost: float, score: Stat, style: int, scale: float) -> Artist:
    """The mark of a learner, and its interval."""
    if not math.isnan(score.half):
        axes.errorbar(cost, score.mean, score.half, color=colour(style), elinewidth=0.8, zorder=2)
    (mark,) = axes.plot(
        [cost], [score.mean], linestyle="none", markersize=5 * scale, zorder=3, **look(style)
    )
    return mark


def _cost_axis(axes: Axes, name: str, costs: Sequence[float]) -> None:
    """An axis of bytes or seconds; logarithmic where they differ by more than ten times."""
    axes.set_xlabel(name)
    axes.grid()
    axes.set_axisbelow(True)
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
