"""ncm: its scores by hand, and sums that do not drift; simplecil is ncm with cosines."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestCentroid
from teaching import scores_of, show
from toy import Array, blobs

from embedbench.learning import UNSEEN
from embedbench.models.ncm import NCM
from embedbench.runs.learner_and_protocol_names import alias_settings, learner_class


def data(seed: int, n: int = 40) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)  # class 3 never comes
    y[:3] = [0, 1, 2]
    return blobs(y, 5, seed, spread=1.0), y, blobs(rng.integers(0, 3, 20), 5, seed + 1, spread=1.0)


def test_euclidean_scores_are_minus_squared_distances() -> None:
    x, y, test = data(0)
    found = show(NCM(), x, y, [10, 11, 30]).scores(torch.tensor(test)).numpy()
    for c in range(3):
        mean = x[y == c].astype(np.float64).mean(0)
        expected = [-sum((row.astype(np.float64) - mean) ** 2) for row in test]
        np.testing.assert_allclose(found[:, c], expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(found.argmax(1), NearestCentroid().fit(x, y).predict(test))
    assert (found[:, 3] == UNSEEN).all()


def test_cosine_scores_are_cosines_to_the_mean_of_unit_vectors() -> None:
    x, y, test = data(0)
    found = show(NCM(metric="cosine"), x, y, [7]).scores(torch.tensor(test)).numpy()
    for c in range(3):
        mean = np.mean([row / np.linalg.norm(row) for row in x[y == c]], axis=0)
        for i, row in enumerate(test):
            cosine = row @ mean / np.linalg.norm(row) / np.linalg.norm(mean)
            assert found[i, c] == pytest.approx(cosine, abs=1e-5)


def test_ncm_sums_do_not_drift() -> None:
    # 60,000 samples around .1: a float32 sum would be off in the fourth digit
    x = np.full((60_000, 1), 0.1, np.float32)
    learner = show(NCM(), x, np.zeros(60_000, np.int64), range(1000, 60_000, 1000))
    assert float(learner.sums[0, 0] / 60_000) == pytest.approx(float(np.float32(0.1)), rel=1e-12)


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
