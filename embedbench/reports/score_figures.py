"""Figures of scores: against what they cost, Ω as bars, ranks, and R[i, j] as colours."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, MultipleLocator

from embedbench.array_types import Floats
from embedbench.errors import UserError, unknown
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import FINAL

from .compare_learners import LOWER, studies
from .comparison_tables import check_several
from .curve_figures import score_name, stack_matrices
from .figure_style import CHANCE, OFFLINE, SMALL, STYLE, fit, level_name, words
from .headings_and_units import OMEGAS, STREAMING, is_percent
from .learner_colours import BLANK, INK, LINE, SOFT, colour, look
from .result_rows import Row, has_labels

FRONT: Any = {  # a ring around each member
    "color": INK, "linewidth": 0.8, "zorder": 1, "label": "Pareto front",
    "marker": "o", "markersize": 8.5, "markerfacecolor": "none", "markeredgewidth": 0.6,
}  # fmt: skip
LINE_HEIGHT = 0.135  # inches, of a line of text
COLOUR_MAP = matplotlib.colormaps["viridis"]  # perceptually uniform, also for colour-blind readers


@rc_context(STYLE)
def trade_off(
    rows: Sequence[Row],
    styles: Mapping[str, int],
    width: float,
    *,
    metric: str = FINAL,
    only: str | None = None,
) -> Figure:
    """A metric of the rows of one table against each of their costs, or against one; a panel each.

    A mark is a learner, with the 95 % interval over its runs; a line joins the Pareto front, the
    learners that no other beats. Costs are in logarithms where they differ by more than ten times.
    """
    drawn, group = [row for row in rows if row.used and row.learns], rows[0].group
    scores = _scores(drawn, metric)
    costs = {name: each for name, each in row_costs(drawn).items() if only in (None, name)}
    if not costs:
        raise UserError("no run says what it cost; --figure curves draws them")
    beside = width > 4
    figure = Figure((width, 2.4 if beside else 1.9 * len(costs)), layout="constrained")
    shape = (1, len(costs)) if beside else (len(costs), 1)
    panels = figure.subplots(*shape, sharey=True, squeeze=False).ravel()
    ends = [s.mean + side for s in scores for side in (0, -s.half, s.half) if side == side]
    fit(panels[0], np.nanmin(ends), np.nanmax(ends))
    panels[0].yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    labels = metric == FINAL and has_labels(group.first)
    for axes in panels[:1] if beside else panels:
        axes.set_title("final pw-JS (%)" if labels else metric_name(metric), loc="left")
    marks = {row.label: styles[row.label] for row in drawn}
    for axes, (cost, each) in zip(panels, costs.items(), strict=True):
        _draw_costs(axes, cost, each, scores, marks, lower=metric in LOWER)
    levels = (("offline", group.offline, OFFLINE), ("chance", group.chance, CHANCE))
    for name, value, line in levels if metric == FINAL else ():
        low, high = panels[0].get_ylim()
        if low <= 100 * value <= high:
            for axes in panels:
                axes.axhline(100 * value, **line, label=level_name(name, value))
    return figure


def _draw_costs(
    axes: Axes,
    name: str,
    costs: Sequence[float],
    scores: Sequence[Stat],
    marks: Mapping[str, int],
    *,
    lower: bool,
) -> None:
    """A panel: scores against one cost, NaN where that is not known; `marks` are label → style."""
    _cost_axis(axes, name, costs)
    for (label, style), x, score in zip(marks.items(), costs, scores, strict=True):
        if math.isnan(x + score.mean):
            continue
        if not math.isnan(score.half):
            axes.errorbar(x, score.mean, score.half, color=colour(style), elinewidth=0.8)
        mark: Any = {"linestyle": "none", "markersize": 5, "zorder": 3, **look(style)}
        axes.plot([x], [score.mean], **mark, label=words(label))
    front = pareto(costs, [-score.mean if lower else score.mean for score in scores])
    means = [scores[i].mean for i in front]
    axes.plot([costs[i] for i in front], means, drawstyle="steps-post", **FRONT)


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
    """The label of an axis → what each row cost; a cost that is known of no row is left out."""
    costs = {
        "memory after the last session (MB)": [
            row.footprint.get("total", math.nan) / 1e6 for row in rows
        ],
        "learning (s)": [row.number("seconds.learn").mean for row in rows],
    }
    return {name: each for name, each in costs.items() if not np.isnan(each).all()}


def _scores(rows: Sequence[Row], metric: str) -> list[Stat]:
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


# --- a line a learner, with its name beside it ---


@rc_context(STYLE)
def omega(rows: Sequence[Row], styles: Mapping[str, int], width: float) -> Figure:
    """Ω of each learner as bars, with 95 % intervals over its runs; the offline reference is 1."""
    drawn = [row for row in rows if row.used and row.learns]
    defined = {n for row in drawn for n, s in row.metrics.items() if not math.isnan(s.mean)}
    metrics = [name for name in (*OMEGAS, STREAMING) if name in defined]
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
    """
    every = studies(rows, metric)
    if len(every) > 1:
        titles = "; ".join(study.title for study in every)
        raise UserError(f"--figure ranks draws one study, and there are {len(every)}: {titles}")
    (study,) = every
    check_several(study)
    names = study.learners
    figure, (axes,), places = _lines(names, width, 0.8)
    for name, verdict, place in zip(names, study.verdicts, places, strict=True):
        if verdict.ranks is not None and verdict.behind is not None:
            axes.plot(verdict.ranks, [place] * 2, color=LINE, linewidth=2.5, solid_capstyle="round")
        axes.plot([verdict.rank or math.nan], [place], **look(styles[name]), zorder=3)
    axes.set_xlim(0.7, len(names) + 0.3)
    axes.xaxis.set_major_locator(MaxNLocator(min(len(names), 8), integer=True))
    bars = "mark: rank of the mean\nbar: ranks left open at 5 % a row"
    axes.set_xlabel(f"rank by {study.metric.replace('_', ' ')}\n{bars}")
    return figure


# --- score matrices as heat maps ---


def colour_scale() -> list[str]:
    """Colours of the heat maps from 0 to 100 %, as CSS."""
    return [matplotlib.colors.to_hex(COLOUR_MAP(i / 8)) for i in range(9)]


def matrix(rows: Sequence[Row], width: float) -> Figure:
    """R[i, j] of each learner among the rows of one table, the mean over its runs."""
    drawn = [row for row in rows if row.used and row.learns]
    means = {row.label: stack_matrices(row).mean(axis=0) for row in drawn}
    return draw_maps(means, width, score_name(rows[0].group, brief=True))


@rc_context(STYLE)
def draw_maps(
    maps: Mapping[str, Floats],
    width: float,
    scale: str = "",
    *,
    axes_names: tuple[str, str] = ("after session i", "on session j"),
    numbers: bool = True,
) -> Figure:
    """Matrices of one shape with values from 0 to 1 as colours; NaN is grey.

    `scale` is the label of the colours' scale; empty: no scale. With `numbers`, cells have theirs
    where there is room for them.
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
        if numbers and side / wide > 0.16:  # there is room
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
