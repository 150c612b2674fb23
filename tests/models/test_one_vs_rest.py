"""one-vs-rest against the published equations."""

import numpy as np
import pytest
from teaching import CUTS, scores_of, show, three_classes

from embedbench.learning import UNSEEN
from embedbench.models.one_vs_rest import OneVsRest


@pytest.mark.parametrize("cuts", CUTS)
def test_one_vs_rest_as_published(cuts: list[int]) -> None:
    x, y, asked = (np.abs(part) for part in three_classes(0))  # features without negative values
    ratio = scores_of(show(OneVsRest(score="ratio"), x, y, cuts), asked)
    plain = scores_of(show(OneVsRest(), x, y, cuts), asked)
    means = np.stack([x[y == c].astype(float).mean(0) for c in range(3)])
    counts = np.bincount(y)
    for c in range(3):
        others = [o for o in range(3) if o != c]
        rest = (means[others] * counts[others, None]).sum(0) / counts[others].sum()
        one, other = asked @ means[c], asked @ rest
        np.testing.assert_allclose(ratio[:, c], one / (one + other), rtol=1e-5)
        np.testing.assert_allclose(plain[:, c], one - other, rtol=1e-4, atol=1e-5)
    for scores in (ratio, plain):
        assert (scores[:, 3] == UNSEEN).all()


def test_one_vs_rest_divides_by_nothing() -> None:
    x = np.array([[1, 0], [-1, 0]], dtype=np.float32)
    learner = show(OneVsRest(score="ratio"), x, np.array([0, 1]), [])
    assert scores_of(learner, np.float32([[0, 3], [2, 1]]))[:, :2].tolist() == [[0, 0], [0, 0]]
