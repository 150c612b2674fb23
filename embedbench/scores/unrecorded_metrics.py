"""Metrics that records do not hold: those of installed packages, and those asked for by name.

What is in a record is recomputed and compared wherever it is read, also where a package is missing
or has another version. These are computed from the predictions whenever they are asked for.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from embedbench import plugins
from embedbench.errors import UserError

from .make_score_matrices import score_matrices
from .metrics import Metric, Reference, all_metrics
from .offline_references import reference_values
from .prediction_metrics import ANSWER_METRICS, OF_MATRICES, AnswerMetric
from .predictions import Predictions
from .record_files import read_predictions
from .run_record import RunRecord
from .score_matrix import ScoreMatrix

Outside = Mapping[str, "OutsideMetric | AnswerMetric"]


@dataclass(frozen=True)
class OutsideMetric:
    """A metric of other people.

    Parameters
    ----------
    name : str
        The name of its entry point, or `package.module:function`.
    function : callable
        `function(scores, reference)`, see `embedbench.scores.metrics`.
    origin : str
        Name and version of its package; where it has none, "a file of yours".
    """

    name: str
    function: Metric
    origin: str

    @classmethod
    def load(cls, name: str) -> "OutsideMetric":
        """The metric that a name means."""
        if name in OF_MATRICES:
            return cls(name, OF_MATRICES[name], "the stored answers")
        function = plugins.load("metrics", name, {**all_metrics(), **OF_MATRICES, **ANSWER_METRICS})
        if not takes_scores(function):
            raise UserError(
                f"{name!r} is no metric: expected a function of (scores, reference), got "
                f"{type(function).__name__} {getattr(function, '__name__', '')}".rstrip()
            )
        package = plugins.find_package(function)
        return cls(name, function, " ".join(package) if package else "a file of yours")

    @property
    def lower_is_better(self) -> bool:
        """Whether less is better: the function has an attribute `lower_is_better` that is true."""
        return bool(getattr(self.function, "lower_is_better", False))

    def __call__(self, scores: ScoreMatrix, reference: Reference) -> float:
        """The value of one score matrix."""
        try:
            with np.errstate(invalid="ignore", divide="ignore"):
                return float(self.function(scores, reference))
        except Exception as e:  # code of other people may fail in any way
            raise UserError(
                f"the metric {self.name} of {self.origin} failed: {type(e).__name__}: {e}"
            ) from e


def takes_scores(function: Any) -> bool:
    """Whether something can be called with `(scores, reference)` and is no class."""
    if inspect.isclass(function) or not callable(function):
        return False
    try:
        inspect.signature(function).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True


def outside_metrics(names: Sequence[str], notify: Callable[[str], None]) -> Outside:
    """The metrics of installed packages, and those of `names` that records do not hold.

    `names` are as typed by the user: our metrics, entry points, or `package.module:function`. A
    metric of a package that cannot be used is left out, and a sentence says so.
    """
    result: dict[str, OutsideMetric | AnswerMetric] = {
        name: ANSWER_METRICS[name] if name in ANSWER_METRICS else OutsideMetric.load(name)
        for name in names
        if name not in all_metrics()
    }
    for name in sorted(plugins.entry_points_by_name("metrics")):
        if name in {**all_metrics(), **OF_MATRICES, **ANSWER_METRICS}:
            notify(
                f"the metric {name} of an installed package has the name of one of ours; left out"
            )
        elif name not in result:
            try:
                result[name] = OutsideMetric.load(name)
            except UserError as e:
                notify(f"a metric is left out: {e}")
    return result


def with_outside(
    made: RunRecord, place: Path, metrics: Outside, notify: Callable[[str], None]
) -> RunRecord:
    """A record whose metrics include those that records do not hold.

    Those of score matrices are there for every base score; one that fails is NaN, and a sentence
    says so. One of answers is absent where the predictions do not hold what it needs.
    """
    if not metrics:
        return made
    by_score = dict(made.by_score)
    predictions = read_predictions(place, made)
    of_matrices = {k: m for k, m in metrics.items() if isinstance(m, OutsideMetric)}
    for name, matrix in score_matrices(predictions, made.n_train_by_class).items():
        reference = reference_values(made.reference, name)
        values = dict.fromkeys(of_matrices, math.nan)
        for key, metric in of_matrices.items():
            try:
                values[key] = metric(matrix, reference)
            except UserError as e:
                notify(str(e))
        if name in by_score:
            scored = by_score[name]
            by_score[name] = replace(scored, metrics={**scored.metrics, **values})
        if name == made.score:
            made = replace(made, metrics={**made.metrics, **values})
    if isinstance(predictions, Predictions):
        answers = {k: m(predictions) for k, m in metrics.items() if isinstance(m, AnswerMetric)}
        known = {k: v for k, v in answers.items() if v is not None}
        made = replace(made, metrics={**made.metrics, **known})
    return replace(made, by_score=by_score)
