"""From predictions to score matrices: pure NumPy, no learner, no file."""

from collections.abc import Sequence

from .label_set_predictions import AnyPredictions, LabelSets
from .score_matrix import ScoreMatrix
from .single_label_scores import SCORES, score_matrix


def score_matrices(
    p: AnyPredictions, class_sizes: Sequence[int] | None = None
) -> dict[str, ScoreMatrix]:
    """Every base score of a run, by name; the main score comes first.

    `class_sizes` are (C,) training samples of each class in the whole stream, if they are known.
    """
    if isinstance(p, LabelSets):
        from . import label_set_scores  # only label sets need it

        result: dict[str, ScoreMatrix] = label_set_scores.matrices(p)
        return result
    return {name: score_matrix(p, name, class_sizes) for name in SCORES}


def main_matrix(p: AnyPredictions) -> ScoreMatrix:
    """The main base score of a run: mean-per-class accuracy, or pw-JS of label sets."""
    if isinstance(p, LabelSets):
        from . import label_set_scores  # only label sets need it

        result: ScoreMatrix = label_set_scores.score_matrix(p)
        return result
    return score_matrix(p)
