"""Old and new classes apart: shares of right answers, counted by hand."""

import numpy as np
import pytest
from label_set_answers import random_label_sets
from toy import predictions

from embedbench.scores.metrics import Reference
from embedbench.scores.old_and_new_classes import OLD_AND_NEW
from embedbench.scores.score_matrix import ScoreMatrix

# Sessions of four, three and one test samples; session 0 has classes 0 and 1, three samples of 0.
TRUTH, GROUPS = [[0, 0, 0, 1], [2, 2, 2], [3]], [[0, 1], [2], [3]]
# after the first session all four right; at the end 0 twice and 1 never, 2 once, 3
ANSWERS = [[0, 0, 0, 1, 0, 0, 0, 0], [0] * 8, [0, 0, 3, 3, 2, 0, 0, 3]]
BY_HAND = {
    "accuracy": {
        "base_accuracy": 2 / 4,
        "novel_accuracy": 2 / 4,  # one of three, and one of one
        "hacc": 1 / 2,
        "performance_drop": 4 / 4 - 4 / 8,
        "old_accuracy": 3 / 7,  # 2 of 4 and 1 of 3
        "new_accuracy": 1.0,
    },
    "class_accuracy": {
        "base_accuracy": (2 / 3 + 0) / 2,
        "novel_accuracy": (1 / 3 + 1) / 2,
        "hacc": 2 * (1 / 3) * (2 / 3) / (1 / 3 + 2 / 3),
        "performance_drop": 1 - (2 / 3 + 0 + 1 / 3 + 1) / 4,
        "old_accuracy": (2 / 3 + 0 + 1 / 3) / 3,
        "new_accuracy": 1.0,
    },
}
CASES = [(score, name) for score, values in BY_HAND.items() for name in values]


def matrix(score: str) -> ScoreMatrix:
    return predictions(TRUTH, ANSWERS, GROUPS).score_matrix(score)


@pytest.mark.parametrize(("score", "name"), CASES)
def test_values_by_hand(score: str, name: str) -> None:
    found = OLD_AND_NEW[name](matrix(score), Reference())
    assert found == pytest.approx(BY_HAND[score][name])


@pytest.mark.parametrize("sides", [("base_accuracy", "novel_accuracy", 4, 4),
                                   ("old_accuracy", "new_accuracy", 7, 1)])  # fmt: skip
def test_both_sides_by_their_samples_are_the_accuracy(sides: tuple[str, str, int, int]) -> None:
    first, second, m, n = sides
    scores = matrix("accuracy")
    parts = [OLD_AND_NEW[name](scores, Reference()) for name in (first, second)]
    assert np.average(parts, weights=[m, n]) == pytest.approx(scores.pooled[-1])


def test_a_session_without_test_samples_is_in_no_mean() -> None:
    p = predictions([[0, 0], [], [2, 2]], [[0] * 4, [0] * 4, [0, 0, 2, 0]], [[0], [1], [2]])
    assert OLD_AND_NEW["novel_accuracy"](p.score_matrix("accuracy"), Reference()) == 0.5


@pytest.mark.parametrize("name", ["novel_accuracy", "hacc", "performance_drop", "old_accuracy"])
def test_one_session_has_no_other_side(name: str) -> None:
    p = predictions([[0, 1]], [[0, 0]], [[0, 1]])
    assert np.isnan(OLD_AND_NEW[name](p.score_matrix("accuracy"), Reference()))


def test_label_sets_have_no_mean_over_sessions_that_share_samples() -> None:
    p = random_label_sets(0, 6, 0.5)
    assert np.isnan(OLD_AND_NEW["novel_accuracy"](p.score_matrix("pw_js"), Reference()))
