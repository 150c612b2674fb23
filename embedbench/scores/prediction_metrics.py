"""Metrics of stored answers: computed where they are asked for by `--metric`, in no record.

Most need how sure the answers were, which files of version 1.0 do not hold. So a record stays the
same whether its answers have it or not, and such a metric is absent from a run without.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from embedbench.array_types import Floats

from . import stability_gap, top5_and_calibration, unknown_class_detection
from .metrics import Metric
from .predictions import Predictions

AT_END = (
    top5_and_calibration.top5_accuracy,
    top5_and_calibration.nll,
    top5_and_calibration.brier_score,
    top5_and_calibration.calibration_error,
)
# of score matrices, as the metrics of records are
OF_MATRICES: dict[str, Metric] = {
    f.__name__: f for f in (stability_gap.min_accuracy, stability_gap.windowed_forgetting)
}
KINDS = ("unknown", "far")  # later classes, and the classes of another file
RAW = ("nll", "brier_score")  # no fractions: never in percent
LOWER = (
    *("nll", "brier_score", "calibration_error", "windowed_forgetting"),
    *(f"{kind}_fpr95_by_{signal}" for kind in KINDS for signal in unknown_class_detection.SIGNALS),
)


@dataclass(frozen=True)
class AnswerMetric:
    """A metric of predictions: its function computes the values after each session.

    The signal is a key of `unknown_class_detection.SIGNALS`; names end with it.
    """

    name: str
    function: Callable[..., Floats | None]
    signal: str | None = None
    origin: ClassVar[str] = "the stored answers"

    @property
    def lower_is_better(self) -> bool:
        """Whether less is better."""
        return self.name in LOWER

    def curve(self, p: Predictions) -> Floats | None:
        """(T,) its value after each session; None if the predictions do not hold what it needs."""
        return self.function(p) if self.signal is None else self.function(p, self.signal)

    def __call__(self, p: Predictions) -> float | None:
        """The run's value: that after the last session, or the mean where something is unknown."""
        values = self.curve(p)
        if values is None:
            return None
        if self.signal is None:
            return float(values[-1])
        if self.function in unknown_class_detection.NEAR:
            values = values[~p.seen[p.ends][:, p.y].all(axis=1)]
        return float(np.mean(values)) if len(values) else float("nan")


ANSWER_METRICS = {f.__name__: AnswerMetric(f.__name__, f) for f in AT_END} | {
    name: AnswerMetric(name, f, signal)
    for f in (*unknown_class_detection.NEAR, *unknown_class_detection.FAR)
    for signal in unknown_class_detection.SIGNALS
    for name in [f"{f.__name__}_by_{signal}"]
}
# what computes and describes each
FUNCTIONS: dict[str, Callable[..., object]] = {
    **{name: metric.function for name, metric in ANSWER_METRICS.items()},
    **OF_MATRICES,
}
