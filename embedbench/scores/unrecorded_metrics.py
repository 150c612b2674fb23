"""Metrics that records do not hold: of stored answers, of installed packages, and of your own.

What is in a record is recomputed and compared wherever it is read, also where a package is missing
or has another version, and whether its answers say how sure they were or not. These metrics are
computed from the predictions whenever they are asked for.
"""

import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from embedbench import plugins
from embedbench.array_types import Floats
from embedbench.errors import UserError, error_text, keep_inside

from .metrics import Metric, Reference, all_metrics
from .offline_references import reference_values
from .old_and_new_classes import LOWER as LOWER_OF_CLASSES
from .old_and_new_classes import OLD_AND_NEW
from .run_answers import RunAnswers
from .score_matrix import ScoreMatrix, mean_or_nan
from .top5_and_calibration import brier_score, calibration_error, nll, top5_accuracy
from .unknown_class_detection import SIGNALS, oscr, unknown_auroc, unknown_fpr95

if TYPE_CHECKING:
    from .run_record import RunRecord

STORED = "the stored answers"  # what our own of these metrics are of
AT_END = (top5_accuracy, nll, brier_score, calibration_error)
UNKNOWN = (unknown_auroc, unknown_fpr95, oscr)
WINDOW = 10  # moments; the shorter one of De Lange et al.


# --- the stability gap: how far old sessions fall while a new one is learned, and rise again ---


def min_accuracy(scores: ScoreMatrix, reference: Reference) -> float:
    """Min-ACC: mean over old sessions of the lowest score at any moment after they were learned.

    1/(T-1) Σ_{j<T-1} min_m R_m[j] over the moments m after the end of session j, those between the
    ends of sessions too. NaN where a run was evaluated at the ends of sessions alone.

    **Source**: De Lange et al. (2023), average minimum accuracy, min-ACC.

    Examples
    --------
    >>> values, session = [[0.9, 0], [0.5, 0.1], [0.6, 0.8]], [0, 1, 1]
    >>> scores = ScoreMatrix.from_matrix(values, session)
    >>> min_accuracy(scores, Reference())
    0.5
    """
    lows = [
        scores.values[scores.session > scores.learned[j], j].min()
        for j in np.flatnonzero(scores.tested)
        if scores.learned[j] < scores.session[-1]
    ]
    return mean_or_nan(lows if _has_moments(scores) else [])


def windowed_forgetting(scores: ScoreMatrix, reference: Reference) -> float:
    """WF: mean over sessions of the largest drop within ten moments in a row.

    1/T Σ_j max_{m<m'<m+10} (R_m[j] - R_m'[j]), over the moments since the classes of session j were
    seen; 0 where the score never falls. Lower is better. It depends on `evaluate_every`: compare
    runs of one setting. NaN where a run was evaluated at the ends of sessions alone.

    **Source**: De Lange et al. (2023), windowed forgetting WF^w with w = 10, as their code
    computes it. **Departs**: they evaluate after every step of the optimiser, a run here after
    every `evaluate_every` samples; a session with one moment has no drop and counts as 0.

    Examples
    --------
    >>> values, session = [[0.9, 0], [0.5, 0.1], [0.6, 0.8]], [0, 1, 1]
    >>> scores = ScoreMatrix.from_matrix(values, session)
    >>> round(windowed_forgetting(scores, Reference()), 3)  # (0.4 + 0) / 2
    0.2
    """
    drops = [_largest_drop(scores.values[:, j]) for j in np.flatnonzero(scores.tested)]
    return mean_or_nan(drops if _has_moments(scores) else [])


def _has_moments(scores: ScoreMatrix) -> bool:
    """Whether there are moments between the ends of sessions."""
    return len(scores.session) > len(scores.ends)


def _largest_drop(values: Floats) -> float:
    """The largest drop from one value to one of the nine after it; at least 0."""
    known = values[~np.isnan(values)]
    lags = range(1, min(WINDOW, len(known)))
    return max([0.0, *(float((known[:-lag] - known[lag:]).max()) for lag in lags)])


# of score matrices, as the metrics of records are
OF_MATRICES: dict[str, Metric] = {
    **{f.__name__: f for f in (min_accuracy, windowed_forgetting)},
    **OLD_AND_NEW,
}
KINDS = ("unknown", "far")  # later classes, and the classes of another file
RAW = ("nll", "brier_score")  # no fractions: never in percent
LOWER = (
    *("nll", "brier_score", "calibration_error", "windowed_forgetting", *LOWER_OF_CLASSES),
    *(f"{kind}_fpr95_by_{signal}" for kind in KINDS for signal in SIGNALS),
)


@dataclass(frozen=True)
class AnswerMetric:
    """A metric of predictions: its function computes the values after each session.

    Most need how sure the answers were, which files of version 1.0 do not hold; the metric is
    absent from such a run. The signal is a key of `unknown_class_detection.SIGNALS`; names end with
    it, and begin with `far_` where the unknown samples are those of another file.
    """

    function: Callable[..., Floats | None]
    signal: str | None = None
    far: bool = False
    lower_is_better: bool = False
    origin: ClassVar[str] = STORED

    def curve(self, p: RunAnswers) -> Floats | None:
        """(T,) its value after each session; None if the predictions do not hold what it needs."""
        if "rank" not in p.tables():  # a kind of answers that says nothing of how sure they are
            return None
        if self.signal is None:
            return self.function(p)
        return self.function(p, self.signal, far=self.far)

    def __call__(self, p: RunAnswers) -> float | None:
        """The run's value: that after the last session, or the mean where something is unknown."""
        values = self.curve(p)
        if values is None:
            return None
        if self.signal is None:
            return float(values[-1])
        if not self.far:
            values = values[~p.seen[p.ends][:, p.y].all(axis=1)]
        return mean_or_nan(values)


