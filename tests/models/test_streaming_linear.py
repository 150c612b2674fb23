"""naive-bayes, perceptron, one-vs-rest, and ncm as SimpleCIL: by hand, by plain loops, by others'
equations."""

import numpy as np
import pytest
import torch
from sklearn.naive_bayes import GaussianNB
from teaching import show
from toy import Array, blobs

from embedbench.learning import UNSEEN, Learner
from embedbench.models import perceptron
from embedbench.models.naive_bayes import NaiveBayes
from embedbench.models.ncm import NCM
from embedbench.models.one_vs_rest import OneVsRest
from embedbench.models.perceptron import Perceptron
from embedbench.runs.learner_and_protocol_names import alias_settings, learner_class

CUTS: list[list[int]] = [[], [1, 2, 3], list(range(10, 200, 10))]


def scores_of(learner: Learner, asked: Array) -> Array:
    scores: Array = torch.as_tensor(learner.scores(torch.tensor(asked))).numpy()
    return scores


def data(seed: int, n: int = 200) -> tuple[Array, Array, Array]:
    """Three of four classes, in random order, and 60 other samples."""
    y = np.random.default_rng(seed).integers(0, 3, n)
    return blobs(y, 5, seed, spread=1.5), y, blobs(y[:60], 5, seed + 9, spread=1.5)


@pytest.mark.parametrize("cuts", CUTS)
def test_naive_bayes_is_scikit_learns(cuts: list[int]) -> None:
    x, y, asked = data(0)
    scores = scores_of(show(NaiveBayes(shrinkage=1e-12), x, y, cuts), asked)
    known = GaussianNB(priors=[1 / 3] * 3, var_smoothing=1e-13).fit(x.astype(float), y)
    expected = known.predict_joint_log_proba(asked.astype(float)) + np.log(3)
    np.testing.assert_allclose(scores[:, :3], expected, rtol=1e-9)
    assert (scores[:, 3] == UNSEEN).all()


def test_naive_bayes_as_published() -> None:
    """The authors' loop: running means, variances by n - 1, w = Λμ, x·w - μ·w / 2."""
    x, y, asked = data(0, 10)  # two of class 2
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
    x, y, asked = data(0)
    y = (y + 1) % 3  # 0 comes first
    learner = show(Perceptron(), x, y, cuts)
    expected = plain_perceptron(x, y)
    assert np.abs(expected).max() > 3  # errors
    np.testing.assert_allclose(learner.rows.numpy(), expected, atol=1e-9)
    assert learner.counts.tolist() == [*np.bincount(y), 0]
    scores = scores_of(learner, asked)
    np.testing.assert_array_equal(scores.argmax(1), (asked @ expected[:3].T).argmax(1))
    assert (scores[:, 3] == UNSEEN).all()


@pytest.mark.parametrize("cuts", CUTS)
def test_one_vs_rest_as_published(cuts: list[int]) -> None:
    x, y, asked = (np.abs(part) for part in data(0))  # features without negative values
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


def test_simplecil_averages_samples_as_they_are() -> None:
    """A prototype is the mean of the embeddings; the cosine scales both to length 1."""
    assert learner_class("simplecil") is NCM
    x = np.array([[10, 0], [0, 1], [1, 1]], dtype=np.float32)
    y, asked = np.array([0, 0, 1]), np.float32([[3, 1]])
    made = show(NCM(**alias_settings("simplecil")), x, y, [1])
    means = np.array([[5, 0.5], [1, 1]])
    expected = (asked @ means.T)[0] / np.linalg.norm(means, axis=1) / np.sqrt(10)
    np.testing.assert_allclose(scores_of(made, asked)[0, :2], expected, rtol=1e-6)
    unit = show(NCM(metric="cosine"), x, y, [1])  # (1, 1)/2, as class 1: a tie
    assert scores_of(unit, asked)[0, 0] == pytest.approx(scores_of(unit, asked)[0, 1])
