"""Figures of how sure answers are: is the confidence right, and does it see unknown classes?"""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from embedbench.array_types import Floats
from embedbench.errors import UserError
from embedbench.scores import record_files
from embedbench.scores.prediction_metrics import ANSWER_METRICS, KINDS
from embedbench.scores.predictions import Predictions
from embedbench.scores.top5_and_calibration import ReliabilityBins, reliability_bins
from embedbench.scores.unknown_class_detection import SIGNALS

from .curve_figures import Curve, draw_curve
from .figure_style import CHANCE, OFFLINE, STYLE, fit, words
from .learner_colours import look
from .result_rows import Row

FEW = 20  # answers of a bin: the share of right ones among fewer says little
GUESS = 50.0  # percent: AUROC of a signal that knows nothing


@rc_context(STYLE)
def calibration(rows: Sequence[Row], styles: Mapping[str, int], width: float) -> Figure:
    """The share of right answers of one table against their probability, after the last session.

    A mark is a bin of `calibration_error` with at least 20 answers, over all runs of a learner; on
    the diagonal confidence is right, below it the learner is too sure. The legend has the
    calibration error.

    Raises
    ------
    UserError
        No run holds probabilities.
    """
    size = min(width, 3.25)
    figure = Figure(figsize=(width, size), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([0, 100], [0, 100], **OFFLINE)
    for row in _drawn(rows):
        made = [p for p in _predictions(row) if p.logp is not None]
        if not made:
            continue
        each = [reliability_bins(p, len(p.session) - 1) for p in made]
        bins = ReliabilityBins(*(np.sum(parts, axis=0) for parts in zip(*each, strict=True)))
        drawn = bins.samples >= FEW
        confidence, right = (100 * v[drawn] / bins.samples[drawn] for v in bins[1:])
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

    Raises
    ------
    UserError
        No run holds scores, or nothing is unknown.
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
                curves[row.label] = Curve(
                    _until_known(np.array(known)), styles[row.label], row.label
                )
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
            draw_curve(axes, curve, 0, alpha=0.08)
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


def _until_known(values: Floats) -> Floats:
    """(n, T) → (n, k): without the last sessions, in which nothing is unknown."""
    return values[:, : int(np.flatnonzero(~np.isnan(values).all(axis=0))[-1]) + 1]


def _drawn(rows: Sequence[Row]) -> list[Row]:
    """The learners that are drawn."""
    return [row for row in rows if row.used and row.learns]


def _predictions(row: Row) -> list[Predictions]:
    """The answers of the runs of a row that are at hand and have one class a sample."""
    places = [(row.place_of(run), run) for run in row.used]
    made = [record_files.read_predictions(at, run) for at, run in places if at is not None]
    return [p for p in made if isinstance(p, Predictions)]


def _absent(kind: str, what: str) -> str:
    return (
        f"--figure {kind} needs answers with {what}, and no run here has that stored; embedbench "
        "run stores how sure answers are, but with --answers plain and for label sets"
    )
