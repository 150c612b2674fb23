"""Figures of curves: scores over sessions or samples, and how sure the answers are."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from embedbench.array_types import Floats, Ints
from embedbench.errors import UserError
from embedbench.scores import record_files
from embedbench.scores.mean_intervals import t_quantile
from embedbench.scores.predictions import Predictions
from embedbench.scores.run_record import Moments, RunRecord
from embedbench.scores.top5_and_calibration import reliability_bins
from embedbench.scores.unknown_class_detection import SIGNALS
from embedbench.scores.unrecorded_metrics import ANSWER_METRICS, KINDS

from .figure_style import CHANCE, OFFLINE, STYLE, fit, level_name, words
from .learner_colours import colour, look
from .result_rows import Group, Row

LEAST = 5  # runs of a band
FEW = 20  # answers of a bin: the share of right ones among fewer says little
GUESS = 50.0  # percent: AUROC of a signal that knows nothing
MANY = 8  # from so many curves on, bands are paler
PARTS = (  # curves of their own
    ("raa", "RAA: against guessing"),
    ("raf", "RAF: forgetting against guessing"),
    ("superclass_pw_js", "Superclasses alone: pw-JS"),
    ("subclass_precision", "Precision among subclasses"),
)


@dataclass(frozen=True)
class Curve:
    """Scores of one learner, session by session or by training samples."""

    values: Floats  # (n, T) fractions, one row per run; NaN where undefined
    x: Floats | Ints  # (T,) sessions, or training samples seen
    style: int | None  # its colour and mark; None for what others are compared with (dotted)
    label: str = ""  # its name in a legend


@rc_context(STYLE)
def draw_curves(
    curves: Sequence[Curve],
    ideal: float,
    width: float,
    *,
    chance: Curve | None = None,
    name: str = "",
    across: str = "after session",
) -> Figure:
    """Means over runs, see `draw_curve`; the y axis fits what is drawn.

    `ideal` is α_ideal as a fraction, dashed, unless NaN; `chance` is drawn where it lies between
    the others; `name` says what the scores are, `across` what they are drawn over.
    """
    pale = 0.15 if len(curves) < MANY else 0.06
    figure = Figure(figsize=(width, 2.15 if width < 4 else 2.6), layout="constrained")
    axes = figure.add_subplot()
    for curve in curves:
        draw_curve(axes, replace(curve, values=100 * curve.values), alpha=pale)
    if not math.isnan(ideal):
        axes.axhline(100 * ideal, **OFFLINE, label=level_name("offline", ideal))
    fit(axes, axes.dataLim.y0, axes.dataLim.y1, 100)
    if chance is not None:
        (low, high), guesses = axes.get_ylim(), 100 * chance.values.mean(axis=0)
        if ((low <= guesses) & (guesses <= high)).any():
            draw_curve(axes, replace(chance, values=guesses[None]))
    last = max(curve.x[-1] for curve in curves)
    axes.set_xlim(-0.02 * last, 1.02 * last)
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(across)
    axes.set_title(name or "%", loc="left")
    return figure


def draw_curve(axes: Axes, curve: Curve, *, alpha: float = 0.15) -> None:
    """Draw the mean of a curve in percent over its runs, and how far they lie apart.

    That is a band of the 95 % t-interval, between 0 and 100; of fewer than `LEAST` runs, whose
    interval says little, the runs themselves.
    """
    values, x = curve.values, curve.x
    n, sessions = values.shape
    mean = values.mean(axis=0)
    label = "" if np.isnan(mean).all() else words(curve.label)
    if curve.style is None:
        axes.plot(x, mean, **CHANCE, label=label)
        return
    ink = colour(curve.style)
    if 1 < n < LEAST:
        axes.plot(x, values.T, color=ink, linewidth=0.6, alpha=0.5)
    elif n > 1:
        half = values.std(axis=0, ddof=1) * t_quantile(n) / np.sqrt(n)
        low, high = np.clip(mean - half, 0, 100), np.clip(mean + half, 0, 100)
        axes.fill_between(x, low, high, color=ink, alpha=alpha, linewidth=0)
    every = max(1, -(-sessions // 6))
    look_of: Any = look(curve.style) | {"markevery": (curve.style % every, every)}
    axes.plot(x, mean, **look_of, solid_joinstyle="round", label=label)


# --- of rows: over sessions ---


def stack_matrices(row: Row) -> Floats:
    """R of the runs used, stacked: (n, T, E)."""
    return np.array([run.R for run in row.used], dtype=np.float64)


def score_name(group: Group, *, brief: bool = False) -> str:
    """The main score of a table, for an axis."""
    names = {"class_accuracy": "accuracy" if brief else "mean per-class accuracy", "pw_js": "pw-JS"}
    return f"{names.get(group.first.score, group.first.score)} (%)"


def accuracy_curves(
    rows: Sequence[Row], styles: Mapping[str, int], width: float
) -> dict[str, Figure]:
    """Title → figure of the main score after each session; none on a stream of one session.

    On all sessions so far; where R is square, on session 0 and on the newest; then scores against
    guessing and of parts of the classes, where every run has them and they are defined.
    """
    group, drawn = rows[0].group, [row for row in rows if row.used]
    if group.sessions < 2 or not drawn:
        return {}
    learners = [row for row in drawn if row.learns] or drawn
    guesses = [row for row in drawn if not row.learns and learners is not drawn][:1]
    guess, name = level_name("chance", group.chance), score_name(group)

    def figure(
        read: Callable[[RunRecord], Any], ideal: float, name: str, first: int = 0, level: Any = None
    ) -> Figure:
        def curve(row: Row) -> Curve:
            values = np.array([read(run) for run in row.used], dtype=np.float64)
            x = np.arange(first, first + values.shape[1])
            return Curve(values, x, styles.get(row.label), row.label if row.learns else guess)

        level = next(map(curve, guesses), level)
        return draw_curves([*map(curve, learners)], ideal, width, chance=level, name=name)

    base_ideal, *others = group.ideals or [math.nan]
    ideal = math.nan if others else base_ideal  # the α_ideal of all sessions together
    by_chance = np.full((1, group.sessions), group.chance)
    # a row of chance alone is drawn itself
    level = None if learners is drawn else Curve(by_chance, np.arange(group.sessions), None, guess)
    figures = {"All sessions so far": figure(lambda r: r.pooled, ideal, name, level=level)}
    if all(len(r.R) == len(r.R[0]) for row in drawn for r in row.used):
        shared = ideal if group.first.reference.normalise_new else math.nan
        figures["Session 0"] = figure(lambda r: [line[0] for line in r.R], base_ideal, name)
        figures["The newest session"] = figure(lambda r: np.diagonal(r.R)[1:], shared, name, 1)
    for key, title in PARTS:
        parts = [(run.curves or {}).get(key) for row in drawn for run in row.used]
        if None not in parts and not np.isnan([part for part in parts if part]).all():
            figures[title] = figure(partial(_part, key), math.nan, "")
    return figures


def _part(key: str, record: RunRecord) -> Sequence[float]:
    return (record.curves or {})[key]


def by_samples(rows: Sequence[Row], styles: Mapping[str, int], width: float) -> dict[str, Figure]:
    """Title → figure of the score on all sessions so far, against training samples seen.

    There is none unless some run was evaluated within sessions. Rows of older records, which have
    no moments, are not drawn.
    """
    every = [(row, [r.moments for r in row.used if r.moments]) for row in rows if row.used]
    drawn = [(row, moments) for row, moments in every if len(moments) == len(row.used)]
    if all(len(m.pooled) == len(row.used[0].pooled) for row, moments in drawn for m in moments):
        return {}
    curves = [
        Curve(_align(moments), np.array(moments[0].samples_seen), styles.get(row.label), row.label)
        for row, moments in drawn
    ]
    name = score_name(rows[0].group)
    return {
        "All sessions so far, by samples": draw_curves(
            curves, math.nan, width, name=name, across="training samples seen"
        )
    }


def _align(moments: Sequence[Moments]) -> Floats:
    """(n, M) scores of the runs at the moments of the first run.

    With another class order, sessions have other sizes and end at other moments. So a run's score
    is interpolated between its moments; before its first moment it is NaN.
    """
    at = moments[0].samples_seen
    return np.stack([np.interp(at, m.samples_seen, m.pooled, left=np.nan) for m in moments])


# --- how sure answers are: is the confidence right, and does it see unknown classes? ---


@rc_context(STYLE)
def calibration(rows: Sequence[Row], styles: Mapping[str, int], width: float) -> Figure:
    """The share of right answers of one table against their probability, after the last session.

    A mark is a bin of `calibration_error` with at least 20 answers, over all runs of a learner; on
    the diagonal confidence is right, below it the learner is too sure. The legend has the
    calibration error.
    """
    size = min(width, 3.25)
    figure = Figure(figsize=(width, size), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([0, 100], [0, 100], **OFFLINE)
    for row in _drawn(rows):
        made = [p for p in _predictions(row) if p.logp is not None]
        if not made:
            continue
        samples, *sums = np.sum([reliability_bins(p, len(p.session) - 1) for p in made], axis=0)
        drawn = samples >= FEW
        confidence, right = (100 * each[drawn] / samples[drawn] for each in sums)
        errors = [ANSWER_METRICS["calibration_error"](p) or 0.0 for p in made]
        label = words(f"{row.label} (ECE {100 * np.mean(errors):.1f})")
        axes.plot(confidence, right, **look(styles[row.label]), label=label)
    if len(axes.lines) == 1:
        raise UserError(_absent("calibration", "probabilities"))
    axes.set_xlim(0, 101)
    axes.set_ylim(0, 101)
    axes.set_aspect("equal", anchor="N")  # a long legend grows below, the title stays
    axes.grid()
    axes.set_xlabel("probability of the answer (%)")
    axes.set_title("right answers (%)", loc="left")
    return figure


@rc_context(STYLE)
def unknown(rows: Sequence[Row], styles: Mapping[str, int], width: float) -> Figure:
    """AUROC of seen classes against those that come later, after each session but the last.

    Means over runs, see `draw_curve`; a panel for each signal that some run holds, beside each
    other on a page, one above the other in a column. Below them, AUROC against far samples.
    """
    panels: dict[tuple[str, str], dict[str, Curve]] = {
        (kind, signal): {} for kind in KINDS for signal in SIGNALS
    }
    for row in _drawn(rows):
        made = _predictions(row)
        for (kind, signal), curves in panels.items():
            values = [ANSWER_METRICS[f"{kind}_auroc_by_{signal}"].curve(p) for p in made]
            known = [100 * v for v in values if v is not None]
            if known and not np.isnan(known).all():
                x = np.arange(1 + np.flatnonzero(~np.isnan(known).all(axis=0))[-1])
                drawn = np.array(known)[:, : len(x)]  # in later sessions nothing is unknown
                curves[row.label] = Curve(drawn, x, styles[row.label], row.label)
    panels = {key: curves for key, curves in panels.items() if curves}
    if not panels:
        raise UserError(_absent("unknown", "scores, and has classes that come later"))
    kinds, signals = (list(dict.fromkeys(part)) for part in zip(*panels, strict=True))
    beside = width > 4
    shape = (len(kinds), len(signals)) if beside else (len(panels), 1)
    height = 2.4 * shape[0] if beside else 1.7 * shape[0]
    figure = Figure(figsize=(width, height), layout="constrained")
    every = figure.subplots(*shape, sharex=True, sharey=True, squeeze=False).ravel()
    limits = []  # the panels share an axis: each of them sets it anew
    for axes, ((kind, signal), curves) in zip(every, panels.items(), strict=False):
        for curve in curves.values():
            draw_curve(axes, curve, alpha=0.08)
        axes.axhline(GUESS, **CHANCE, label="guessing")
        fit(axes, axes.dataLim.y0, axes.dataLim.y1, 100)
        limits.append(axes.get_ylim())
        axes.grid(axis="y")
        against = ", far samples" if kind == "far" else ""
        axes.set_title(f"AUROC by {signal} (%){against}", loc="left")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    lows, highs = zip(*limits, strict=True)
    every[0].set_ylim(min(lows), max(highs))
    for axes in every[-shape[1] :]:
        axes.set_xlabel("after session")
    return figure


def _drawn(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.used and row.learns]


def _predictions(row: Row) -> list[Predictions]:
    """The answers of the runs of a row that are at hand and have one class a sample."""
    places = [(row.place_of(run), run) for run in row.used]
    made = [record_files.read_predictions(at, run) for at, run in places if at is not None]
    return [p for p in made if isinstance(p, Predictions)]


def _absent(kind: str, what: str) -> str:
    return (
        f"--figure {kind} needs answers with {what}, and no run here has that stored; embedbench "
        "run stores how sure answers are, but for label sets"
    )
