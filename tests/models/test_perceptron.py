"""perceptron against one sample after another in a plain loop."""

import numpy as np
import pytest
from teaching import CUTS, scores_of, show, three_classes
from toy import Array

from embedbench.learning import UNSEEN
from embedbench.models import perceptron
from embedbench.models.perceptron import Perceptron


def plain_perceptron(x: Array, y: Array) -> Array:
    """One sample after another, float64."""
    rows, seen = np.zeros((4, x.shape[1])), np.zeros(4, dtype=bool)
    for row, true in zip(x.astype(float), y, strict=True):
        if not seen[true]:
            rows[true] = row
            seen[true] = True
            continue
        answer = np.where(seen, rows @ row, -np.inf).argmax()
        if answer != true:
            rows[true] += row
            rows[answer] -= row
    return rows


@pytest.mark.parametrize("block", [256, 7])
@pytest.mark.parametrize("cuts", CUTS)
def test_perceptron_by_loop(cuts: list[int], block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perceptron, "BLOCK", block)
    x, y, asked = three_classes(0)
    y = (y + 1) % 3  # 0 comes first
    learner = show(Perceptron(), x, y, cuts)
    expected = plain_perceptron(x, y)
    assert np.abs(expected).max() > 3  # errors
    np.testing.assert_allclose(learner.rows.numpy(), expected, atol=1e-9)
    assert learner.counts.tolist() == [*np.bincount(y), 0]
    scores = scores_of(learner, asked)
    np.testing.assert_array_equal(scores.argmax(1), (asked @ expected[:3].T).argmax(1))
    assert (scores[:, 3] == UNSEEN).all()
