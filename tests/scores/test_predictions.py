"""Score matrices by hand; test_predictions_page.py has them of random answers."""

import math
from dataclasses import replace

import numpy as np
import pytest
from toy import predictions, random_predictions, until

from embedbench.array_types import Ints
from embedbench.scores import metrics
from embedbench.scores.metrics import Reference
from embedbench.scores.predictions import Predictions

NAN = math.nan


def at_moments(p: Predictions, sessions: Ints) -> Predictions:
    """The answers after these sessions, which may come several times."""
    tables = {name: getattr(p, name)[sessions] for name in ("seen", "answer", "within")}
    return replace(p, session=sessions, samples_seen=10 * sessions, **tables)


def test_a_set_with_an_unseen_class_is_undefined_but_within_is_not() -> None:
    p = predictions([[0], [1]], [[0, 0], [0, 1]], [[0], [1]], within=np.array([[0, 1], [0, 1]]))
    assert math.isnan(p.score_matrix("accuracy").R[0, 1])
    assert p.score_matrix("within_accuracy").R.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    p = predictions([[0], [0, 1]], [[0, 0, 0], [0, 0, 1]], [[0], [0, 1]])
    assert math.isnan(p.score_matrix("accuracy").R[0, 1])
    assert p.score_matrix("accuracy").R[1, 1] == 1.0


def test_ends_are_the_last_moment_of_each_session() -> None:
    p = random_predictions(3)
    sessions = np.sort(np.append(p.session, p.session[1:]))  # two moments in later sessions
    found = at_moments(p, sessions).score_matrix()
    last = [max(m for m in range(len(sessions)) if sessions[m] == s) for s in p.session]
    assert found.ends.tolist() == last
    np.testing.assert_array_equal(found.R, p.score_matrix().R)


# Session 0: classes 0 (4 test samples) and 1 (2). Session 1: class 2 (2). Class 3 has none.
TRUTH = [[0, 0, 0, 0, 1, 1], [2, 2]]
ANSWERS = [
    [0, 0, 0, 1, 1, 0, 0, 0],  # class 0: 3 of 4, class 1: 1 of 2
    [0, 2, 2, 2, 1, 1, 2, 0],  # class 0: 1 of 4, class 1: 2 of 2, class 2: 1 of 2
]


def by_hand() -> Predictions:
    made = predictions(TRUTH, ANSWERS, [[0, 1], [2]])
    none = np.zeros((2, 1), dtype=np.bool_)
    seen = np.hstack([made.seen, ~none])  # class 3 is seen, and never asked
    return replace(made, seen=seen, set_classes=np.hstack([made.set_classes, none]))


def test_recalls_and_metrics_by_hand() -> None:
    scores = by_hand().score_matrix(class_sizes=[100, 19, 5, 3])
    np.testing.assert_array_equal(scores.per_class, [[0.75, 0.5, NAN, NAN], [0.25, 1.0, 0.5, NAN]])
    assert scores.pooled.tolist() == pytest.approx([0.625, (0.25 + 1.0 + 0.5) / 3])
    reference = Reference()
    assert metrics.worst_class_accuracy(scores, reference) == 0.25
    # class 0 falls from .75 to .25, class 1 rises from .5 to 1; class 2 is new
    assert metrics.per_class_forgetting(scores, reference) == 0.0
    # classes 1 (19 samples) and 2; class 3 has no test sample
    assert metrics.few_shot_accuracy(scores, reference) == 0.75
    many = by_hand().score_matrix(class_sizes=[20, 20, 20, 3])
    assert math.isnan(metrics.few_shot_accuracy(many, reference))
    first = until(scores, 0)
    assert metrics.worst_class_accuracy(first, reference) == 0.5
    assert math.isnan(metrics.per_class_forgetting(first, reference))
    assert metrics.few_shot_accuracy(first, reference) == 0.5


def test_sizes_that_are_not_known_are_nan() -> None:
    scores = by_hand().score_matrix()
    assert scores.class_sizes.shape == (4,)
    assert math.isnan(metrics.few_shot_accuracy(scores, Reference()))
    with pytest.raises(ValueError, match="3 sizes of 4 classes"):
        by_hand().score_matrix(class_sizes=[1, 2, 3])


def test_guessing_is_among_the_candidates_of_each_set() -> None:
    found = Predictions.guess(np.array([[2], [4]]), [None, 2, 0, 9])  # 0: all classes seen
    assert found.tolist() == [[0.5] * 4, [0.25, 0.5, 0.25, 0.25]]
