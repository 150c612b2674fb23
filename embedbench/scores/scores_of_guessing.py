"""What guessing scores on average: every score of the learner `chance`, without its draws."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from .predictions import Predictions
from .record_files import base_score, read_predictions
from .run_record import BaseScore, RunRecord

GUESSES = "chance"  # the learner whose answers are drawn


def guess_scores(made: RunRecord, directory: Path) -> dict[str, BaseScore]:
    """Base score → what a uniform draw among the candidates scores on average, on a run's stream.

    The stream is that of any run with stored answers, of which only sizes and labels are used.
    Empty where no formula holds, as for label sets.

    Raises
    ------
    UserError
        The answers cannot be read.
    """
    p = read_predictions(directory, made)
    scores = {}
    for name in p.SCORES:
        matrix = p.guess_matrix(name, made.n_candidates, made.n_train_by_class)
        if matrix is not None:
            scores[name] = base_score(made, p, matrix)
    return scores


def largest_share(made: RunRecord, directory: Path) -> float:
    """The share of the test samples that are of the largest class: what always it is right in.

    NaN where a sample may have several classes.

    Raises
    ------
    UserError
        The answers cannot be read.
    """
    p = read_predictions(directory, made)
    if not isinstance(p, Predictions):
        return math.nan
    _, sizes = np.unique(p.y, return_counts=True)
    return float(sizes.max() / sizes.sum())


def without_draws(made: RunRecord, directory: Path) -> RunRecord:
    """The record of `chance` with what guessing scores on average; any other as it is."""
    if made.learner != GUESSES:
        return made
    scores = guess_scores(made, directory)
    if made.score not in scores:
        return made
    scores = {name: _over(made.by_score.get(name), score) for name, score in scores.items()}
    main = scores[made.score]
    further = {k: v for k, v in made.metrics.items() if k not in main.metrics}
    return replace(
        made,
        R=main.R,
        pooled=main.pooled,
        metrics=main.metrics | further,
        curves=main.curves,
        by_score=scores,
    )


def _over(drawn: BaseScore | None, average: BaseScore) -> BaseScore:
    """The average, with the metrics of the draws that records do not hold."""
    metrics = {} if drawn is None else drawn.metrics
    return replace(average, metrics={**metrics, **average.metrics})
