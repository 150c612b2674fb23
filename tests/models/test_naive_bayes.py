"""naive-bayes: scikit-learn's, the authors' loop, by hand."""

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from teaching import CUTS, scores_of, show, three_classes

from embedbench.learning import UNSEEN
from embedbench.models.naive_bayes import NaiveBayes


@pytest.mark.parametrize("cuts", CUTS)
def test_naive_bayes_is_scikit_learns(cuts: list[int]) -> None:
    x, y, asked = three_classes(0)
    scores = scores_of(show(NaiveBayes(shrinkage=1e-12), x, y, cuts), asked)
    known = GaussianNB(priors=[1 / 3] * 3, var_smoothing=1e-13).fit(x.astype(float), y)
    expected = known.predict_joint_log_proba(asked.astype(float)) + np.log(3)
    np.testing.assert_allclose(scores[:, :3], expected, rtol=1e-9)
    assert (scores[:, 3] == UNSEEN).all()


def test_naive_bayes_as_published() -> None:
    """The authors' loop: running means, variances by n - 1, w = Λμ, x·w - μ·w / 2."""
    x, y, asked = three_classes(0, 10)  # two of class 2
    scores = scores_of(show(NaiveBayes(likelihood="published"), x, y, [7]), asked)
    for c in range(3):
        mean, square = np.zeros(5), np.zeros(5)
        for n, row in enumerate(x[y == c].astype(float), 1):
            away = row - mean
            mean += away / n
            square += away * (row - mean)
        slope = mean / ((1 - 1e-4) * square / (n - 1) + 1e-4)
        expected = asked @ slope - 0.5 * mean @ slope
        np.testing.assert_allclose(scores[:, c], expected, rtol=1e-6, atol=1e-8)


def test_naive_bayes_by_hand() -> None:
    """Class 0: 1 and 3, mean 2, variance 1. Class 1: one sample, 6, variance ε = .5."""
    x = np.array([[1], [3], [6]], dtype=np.float32)
    learner = show(NaiveBayes(shrinkage=0.5), x, np.array([0, 0, 1]), [])
    first = -0.5 * (4 / 1 + np.log(2 * np.pi))  # v = .5 · 1 + .5
    second = -0.5 * (4 / 0.5 + np.log(np.pi))
    np.testing.assert_allclose(scores_of(learner, np.float32([[4]]))[0, :2], [first, second])
