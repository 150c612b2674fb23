"""Figures of curves: scores and other metrics over sessions."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from embedbench.array_types import Floats
from embedbench.errors import UserError, unknown
from embedbench.scores import record_files
from embedbench.scores.mean_intervals import t_quantile
from embedbench.scores.run_record import FINAL, RunRecord
from embedbench.scores.scores_of_guessing import GUESSES
from embedbench.scores.unrecorded_metrics import ANSWER_METRICS

from .figure_style import CHANCE, OFFLINE, STYLE, level_name, title_lines, words
from .headings_and_units import (
    AVERAGE,
    FORGETTING,
    INCREMENTAL,
    heading,
    is_percent,
    metric_name,
)
from .learner_colours import look
from .result_rows import Group, Row
from .results import Results
from .run_values import count_orders

LEAST = 5  # runs of a band
CUT = " · the axis does not begin at 0"
ALL_CLASSES = "offline, all classes"  # the level that is drawn beside scores on some of them, too
CURVES_OF = {AVERAGE: "aa", FORGETTING: "af"}  # metrics that are the last value of a curve
POOLED = (FINAL, INCREMENTAL)  # the last value, and the mean, of the main score


@dataclass(frozen=True)
class Curve:
    """Scores of one learner, session by session, or by another number."""

    values: Floats  # (n, T) percent, one row per run; NaN where undefined
    x: range | Floats  # (T,) of the sessions
    style: int | None  # its colour and mark; None for chance (dotted)
    label: str  # its name in the legend


@rc_context(STYLE)
def draw_curves(
    curves: Sequence[Curve],
    ideal: float,
    width: float,
    name: str,
    *,
    fit: bool = False,
    units: str = "seeds",
    level: str = ALL_CLASSES,
) -> Figure:
    """Means over runs, see `draw_curve`; the y axis begins at 0.

    `fit`: it fits the learners and α_ideal instead, and says so; chance is left out where it does
    not lie between them. `ideal` is α_ideal as a fraction, dashed, unless NaN, and `level` its
    name; `name` says what the scores are, `units` what the means are over.
    """
    figure = Figure((width, 2.15 if width < 4 else 2.6), layout="constrained")
    axes = figure.add_subplot()
    for curve in curves:
        if curve.style is not None:
            draw_curve(axes, curve)
    if not math.isnan(ideal):
        axes.axhline(100 * ideal, **OFFLINE, label=level_name(level, ideal))
    fit = fit and len(axes.lines) > 0
    low, high = axes.get_ylim() if fit else (-math.inf, math.inf)
    for curve in curves:
        known = curve.values[~np.isnan(curve.values)]
        if curve.style is None and ((low <= known) & (known <= high)).all():
            draw_curve(axes, curve)
    begin_at_zero(axes, [float(np.nanmin(c.values, initial=np.inf)) for c in curves], fit=fit)
    name += spread_words(curves, units)
    if fit:
        name += CUT
    number_sessions(axes, set[float]().union(*[curve.x for curve in curves]))
    axes.grid(axis="y")
    axes.set_xlabel("after session")
    axes.set_title(title_lines(name, width), loc="left")
    return figure


def spread_words(curves: Sequence[Curve], units: str = "seeds") -> str:
    """Say what thin lines and bands are, where there are any, see `draw_curve`."""
    counts = [len(curve.values) for curve in curves if curve.style is not None]
    text = ""
    if any(1 < n < LEAST for n in counts):
        text += f" · thin: single {'runs' if units == 'seeds' else units}"
    if any(n >= LEAST for n in counts):
        text += f" · bands: 95 % over {units}"
    return text


def begin_at_zero(axes: Axes, values: Sequence[float], *, fit: bool) -> None:
    """Let the y axis begin at 0, unless it is to fit the values, or some are below."""
    if not fit and not any(value < 0 for value in values):
        axes.update_datalim([(0, 0)], updatex=False)  # so that the margin above is of all of it
        axes.autoscale_view(scalex=False)
        axes.set_ylim(bottom=0)


def number_sessions(axes: Axes, sessions: Collection[float]) -> None:
    """Number the x axis with whole sessions, also where there is one."""
    if len(sessions) == 1:
        (only,) = sessions
        axes.set_xlim(only - 0.5, only + 0.5)
        axes.set_xticks([only])
        return
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))


def has_line(values: Floats) -> bool:
    """Whether a line through some values is seen: two neighbours are known."""
    known = ~np.isnan(values)
    return bool((known[1:] & known[:-1]).any())


def draw_curve(axes: Axes, curve: Curve, *, turns: bool = True) -> None:
    """Draw the mean of a curve over its runs, and how far they lie apart.

    That is a band of the 95 % t-interval, between 0 and 100; of fewer than `LEAST` runs, whose
    interval says little, the runs themselves. Where not every point has a mark, the marks of
    learners take `turns`, or all are at the same places.
    """
    values = curve.values
    x = curve.x
    n = len(values)
    mean = values.mean(axis=0)
    label = "" if np.isnan(mean).all() else words(curve.label)
    if curve.style is None:
        if label and len(x) == 1:  # of one point a level is seen
            axes.axhline(mean[0], **CHANCE, label=label)
        elif has_line(mean):
            axes.plot(x, mean, **CHANCE, label=label)
        return
    ink = look(curve.style)["color"]
    if 1 < n < LEAST:
        axes.plot(x, values.T, color=ink, linewidth=0.6, alpha=0.5)
    elif n > 1:
        half = values.std(axis=0, ddof=1) * t_quantile(n) / np.sqrt(n)
        low = np.clip(mean - half, 0, 100)
        high = np.clip(mean + half, 0, 100)
        axes.fill_between(x, low, high, color=ink, alpha=0.1, linewidth=0)
    every = max(1, -(-len(x) // 6))
    whole: Any = {"clip_on": False, "zorder": 3}  # also at 0, where the axis would cover half
    first = curve.style % every if turns else 0
    marks = {**look(curve.style), "markevery": (first, every)}
    axes.plot(x, mean, **marks, **whole, label=label)


# --- of rows ---


def stack(results: Results, read: Callable[[RunRecord, Path | None], Any]) -> Floats:
    """(n, …) an array of each measurement, so that figures have the means of tables.

    `read` gives it of a run, by its record and its directory; None where the run has none.
    """
    made = []
    for runs in results.measured:
        each = [read(run.record, run.place) for run in runs if run.record is not None]
        known = [values for values in each if values is not None]
        if known:
            made.append(np.array(known, dtype=np.float64).mean(axis=0))
    return np.array(made, dtype=np.float64)


def stack_matrices(row: Row) -> Floats:
    """R of each measurement: (n, T, E)."""
    return stack(row.results, lambda run, _: run.R)


def score_name(group: Group) -> str:
    """The main score of a table, for an axis."""
    return curve_name(FINAL, group.score)


def accuracy_curves(
    rows: Sequence[Row],
    styles: Mapping[str, int],
    width: float,
    metric: str = FINAL,
    *,
    fit: bool = False,
) -> dict[str, Figure]:
    """Title → figure of the main score after each session; none on a stream of one session.

    On all sessions so far; where R is square, on session 0 and on the newest. `metric` is one of
    `POOLED`, which the title of the first says.
    """
    group = rows[0].group
    drawn = [row for row in rows if row.used and row.learner != GUESSES]
    if group.sessions < 2 or not any(row.used for row in rows):
        return {}
    guess = group.guessed
    orders = order_words(drawn)

    def figure(
        values: Sequence[Any],
        ideal: float,
        chance: Floats | None,
        first: int = 0,
        *,
        metric: str = FINAL,
        level: str = ALL_CLASSES,
    ) -> Figure:
        """A figure of (n, T) fractions of each row, and the (T,) of guessing."""
        curves = []
        x = range(first, group.sessions)
        for row, each in zip(drawn, values, strict=True):
            scores = 100 * np.array(each, dtype=np.float64)
            curves.append(Curve(scores, x, styles.get(row.label), row.label))
        if chance is not None and len(chance) == len(x):
            label = level_name("chance", float(chance[-1]))
            curves.append(Curve(100 * chance[None], x, None, label))
        name = curve_name(metric, group.score) + orders
        return draw_curves(curves, ideal, width, name, fit=fit, level=level)

    base, *others = group.ideals or [math.nan]
    ideal = math.nan if others else base  # the α_ideal of all sessions together
    matrices = [stack_matrices(row) for row in drawn]
    pooled = [stack(row.results, lambda run, _: run.pooled) for row in drawn]
    chance = guess.pooled if guess else None
    figures = {"All sessions so far": figure(pooled, ideal, chance, metric=metric)}
    if all(R.shape[1] == R.shape[2] for R in matrices):
        shared = ideal if group.first.reference.normalise_new else math.nan
        newest = [np.diagonal(R, axis1=1, axis2=2)[:, 1:] for R in matrices]
        first = [R[:, :, 0] for R in matrices]
        chances = (guess.R[:, 0], np.diagonal(guess.R)[1:]) if guess else (None, None)
        level = "offline" if others else ALL_CLASSES  # of session 0, where each has its own
        figures["Session 0"] = figure(first, base, chances[0], level=level)
        figures["The newest session"] = figure(newest, shared, chances[1], 1)
    return figures


def draw_one(
    rows: Sequence[Row],
    styles: Mapping[str, int],
    width: float,
    metric: str,
    *,
    fit: bool = False,
) -> Figure:
    """A metric after each session: a curve of records or of `ANSWER_METRICS`, or the base score."""
    if metric in POOLED:
        return accuracy_curves(rows, styles, width, metric, fit=fit)["All sessions so far"]
    check_curve(rows, metric)
    curves = []
    factor = 100 if is_percent(metric) else 1
    for row in (row for row in rows if row.used and row.learns):
        values = factor * stack(row.results, lambda run, place: read_curve(run, place, metric))
        if values.size and not np.isnan(values).all():
            x = range(values.shape[1])
            curves.append(Curve(values, x, styles[row.label], row.label))
    if not curves:
        raise no_curve(metric)
    name = curve_name(metric, rows[0].group.score) + order_words(rows)
    return draw_curves(curves, math.nan, width, name, fit=fit)


def order_words(rows: Sequence[Row]) -> str:
    """Say how many class orders the runs of a stream have, where each seed draws its own."""
    orders = count_orders(run for row in rows if row.learns for run in row.used)
    return f", over {orders} class orders" if orders > 1 else ""


def check_curve(rows: Sequence[Row], metric: str) -> None:
    """Refuse a metric that no run may have after each session."""
    curves = {name for row in rows for run in row.used for name in run.curves or ()}
    known = [*POOLED, *CURVES_OF, *curves, *ANSWER_METRICS]
    if metric not in known:
        raise unknown("curve over sessions", metric, known)


def no_curve(metric: str) -> UserError:
    """The error of a metric that is known, and that no run has."""
    return UserError(
        f"no run has {metric} after each session; how sure answers are is stored, but for "
        "label sets and for learners whose scores give no probabilities"
    )


def curve_name(metric: str, score: str) -> str:
    """What a figure of curves shows, in a table of one base score."""
    if metric in POOLED:
        name = f"{metric_name(FINAL, score)} (%)"
        average = "A_avg" if score == "accuracy" else "AIA"
        return f"{name} after each session, whose mean is {average}" if metric != FINAL else name
    quoted = {curve: name for name, curve in CURVES_OF.items()}
    name = heading(quoted.get(metric, metric))
    return name if metric in ANSWER_METRICS else f"{name}, of {metric_name(FINAL, score)}"


def read_curve(run: RunRecord, place: Path | None, metric: str) -> Any:
    """(T,) a metric of one run after each session, as fractions; None if it has none."""
    if metric in POOLED:
        return run.pooled
    if metric not in ANSWER_METRICS or place is None:
        return (run.curves or {}).get(CURVES_OF.get(metric, metric))
    answers = record_files.read_predictions(place, run)
    return ANSWER_METRICS[metric].curve(answers)
