"""The checks for metrics: what must hold for each of them, whatever it measures."""

import copy
import inspect
import math
import warnings
from dataclasses import fields, replace

import numpy as np

from embedbench.scores.metrics import Metric, Reference
from embedbench.scores.predictions import Predictions
from embedbench.scores.score_matrix import ScoreMatrix
from embedbench.scores.single_label_scores import SCORES, score_matrix

from .check_building_blocks import Checks, demand

METRIC_CHECKS = Checks[Metric]()
SEEDS = range(5)
N_CLASSES = 3
SIZES = (10, 100, 1000)  # training samples of each class


def random_predictions(seed: int, sessions: int = 3) -> Predictions:
    """Random answers on a stream with all classes in every session, 9 to 29 samples per set.

    The first sample of each class in each set has the right answer, so that no score is 0.
    """
    draw = np.random.default_rng(seed)
    sizes = draw.integers(9, 30, sessions)
    n = int(sizes.sum())
    moments = np.arange(sessions)
    y = np.concatenate([np.resize(np.arange(N_CLASSES), size) for size in sizes])
    answer, within = draw.integers(0, N_CLASSES, (2, sessions, n)).astype(np.int32)
    for start in np.cumsum(sizes) - sizes:
        right = slice(start, start + N_CLASSES)
        answer[:, right] = within[:, right] = y[right]
    return Predictions(
        ids=np.arange(n),
        y=y,
        eval_set=np.repeat(moments, sizes),
        set_classes=np.ones((sessions, N_CLASSES), dtype=np.bool_),
        session=moments,
        samples_seen=(moments + 1) * 10,
        seen=np.ones((sessions, N_CLASSES), dtype=np.bool_),
        answer=answer,
        within=within,
    )


def scores_of(p: Predictions, name: str = SCORES[0]) -> ScoreMatrix:
    """One base score of random predictions."""
    return score_matrix(p, name, SIZES)


def reference(sessions: int = 3) -> Reference:
    """A reference with every field measured; with an α_ideal of 1, fractions stay the same."""
    chance = np.full(sessions, 1 / N_CLASSES)
    return Reference(ideal=1.0, chance=chance, so_far=np.ones(sessions))


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
        for name in SCORES:
            value = value_of(metric, scores_of(random_predictions(seed), name), reference())
            demand(-1 <= value <= 1, f"expected a fraction between -1 and 1, got {value}")


@METRIC_CHECKS.add
def order_of_samples_does_not_matter(metric: Metric) -> None:
    """The order of the samples within an eval set does not change the value."""
    for seed in SEEDS:
        p = random_predictions(seed)
        sets = [np.flatnonzero(p.eval_set == e) for e in range(len(p.set_classes))]
        mixed = np.concatenate([np.random.default_rng(seed).permutation(s) for s in sets])
        other = replace(
            p, ids=p.ids[mixed], y=p.y[mixed], answer=p.answer[:, mixed], within=p.within[:, mixed]
        )
        for name in SCORES:
            a, b = (value_of(metric, scores_of(q, name), reference()) for q in (p, other))
            demand(a == b, f"expected {a} for any order of the samples, got {b}")


@METRIC_CHECKS.add
def one_session_is_no_silent_zero(metric: Metric) -> None:
    """With a single session the value is a score of that session or of its classes, or NaN."""
    for seed in SEEDS:
        scores = scores_of(random_predictions(seed, sessions=1))
        value, recalls = value_of(metric, scores, reference(1)), scores.per_class[0]
        low, high = float(recalls.min()), float(recalls.max())
        between = math.isnan(value) or low - 1e-9 <= value <= high + 1e-9
        demand(between, f"expected NaN or a score in [{low}, {high}] of one session, got {value}")


@METRIC_CHECKS.add
def undefined_scores_are_nan(metric: Metric) -> None:
    """Without defined scores the value is NaN; without references it is NaN or unchanged."""
    scores = scores_of(random_predictions(0))
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
    scores = scores_of(random_predictions(0))
    before = copy.deepcopy(scores)
    metric(scores, reference())
    for f in fields(scores):
        a, b = (np.asarray(getattr(s, f.name)) for s in (scores, before))
        same = np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        demand(same, f"expected {f.name} as it was, the metric changed it")
