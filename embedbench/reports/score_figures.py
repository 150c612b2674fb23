"""Figures of scores: against what they cost, ranks, and R[i, j] as colours."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from embedbench.array_types import Floats
from embedbench.errors import UserError, unknown
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import FINAL
from embedbench.scores.unrecorded_metrics import ANSWER_METRICS

from .compare_learners import count_range, studies
from .comparison_tables import check_several
from .curve_figures import CUT, begin_at_zero, score_name, stack_matrices
from .figure_style import CHANCE, OFFLINE, STYLE, level_name, title_lines, words
from .headings_and_units import INCREMENTAL, is_percent, metric_name
from .learner_colours import BLANK, LINE, look, styles_of
from .result_rows import Group, Row

COSTS = {"memory after the last session (MB)": "bytes.total", "learning (s)": "seconds.learn"}
COLOUR_MAP = matplotlib.colormaps["viridis"]  # perceptually uniform, also for colour-blind readers


@rc_context(STYLE)
def trade_off(
    rows: Sequence[Row],
    styles: Mapping[str, int],
    width: float,
    metric: str = FINAL,
    *,
    fit: bool = False,
) -> Figure:
    """A metric of the rows of one table against each of their costs, a panel each.

    A mark is a learner, with the 95 % interval over its runs, which the title names. Costs are in
    logarithms where they differ by more than ten times. Other axes begin at 0; `fit`: they fit what
    is drawn. Levels to compare with are those of `_levels`.
    """
    drawn = [row for row in rows if row.used and row.learns]
    group = rows[0].group
    factor = 100 if is_percent(metric) else 1
    scores = _scores(drawn, metric)
    costs: dict[str, list[float]] = {}
    for name, value in COSTS.items():
        each = [row.number(value).mean / (1e6 if value == "bytes.total" else 1) for row in drawn]
        if not np.isnan(each).all():
            costs[name] = each
    if not costs:
        raise UserError("no run says what it cost", "--figure curves draws them")
    beside = width > 4
    shape = (1, len(costs)) if beside else (len(costs), 1)
    figure = Figure((width, 2.4 if beside else 1.9 * len(costs)), layout="constrained")
    panels = figure.subplots(*shape, sharey=True, squeeze=False).ravel()
    name = metric_name(metric, group.score)
    if is_percent(metric):
        name += " (%)"
    if metric not in (FINAL, *ANSWER_METRICS, *group.outside):
        name += f", of {metric_name(FINAL, group.score)}"
    if any(not math.isnan(score.half) for score in scores):
        name += " · bars: 95 % over seeds"
    panels[0].set_title(title_lines(name + CUT * fit, width), loc="left")
    for axes, (cost, each) in zip(panels, costs.items(), strict=True):
        axes.set_xlabel(cost)
        axes.grid()
        least = float(np.nanmin(each))
        most = float(np.nanmax(each))
        if 0 < 10 * least < most:
            axes.set_xscale("log", subs=[2, 5] if most < 100 * least else [])
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter("{x:g}")
            axes.set_xlabel(f"{cost}, logarithmic")
        for row, x, score in zip(drawn, each, scores, strict=True):
            if not math.isnan(x + score.mean):
                mark: Any = {"linestyle": "none", "markersize": 5, **look(styles[row.label])}
                half = None if math.isnan(score.half) else factor * score.half
                bar: Any = {"elinewidth": 0.8, "zorder": 3, "label": words(row.label)}
                axes.errorbar(x, factor * score.mean, half, **mark, **bar)
    begin_at_zero(panels[0], [score.mean for score in scores], fit=fit)  # all panels share it
    for axes in panels:
        if not fit and axes.get_xscale() == "linear":
            axes.update_datalim([(0, 0)], updatey=False)  # as in `begin_at_zero`
            axes.autoscale_view(scaley=False)
            axes.set_xlim(left=0)
    low, high = panels[0].get_ylim()
    for level, share in _levels(group, metric).items():
        if low <= 100 * share <= high:
            line = OFFLINE if level == "offline" else CHANCE
            for axes in panels:
                axes.axhline(100 * share, **line, label=level_name(level, share))
    return figure


def _levels(group: Group, metric: str) -> dict[str, float]:
    """What a metric is compared with, as fractions: of the final score offline and guessing.

    Of its average over sessions guessing alone, and of other metrics nothing.
    """
    if metric == FINAL:
        return {"offline": group.offline, "chance": group.chance}
    if metric == INCREMENTAL and group.guessed is not None:
        return {"chance": float(group.guessed.pooled.mean())}
    return {}


def _scores(rows: Sequence[Row], metric: str) -> list[Stat]:
    """A metric of each row."""
    names = {name for row in rows for name in row.metrics}
    if metric not in names:
        raise unknown("metric", metric, names)
    scores = [row.metrics[metric] for row in rows]
    if all(math.isnan(score.mean) for score in scores):
        raise UserError(f"{metric} is undefined in every run", "name another --metric")
    return scores


@rc_context(STYLE)
def ranks(rows: Sequence[Row], width: float, metric: str) -> Figure:
    """The rank of each learner's mean in one study, and a bar over the ranks left open.

    Its streams may differ in the class order. The best mean comes first.
    """
    study, *more = every = studies(rows, metric)
    if more:
        titles = "; ".join(study.title for study in every)
        raise UserError(f"--figure ranks draws one study, and there are {len(every)}: {titles}")
    check_several(study)
    names = study.learners
    styles = styles_of(rows, names)
    lines = [words(name, 18 if width < 4 else 34) for name in names]
    height = 0.8 + 0.13 * sum(line.count("\n") + 1.3 for line in lines)
    figure = Figure((width, height), layout="constrained")
    axes = figure.add_subplot()
    for place, (name, verdict) in enumerate(zip(names, study.verdicts, strict=True)):
        if verdict.ranks is not None and verdict.behind is not None:
            axes.plot(verdict.ranks, [place] * 2, color=LINE, linewidth=2.5, solid_capstyle="round")
        axes.plot([verdict.rank or math.nan], [place], **look(styles[name]), zorder=3)
    axes.set_yticks(range(len(lines)), lines)
    axes.set_ylim(len(lines) - 0.5, -0.5)  # the best on top; half a row of room at both ends
    axes.set_xlim(0.7, len(names) + 0.3)
    axes.xaxis.set_major_locator(MaxNLocator(min(len(names), 8), integer=True))
    bars = "mark: rank of the mean\nbar: ranks left open at 5 % a row"
    axes.set_xlabel(f"rank by {metric_name(study.metric, study.score)}\n{bars}")
    return figure


def matrix(rows: Sequence[Row], width: float) -> Figure:
    """R[i, j] of each learner among the rows of one table, the mean over its runs."""
    drawn = [row for row in rows if row.used and row.learns]
    means = {row.label: stack_matrices(row).mean(axis=0) for row in drawn}
    names = ("after session i", f"on session j{_mean_words(drawn)}")
    return draw_maps(means, width, score_name(rows[0].group), axes_names=names)


def _mean_words(rows: Sequence[Row]) -> str:
    """Say how many seeds means are over; nothing where each is of one."""
    counts = [len({run.seed for run in row.used}) for row in rows]
    fewest = min(counts)
    most = max(counts)
    return f" · mean over {count_range(fewest, most)} seeds" if most > 1 else ""


@rc_context(STYLE)
def draw_maps(
    maps: Mapping[str, Floats],
    width: float,
    scale: str,
    *,
    axes_names: tuple[str, str] = ("after session i", "on session j"),
    room: float = 0.8,
    largest: float = 1.6,
    most: int | None = None,
) -> Figure:
    """Matrices of one shape with values from 0 to 1 as colours; NaN is grey.

    `scale` is the label of the colours' scale. Cells have their values where there is room. `room`
    are the inches beside the panels, `largest` those of a panel among several, `most` how many
    panels may be side by side; None: what fits of R.
    """
    if most is None:
        most = (3 if len(maps) <= 12 else 4) * max(1, round(width / 3.25))
    down = -(-len(maps) // most)
    across = -(-len(maps) // down)
    high, wide = next(iter(maps.values())).shape
    side = min((width - room) / across, largest if across > 1 else width)
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
        axes.xaxis.set_major_locator(MaxNLocator(max(2, min(5, int(side / 0.2))), integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        if side / wide > 0.16:  # there is room for numbers
            for (i, j), value in np.ndenumerate(values):
                text = "" if np.isnan(value) else f"{100 * value:.0f}"
                ink = "black" if value > 0.6 else "white"  # bright cells are those above
                font = min(8.0, 26 * side / wide)
                axes.text(j, i, text, ha="center", va="center", fontsize=font, color=ink)
    for axes in panels[len(maps) :]:
        axes.set_visible(False)
    for axes in panels[len(maps) - across : len(maps)]:  # the lowest of each column
        axes.tick_params(labelbottom=True)
    figure.supylabel(axes_names[0], fontsize="medium")
    figure.supxlabel(axes_names[1], fontsize="medium")
    figure.colorbar(image, ax=panels.tolist(), label=scale, aspect=30)
    return figure
