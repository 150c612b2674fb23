"""Score matrices against hand-worked answers and against plain loops."""

import math
from dataclasses import replace

import numpy as np
import pytest
from toy import predictions, random_predictions

from embedbench.scores.predictions import Predictions
from embedbench.scores.single_label_scores import SCORES, score_matrix


def loop_score(p: Predictions, name: str, moment: int, sample_numbers: list[int]) -> float:
    """One base score over some samples, a sample at a time."""
    answers = p.within if name.startswith("within_") else p.answer
    by_class: dict[int, list[float]] = {}
    for i in sample_numbers:
        hit = 1.0 if answers[moment, i] == p.y[i] else 0.0
        by_class.setdefault(int(p.y[i]), []).append(hit)
    if not by_class:
        return math.nan
    if name.endswith("class_accuracy"):
        return sum(sum(v) / len(v) for v in by_class.values()) / len(by_class)
    every = [h for v in by_class.values() for h in v]
    return sum(every) / len(every)


@pytest.mark.parametrize("permutation", [False, True])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", SCORES)
def test_matches_plain_loops(name: str, seed: int, permutation: bool) -> None:
    p = random_predictions(seed, permutation=permutation)
    found = score_matrix(p, name)
    moments, sets = len(p.session), len(p.set_classes)
    for m in range(moments):
        for e in range(sets):
            numbers = [i for i in range(len(p.y)) if p.eval_set[i] == e]
            known = all(p.seen[m, c] for c in range(p.seen.shape[1]) if p.set_classes[e, c])
            expected = loop_score(p, name, m, numbers)
            if not known and not name.startswith("within_"):
                expected = math.nan
            assert found.values[m, e] == pytest.approx(expected, abs=1e-12, nan_ok=True)
        so_far = [i for i in range(len(p.y)) if p.eval_set[i] <= p.session[m]]
        assert found.pooled[m] == pytest.approx(loop_score(p, name, m, so_far), abs=1e-12)
    assert found.n_samples.tolist() == [int((p.eval_set == e).sum()) for e in range(sets)]
    assert found.n_classes.tolist() == [int(row.sum()) for row in p.set_classes]
    assert found.classes_seen.tolist() == [int(row.sum()) for row in p.seen]


def test_class_accuracy_weighs_classes_accuracy_weighs_samples() -> None:
    # Class 0: 3 of 4 right; class 1: 0 of 1. By class (3/4 + 0)/2 = 3/8; by sample 3/5.
    p = predictions([[0, 0, 0, 0, 1]], [[0, 0, 0, 1, 0]], [[0, 1]])
    assert score_matrix(p, "class_accuracy").values[0, 0] == 3 / 8
    assert score_matrix(p, "accuracy").values[0, 0] == 3 / 5


def test_pooled_is_over_samples_not_over_sets() -> None:
    # Set 0 has 4 samples, all right; set 1 has one, wrong: pooled 4/5, not (1 + 0)/2.
    p = predictions([[0, 0, 0, 0], [1]], [[0, 0, 0, 0, 0], [0, 0, 0, 0, 0]], [[0], [1]])
    assert score_matrix(p, "accuracy").pooled.tolist() == [1.0, 4 / 5]


def test_sets_with_unseen_classes_are_undefined_but_within_is_not() -> None:
    p = predictions([[0], [1]], [[0, 0], [0, 1]], [[0], [1]], within=np.array([[0, 1], [0, 1]]))
    assert math.isnan(score_matrix(p, "accuracy").R[0, 1])
    assert score_matrix(p, "within_accuracy").R.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_a_set_is_undefined_while_one_of_its_classes_is_unseen() -> None:
    p = predictions([[0], [0, 1]], [[0, 0, 0], [0, 0, 1]], [[0], [0, 1]])
    assert math.isnan(score_matrix(p, "accuracy").R[0, 1])
    assert score_matrix(p, "accuracy").R[1, 1] == 1.0


def test_no_answer_counts_as_wrong() -> None:
    p = predictions([[0, 0]], [[0, -1]], [[0]])
    assert score_matrix(p, "accuracy").R[0, 0] == 0.5
    assert score_matrix(p, "class_accuracy").R[0, 0] == 0.5


def test_ends_are_the_last_moment_of_each_session() -> None:
    p = random_predictions(3)
    sessions = np.sort(np.concatenate([p.session, p.session[1:]]))  # two moments in later sessions
    tables = {name: getattr(p, name)[sessions] for name in ("seen", "answer", "within")}
    found = score_matrix(replace(p, session=sessions, samples_seen=10 * sessions, **tables))
    last = [max(m for m in range(len(sessions)) if sessions[m] == s) for s in p.session]
    assert found.ends.tolist() == last
    np.testing.assert_array_equal(found.R, score_matrix(p).R)
