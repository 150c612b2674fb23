"""Sessions that introduce no class have an eval set without samples; metrics leave it out."""

import numpy as np
import pytest
from toy import predictions

from embedbench.scores.against_chance import aa, af
from embedbench.scores.metrics import Reference, compute
from embedbench.scores.single_label_scores import SCORES, score_matrix

# Four sessions; session 0 introduces classes 0 and 1, session 2 class 2, the others none.
TRUTH = [[0, 0, 1, 1], [], [2, 2], []]
GROUPS = [[0, 1], [], [2], []]
ANSWERS = [
    [0, 0, 1, 0, 0, 1],  # set 0: 3/4
    [0, 1, 0, 0, 0, 0],  # 1/4
    [0, 1, 1, 2, 2, 2],  # 2/4, and set 2: 2/2
    [0, 0, 1, 1, 2, 1],  # 4/4 and 1/2
]


WITHIN = np.tile([0, 0, 1, 1, 2, 2], (4, 1))
P = predictions(TRUTH, ANSWERS, GROUPS, within=WITHIN)


def test_metrics_by_hand() -> None:
    scores = score_matrix(P, "accuracy")
    assert scores.tested.tolist() == [True, False, True, False]
    assert scores.pooled.tolist() == [3 / 4, 1 / 4, 4 / 6, 5 / 6]  # all classes seen so far
    chance, so_far = np.full(4, 0.25), np.array([1.0, 0.5, 1.0, 1.0])
    values = compute(scores, Reference(ideal=0.5, chance=chance, so_far=so_far))
    assert values["omega_base"] == pytest.approx((1 / 4 + 2 / 4 + 4 / 4) / 3 / 0.5)
    assert values["omega_new"] == 1.0  # session 2 alone
    assert values["omega_all"] == pytest.approx((1 / 4 + 4 / 6 + 5 / 6) / 3 / 0.5)
    assert values["omega_streaming"] == pytest.approx((3 / 4 + 1 / 2 + 4 / 6 + 5 / 6) / 4)
    assert values["final_accuracy"] == pytest.approx(5 / 6)
    assert values["average_anytime_accuracy"] == pytest.approx((3 / 4 + 1 / 4 + 4 / 6 + 5 / 6) / 4)
    assert values["average_accuracy"] == pytest.approx((1 + 1 / 2) / 2)
    assert values["average_forgetting"] == pytest.approx(((3 / 4 - 1) + (1 - 1 / 2)) / 2)
    assert values["learning_accuracy"] == pytest.approx((3 / 4 + 1) / 2)
    assert values["bwt"] == pytest.approx(((1 - 3 / 4) + (1 / 2 - 1)) / 2)
    assert np.isnan(values["fwt"])  # class 2 was not seen before session 2


def test_curves_by_hand() -> None:
    scores = score_matrix(P, "accuracy")
    assert aa(scores).tolist() == [3 / 4, 1 / 4, (2 / 4 + 1) / 2, (1 + 1 / 2) / 2]
    expected = [3 / 4 - 1 / 4, 3 / 4 - 2 / 4, ((3 / 4 - 1) + (1 - 1 / 2)) / 2]
    assert af(scores)[1:] == pytest.approx(expected)


@pytest.mark.parametrize("name", SCORES)
def test_a_set_without_samples_changes_nothing_else(name: str) -> None:
    """Without sessions 1 and 3, the metrics of single sessions are those of the other two."""
    fewer = predictions(TRUTH[::2], ANSWERS[::2], GROUPS[::2], within=WITHIN[::2])
    a, b = (compute(score_matrix(p, name), Reference(ideal=0.5)) for p in (P, fewer))
    assert a["omega_new"] == b["omega_new"]
    assert a["learning_accuracy"] == b["learning_accuracy"]
