"""What guessing scores on average: every score of the learner `chance`, without its draws."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from embedbench.array_types import Floats

from .against_chance import guessing
from .predictions import Predictions
from .record_files import base_score, read_predictions
from .run_record import BaseScore, RunRecord
from .single_label_scores import SCORES, score_matrix

GUESSES = "chance"  # the learner whose answers are drawn


def guess_scores(made: RunRecord, directory: Path) -> dict[str, BaseScore]:
    """Base score → what a uniform draw among the candidates scores on average, on a run's stream.

    The stream is that of any run with stored answers, of which only sizes and labels are used.
    Empty where answers are label sets, for which no formula holds.

    Raises
    ------
    UserError
        The answers cannot be read.
    """
    p = read_predictions(directory, made)
    if not isinstance(p, Predictions):
        return {}
    scores = {}
    for name in SCORES:
        share = _share_right(p, made, within=name.startswith("within_"))
        matrix = score_matrix(p, name, made.n_train_by_class, share=share)
        scores[name] = base_score(made, p, matrix)
    return scores


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
    shown = replace(main, metrics=main.metrics | further)
    return replace(made, **vars(shown), by_score=scores)


def _over(drawn: BaseScore | None, average: BaseScore) -> BaseScore:
    """The average, with the metrics of the draws that records do not hold."""
    metrics = {} if drawn is None else drawn.metrics
    return replace(average, metrics={**metrics, **average.metrics})


def _share_right(p: Predictions, made: RunRecord, *, within: bool) -> Floats:
    """(M, n) how often a uniform draw is right of each test sample, at each moment."""
    if within:  # among the classes of the sample's own session
        own = 1 / np.maximum(p.set_classes.sum(axis=1), 1)  # (E,)
        return np.broadcast_to(own[p.eval_set], p.answer.shape)
    limits = made.n_candidates or [None] * len(p.set_classes)
    chances = guessing(p.seen.sum(axis=1)[:, None], limits)  # (M, E)
    return np.where(p.seen[:, p.y], chances[:, p.eval_set], 0.0)
