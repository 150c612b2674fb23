"""The checks for metrics: what must hold for each of them, whatever it measures."""

import copy
import inspect
import math
import warnings
from dataclasses import fields, replace

import numpy as np

from embedbench.scores.metrics import Metric, Reference
from embedbench.scores.score_matrix import ScoreMatrix

from .check_building_blocks import Checks, demand

METRIC_CHECKS = Checks[Metric]()
SEEDS = range(20)


def random_scores(seed: int, sessions: int = 3) -> ScoreMatrix:
    """Random scores above 0, one class a session; later sessions are tested from the start."""
    draw = np.random.default_rng(seed)
    return ScoreMatrix.from_matrix(draw.uniform(0.01, 1, (sessions, sessions)))


def reference(sessions: int = 3) -> Reference:
    """A reference with every field measured; with an α_ideal of 1, fractions stay the same."""
    return Reference(ideal=1.0, chance=np.full(sessions, 0.3), so_far=np.ones(sessions))


def value_of(metric: Metric, scores: ScoreMatrix, references: Reference) -> float:
    """The metric's value, which must be a float, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value = metric(scores, references)
    demand(type(value) is float, f"expected a float, got {value!r} of {type(value).__name__}")
    return value


@METRIC_CHECKS.add
def says_where_it_comes_from(metric: Metric) -> None:
    """The docstring has a sentence as its first line, and its **Source**."""
    text = inspect.getdoc(metric) or ""
    demand("**Source**" in text, "expected **Source** and the paper in the docstring, it has none")
    summary = text.partition("\n")[0]
    demand(summary.endswith("."), f"expected a sentence in the first line, got {summary!r}")


@METRIC_CHECKS.add
def is_a_fraction(metric: Metric) -> None:
    """From fractions it computes a float between -1 and 1."""
    for seed in SEEDS:
        value = value_of(metric, random_scores(seed), reference())
        demand(-1 <= value <= 1, f"expected a fraction between -1 and 1, got {value}")


@METRIC_CHECKS.add
def one_session_is_no_silent_zero(metric: Metric) -> None:
    """With a single session the value is the score of that session, or NaN."""
    for seed in SEEDS:
        scores = random_scores(seed, sessions=1)
        value = value_of(metric, scores, reference(1))
        one = float(scores.R[0, 0])
        right = math.isnan(value) or abs(value - one) < 1e-9
        demand(right, f"expected NaN or the score of one session, {one}, got {value}")


@METRIC_CHECKS.add
def undefined_scores_are_nan(metric: Metric) -> None:
    """Without defined scores the value is NaN; without references it is NaN or unchanged."""
    scores = random_scores(0)
    measured = value_of(metric, scores, reference())
    parts = ("values", "pooled", "per_class", "class_sizes")
    none = {part: np.full_like(getattr(scores, part), np.nan) for part in parts}
    value = value_of(metric, replace(scores, **none), reference())
    demand(math.isnan(value), f"expected NaN of undefined scores, got {value}")
    unmeasured = value_of(metric, scores, Reference())
    right = math.isnan(unmeasured) or unmeasured == measured
    demand(right, f"expected NaN or {measured} without references, got {unmeasured}")


@METRIC_CHECKS.add
def scores_stay_untouched(metric: Metric) -> None:
    """The metric does not change the score matrix."""
    scores = random_scores(0)
    before = copy.deepcopy(scores)
    metric(scores, reference())
    for f in fields(scores):
        a = np.asarray(getattr(scores, f.name))
        b = np.asarray(getattr(before, f.name))
        same = np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        demand(same, f"expected {f.name} as it was, the metric changed it")