ANSWER_METRICS = {f.__name__: AnswerMetric(f, lower_is_better=f.__name__ in LOWER) for f in AT_END}
for far, f, signal in itertools.product((False, True), UNKNOWN, SIGNALS):
    what = "far_" + f.__name__.removeprefix("unknown_") if far else f.__name__
    name = f"{what}_by_{signal}"
    ANSWER_METRICS[name] = AnswerMetric(f, signal, far, name in LOWER)
# what computes and describes each
FUNCTIONS: dict[str, Callable[..., object]] = {
    **{name: metric.function for name, metric in ANSWER_METRICS.items()},
    **OF_MATRICES,
}


@dataclass(frozen=True)
class OutsideMetric:
    """A metric of other people; less is better where its function says `lower_is_better`."""

    name: str  # of its entry point, or `package.module:function`
    function: Metric
    origin: str  # name and version of its package; where it has none, "a file of yours"

    @classmethod
    def load(cls, name: str) -> "OutsideMetric":
        """The metric that a name means."""
        if name in OF_MATRICES:
            return cls(name, OF_MATRICES[name], STORED)
        function = plugins.load("metrics", name, {**all_metrics(), **FUNCTIONS})
        if not inspect.isfunction(function):
            raise UserError(f"{name!r} is no metric: expected a function of (scores, reference)")
        package = plugins.find_package(function)
        return cls(name, function, " ".join(package) if package else "a file of yours")

    @property
    def lower_is_better(self) -> bool:
        """Whether less is better."""
        return bool(getattr(self.function, "lower_is_better", False))

    def __call__(self, scores: ScoreMatrix, reference: Reference) -> float:
        """The value of one score matrix."""
        who = f"the metric {self.name} of {self.origin}"
        try:
            with np.errstate(invalid="ignore", divide="ignore"), keep_inside("it"):
                return float(self.function(scores, reference))
        except Exception as e:  # code of other people may fail in any way
            raise UserError(f"{who} failed: {error_text(e)}") from e


Outside = Mapping[str, OutsideMetric | AnswerMetric]


def outside_metrics(names: Sequence[str], notify: Callable[[str], None]) -> Outside:
    """The metrics of installed packages, and those of `names` that records do not hold.

    `names` are as typed by the user: our metrics, entry points, or `package.module:function`. A
    metric of a package that cannot be used is left out, and a sentence says so.
    """
    ours = {**all_metrics(), **FUNCTIONS}
    result: dict[str, OutsideMetric | AnswerMetric] = {
        name: ANSWER_METRICS[name] if name in ANSWER_METRICS else OutsideMetric.load(name)
        for name in names
        if name not in all_metrics()
    }
    for name in sorted(plugins.entry_points_by_name("metrics")):
        try:
            if name in ours:
                raise UserError(f"{name} of an installed package has the name of one of ours")
            result[name] = OutsideMetric.load(name)
        except UserError as e:
            notify(f"a metric is left out: {e}")
    return result


def with_outside(
    made: "RunRecord",
    place: Path,
    metrics: Outside,
    notify: Callable[[str], None],
    failed: Callable[[str], None] = lambda _: None,
) -> "RunRecord":
    """A record whose metrics include those that records do not hold.

    Those of score matrices are there for every base score; one that fails is NaN, and a sentence
    says so, and `failed` takes its name. Those of `chance` are of what guessing scores on average.
    One of answers is absent where the predictions do not hold what it needs.
    """
    from .record_files import read_predictions  # not needed for a list of metrics
    from .scores_of_guessing import GUESSES

    if not metrics:
        return made
    by_score = dict(made.by_score)
    main = dict(made.metrics)
    predictions = read_predictions(place, made)
    of_matrices = {k: m for k, m in metrics.items() if isinstance(m, OutsideMetric)}
    for name, drawn in predictions.score_matrices(made.n_train_by_class).items():
        matrix = drawn
        if made.learner == GUESSES:
            sizes = made.n_train_by_class
            matrix = predictions.guess_matrix(name, made.n_candidates, sizes) or drawn
        reference = reference_values(made.reference, name)
        values = dict.fromkeys(of_matrices, math.nan)
        for key, metric in of_matrices.items():
            try:
                values[key] = metric(matrix, reference)
            except UserError as e:
                notify(str(e))
                failed(key)
        if name in by_score:
            scored = by_score[name]
            by_score[name] = replace(scored, metrics={**scored.metrics, **values})
        if name == made.score:
            main |= values
    answers = {k: m(predictions) for k, m in metrics.items() if isinstance(m, AnswerMetric)}
    main |= {k: v for k, v in answers.items() if v is not None}
    return replace(made, metrics=main, by_score=by_score)
