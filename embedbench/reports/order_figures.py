"""Curves over several class orders: a line an order for each learner, or a mean over the orders."""

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib import rc_context
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from embedbench.array_types import Floats
from embedbench.errors import UserError
from embedbench.scores.run_record import FINAL

from .compare_learners import ComparisonStudy, studies
from .curve_figures import (
    CUT,
    POOLED,
    Curve,
    begin_at_zero,
    check_curve,
    curve_name,
    draw_curve,
    draw_curves,
    no_curve,
    number_sessions,
    read_curve,
    stack,
)
from .figure_style import STYLE, level_name, title_lines, words
from .headings_and_units import is_percent
from .learner_colours import styles_of
from .result_rows import Group, Row, split_tables

ByOrder = dict[str, dict[str, Floats]]  # learner → class order → (T,) mean over its seeds
ACROSS = 3  # panels on a page; in a column there are two
SHADES = matplotlib.colormaps["Greys"]  # of orders: the colours and marks are those of learners


def mean_curves(rows: Sequence[Row], width: float, metric: str, *, fit: bool = False) -> Figure:
    """A metric after each session: of each learner the mean over class orders.

    An order counts with the mean over its seeds. The band is over orders; of fewer than five, each
    has a thin line. A learner that was not run on all orders has their number in its name.
    """
    study = order_study(rows, "curves")
    check_curve(rows, metric)
    styles = styles_of(rows, study.learners)
    curves = []
    for label, by_order in curves_by_order(study, metric).items():
        name = label
        if len(by_order) < len(study.orders):
            name += f" ({len(by_order)} of {len(study.orders)} orders)"
        values = np.array(list(by_order.values()))
        curves.append(Curve(values, range(values.shape[1]), styles[label], name))
    ideal = np.nan
    if metric in POOLED:
        curves += _chance(rows)
        ideal = float(np.mean([group.offline for group in _groups(rows)]))
    name = f"{curve_name(metric, study.score)}, mean over {len(study.orders)} class orders"
    return draw_curves(curves, ideal, width, name, fit=fit, units="orders")


@rc_context(STYLE)
def order_curves(rows: Sequence[Row], width: float, metric: str, *, fit: bool = False) -> Figure:
    """A metric after each session: a panel a learner, and in it a line a class order.

    A line is the mean over the seeds of the order; an order has one shade in all panels, of a ramp
    that no learner has a colour of.
    **Source**: Masana et al. (2020), Figures 4 to 9.
    """
    study = order_study(rows, "orders")
    check_curve(rows, metric)
    by_learner = curves_by_order(study, metric)
    orders = sorted(study.orders)
    places = np.linspace(0.4, 1, len(orders))
    shades = {order: to_hex(SHADES(place)) for order, place in zip(orders, places, strict=True)}
    across = min(len(by_learner), ACROSS if width > 4 else 2)
    down = -(-len(by_learner) // across)
    figure = Figure((width, (1.7 if width > 4 else 1.4) * down + 0.4), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).ravel()
    lowest = []
    for axes, (label, by_order) in zip(panels, by_learner.items(), strict=False):
        for order, values in sorted(by_order.items()):
            lowest.append(float(np.nanmin(values, initial=np.inf)))
            line: Any = {"color": shades[order], "marker": ".", "clip_on": False, "zorder": 3}
            axes.plot(range(len(values)), values, **line, label=words(order))
        axes.set_title(words(label, int(14 * width / across)), loc="left")
        number_sessions(axes, range(rows[0].group.sessions))
        axes.grid(axis="y")
    if metric in POOLED and not fit:
        for curve in _chance(rows):
            for axes in panels[: len(by_learner)]:
                draw_curve(axes, curve)
    begin_at_zero(panels[0], lowest, fit=fit)  # all panels share it
    for axes in panels[len(by_learner) :]:
        axes.set_visible(False)
    for axes in panels[len(by_learner) - across : len(by_learner)]:  # the lowest of each column
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("after session")
    title = f"{curve_name(metric, study.score)}, a line a class order{CUT * fit}"
    figure.suptitle(title_lines(title, width), x=0.01, ha="left", fontsize="medium")
    return figure


def order_study(rows: Sequence[Row], kind: str) -> ComparisonStudy:
    """The one study of some rows, on two class orders or more.

    Raises
    ------
    UserError
        Streams differ in more than the class order, or there is one order.
    """
    every = studies(rows, FINAL)
    if not every:
        raise UserError("no learner is left to draw: guessing has no class order")
    if len(every) > 1:
        places = ", ".join(group.place for group in _groups(rows))
        raise UserError(
            f"--figure {kind} draws one stream, or one in several class orders, and there are "
            f"{len(every)}",
            f"give the directory of one instead: {places}",
        )
    if len(every[0].orders) < 2:
        raise UserError(
            f"--figure {kind} needs runs on two class orders or more; there is "
            f"{', '.join(every[0].orders)} only",
            "run again with another --order",
        )
    return every[0]


def curves_by_order(study: ComparisonStudy, metric: str) -> ByOrder:
    """A metric after each session in its unit, percent or not: means over the seeds of an order.

    An order on which no run of a learner has the metric is left out of it.
    """
    factor = 100 if is_percent(metric) else 1
    made: ByOrder = {}
    for (label, order), runs in study.results.group("learner", "order").items():
        values = stack(runs, lambda run, place: read_curve(run, place, metric))
        if values.size and not np.isnan(values).all():
            made.setdefault(label, {})[order] = factor * values.mean(axis=0)
    if not made:
        raise no_curve(metric)
    return made


def _groups(rows: Sequence[Row]) -> list[Group]:
    return [mine[0].group for mine in split_tables(rows)]


def _chance(rows: Sequence[Row]) -> list[Curve]:
    """What guessing scores after each session, mean over the orders; [] where it is not known."""
    guesses = [group.guessed for group in _groups(rows)]
    pooled = [guess.pooled for guess in guesses if guess is not None]
    if len(pooled) < len(guesses):
        return []
    mean = 100 * np.mean(pooled, axis=0)
    return [Curve(mean[None], range(len(mean)), None, level_name("chance", mean[-1] / 100))]
