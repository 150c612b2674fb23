"""From predictions to score matrices: pure NumPy, no learner, no file."""

from collections.abc import Sequence

from . import label_set_scores, single_label_scores
from .label_set_predictions import AnyPredictions, LabelSets
from .score_matrix import ScoreMatrix


def score_matrices(
    p: AnyPredictions, class_sizes: Sequence[int] | None = None
) -> dict[str, ScoreMatrix]:
    """Every base score of a run, by name; the main score comes first.

    `class_sizes` are (C,) training samples of each class in the whole stream, if they are known.
    """
    if isinstance(p, LabelSets):
        return {name: label_set_scores.score_matrix(p, name) for name in label_set_scores.SCORES}
    names = single_label_scores.SCORES
    return {name: single_label_scores.score_matrix(p, name, class_sizes) for name in names}
