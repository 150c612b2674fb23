"""Confusion matrices: by hand, and against the recalls of the score matrix."""

from dataclasses import replace

import numpy as np
import pytest
from label_set_answers import BEARS, BUS, random_label_sets
from toy import predictions, random_predictions

from embedbench.scores.confusion_matrix import learned_sessions
from embedbench.scores.run_answers import RunAnswers

NAN = np.nan

# Session 0: classes 0 (4 test samples) and 1 (2). Session 1: class 2 (2).
CLASSES = predictions(
    [[0, 0, 0, 0, 1, 1], [2, 2]],
    [
        [0, 0, 0, 1, 1, 0, 0, 0],  # class 0: 3 of 4, class 1: 1 of 2; class 2 is not there yet
        [0, 2, 2, 1, 1, 1, 2, 0],
    ],
    [[0, 1], [2]],
)


@pytest.mark.parametrize(
    ("moment", "shares"),
    [
        (0, [[3 / 4, 1 / 4, NAN], [1 / 2, 1 / 2, NAN], [NAN, NAN, NAN]]),
        (1, [[1 / 4, 1 / 4, 1 / 2], [0, 1, 0], [1 / 2, 0, 1 / 2]]),
    ],
)
def test_classes_by_hand(moment: int, shares: list[list[float]]) -> None:
    np.testing.assert_array_equal(CLASSES.confusion("accuracy", moment), shares)


def test_answers_within_the_session_are_those_of_a_score_within_it() -> None:
    p = replace(CLASSES, within=np.tile(CLASSES.y, (2, 1)).astype(np.int32))
    np.testing.assert_array_equal(p.confusion("within_accuracy", 1), np.eye(3))


def test_a_missing_answer_is_in_the_size_of_its_row_alone() -> None:
    answer = CLASSES.answer.copy()
    answer[1, 0] = -1
    p = replace(CLASSES, answer=answer)
    assert p.confusion("accuracy", 1)[0].tolist() == [0, 1 / 4, 1 / 2]


@pytest.mark.parametrize("permutation", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_diagonal_has_the_recalls(seed: int, *, permutation: bool) -> None:
    p = random_predictions(seed, permutation=permutation)
    recalls = p.score_matrix("accuracy").per_class
    for moment in range(len(p.session)):
        found = np.diagonal(p.confusion("accuracy", moment))
        np.testing.assert_allclose(found, recalls[moment], rtol=1e-12)


@pytest.mark.parametrize(
    ("moment", "shares"),
    [
        (0, [[1, 1 / 3, NAN, NAN], [0, 1, NAN, NAN], [NAN] * 4, [NAN] * 4]),
        (1, [[2 / 3, 0, 1, NAN], [0, 0, 0, NAN], [1 / 2, 0, 1, NAN], [NAN] * 4]),
        (2, [[2 / 3, 0, 2 / 3, 2 / 3], [0, 1, 0, 0], [1 / 2, 0, 1, 1 / 2], [1, 0, 0, 1]]),
    ],
)
def test_label_sets_by_hand(moment: int, shares: list[list[float]]) -> None:
    np.testing.assert_allclose(BEARS.confusion("pw_js", moment), shares, rtol=1e-12)


def test_the_true_labels_of_label_sets() -> None:
    """All bears are bears; two of the three are polar bears."""
    true = [[1, 0, 2 / 3, 1 / 3], [0, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1]]
    np.testing.assert_allclose(BEARS.confusion("pw_js", 2, truth=True), true, rtol=1e-12)


def test_a_class_without_test_samples_has_a_row_of_nan() -> None:
    p = replace(BEARS, split=np.array([0, 0, 0, 1]))
    assert np.isnan(p.confusion("pw_js", 2)[BUS]).all()


def test_the_true_classes_are_the_diagonal() -> None:
    np.testing.assert_array_equal(CLASSES.confusion("accuracy", 1, truth=True), np.eye(3))


@pytest.mark.parametrize("seed", range(3))
def test_label_sets_by_loops(seed: int) -> None:
    p = random_label_sets(seed, 11, 0.4)
    moment = len(p.session) - 1
    y, given = (np.unpackbits(x, axis=1, count=11) for x in (p.y, p.answer[moment]))
    expected = np.full((11, 11), NAN)
    for a in range(11):
        mine = [i for i in range(len(y)) if p.split[i] == 0 and y[i, a]]
        for b in range(11):
            if mine:
                expected[a, b] = sum(given[i, b] for i in mine) / len(mine)
    np.testing.assert_allclose(p.confusion("pw_js", moment), expected, rtol=1e-12)


def test_a_class_is_learned_in_the_first_session_that_has_it() -> None:
    seen = np.array([[0, 1, 0], [1, 1, 0]], dtype=np.bool_)
    assert learned_sessions(seen).tolist() == [1, 0, -1]


def test_a_kind_without_classes_has_none() -> None:
    assert RunAnswers.confusion(CLASSES, "accuracy", 0) is None
