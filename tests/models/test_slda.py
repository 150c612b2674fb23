"""SLDA: the published updates one by one, discriminants, OAS, and frozen Σ."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.covariance import OAS
from teaching import show
from toy import Array, blobs

from embedbench.errors import UserError
from embedbench.learning.prototypes import UNSEEN
from embedbench.models import slda
from embedbench.models._linear_models import oas
from embedbench.models.slda import SLDA


def taught(x: Array, y: Array, cuts: list[int], **settings: Any) -> Any:
    return show(SLDA(**settings), x, y, cuts)


def data(seed: int, n: int = 60) -> tuple[Array, Array, Array]:
    """Samples of three classes (class 3 never comes) whose covariance is no multiple of I."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    mix = rng.normal(size=(5, 5)).astype(np.float32)
    x, test = (blobs(k, 5, seed + i, spread=1.0) @ mix / 10 for i, k in enumerate((y, y[:20])))
    return x, y, test


def plain(x: Array, y: Array, weight: str, base: int = 0, sigma: Any = 0.0) -> Array:
    """Σ by the updates of one sample at a time, float64; after `base` samples it is `sigma`."""
    counts = np.bincount(y[:base], minlength=4).astype(float)
    means = np.zeros((4, x.shape[1]))
    np.add.at(means, y[:base], x[:base])
    means /= np.maximum(counts, 1)[:, None]
    n = base
    for row, c in zip(x[base:].astype(np.float64), y[base:], strict=True):
        away = row - means[c]
        share = counts[c] / (counts[c] + 1) if weight == "class" else n / (n + 1)
        sigma = (n * sigma + share * np.outer(away, away)) / (n + 1)
        means[c] = (counts[c] * means[c] + row) / (counts[c] + 1)
        counts[c] += 1
        n += 1
    return sigma


@pytest.mark.parametrize("weight", ["class", "published"])
def test_batches_equal_one_sample_at_a_time(weight: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slda, "BLOCK", 16)  # the first batch is cut in two
    x, y, _ = data(0)
    learner = taught(x, y, [30, 31, 50], weight=weight)
    expected = plain(x, y, weight)
    np.testing.assert_allclose(learner.scatter.numpy() / len(y), expected, atol=1e-9)
    if weight == "published":  # a class's first sample adds x xᵀ, unless it is the very first
        assert not np.allclose(expected, plain(x, y, "class"), rtol=0.01)


def check_scores(learner: SLDA, sigma: Array, x: Array, y: Array, test: Array) -> None:
    """Scores are x·Λμ - ½ μ·Λμ, with the means of samples x, y."""
    found = learner.scores(torch.tensor(test)).numpy()
    for c in np.unique(y):
        mean = x[y == c].astype(np.float64).mean(0)
        away = np.linalg.solve(sigma, mean)
        expected = test @ away - 0.5 * mean @ away
        np.testing.assert_allclose(found[:, c], expected, rtol=1e-3, atol=1e-3)
    assert (found[:, 3] <= UNSEEN / 2).all()


@pytest.mark.parametrize("shrinkage", [1e-4, 0.3, 1.0])
def test_shrinkage_mixes_the_covariance_with_the_identity(shrinkage: float) -> None:
    x, y, test = data(0)
    sigma = (1 - shrinkage) * plain(x, y, "class") + shrinkage * np.eye(5)
    check_scores(taught(x, y, [], shrinkage=shrinkage), sigma, x, y, test)


@pytest.mark.parametrize("weight", ["class", "published"])
def test_base_samples_are_shrunk_by_oas(weight: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slda, "BLOCK", 12)  # the base ends in a second block
    x, y, _ = data(0)
    base = slice(0, 25)
    for cuts in ([], [7, 25], [24, 26]):
        learner = taught(x[base], y[base], [c for c in cuts if c < 25], base_samples=25)
        means = np.stack([x[base][y[base] == c].mean(0) for c in range(3)])
        known = OAS(assume_centered=True).fit((x[base] - means[y[base]]).astype(np.float64))
        np.testing.assert_allclose(learner.scatter.numpy() / 25, known.covariance_, rtol=1e-5)
    whole = taught(x, y, [10], base_samples=25, weight=weight)
    sigma = taught(x[base], y[base], [], base_samples=25, weight=weight).scatter.numpy() / 25
    expected = plain(x, y, weight, 25, sigma)
    np.testing.assert_allclose(whole.scatter.numpy() / len(y), expected, atol=1e-9)


def test_a_frozen_covariance_stays_while_means_move() -> None:
    x, y, test = data(1)
    frozen = taught(x, y, [10, 40], base_samples=25, freeze=True)
    base = taught(x[:25], y[:25], [], base_samples=25)
    np.testing.assert_allclose(frozen.scatter.numpy(), base.scatter.numpy(), rtol=1e-9)
    assert int(frozen.counts.sum()) == len(y)
    sigma = base.scatter.numpy() / 25 * (1 - 1e-4) + 1e-4 * np.eye(5)  # n stays 25, too
    check_scores(frozen, sigma, x, y, test)
    with pytest.raises(UserError, match="base_samples"):
        SLDA(freeze=True)


def test_oas_of_what_has_no_direction_is_that() -> None:
    """Nothing varies in the base session: no division by zero, Σ is 0 and ε I is left."""
    for alike in (torch.eye(5), torch.tensor([1.0, 1.2]).diag()):
        assert oas(alike.double(), 2) == (1, pytest.approx(float(alike.trace()) / len(alike)))
    x = np.ones((6, 5), dtype=np.float32)
    learner = taught(x, np.array([0, 1, 2, 0, 1, 2]), [], base_samples=6)
    assert not learner.scatter.any()
    assert torch.isfinite(learner.scores(torch.tensor(x))).all()


@pytest.mark.parametrize("n", [4, 12, 60])
def test_by_default_sigma_is_shrunk_by_oas_at_every_evaluation(n: int) -> None:
    """scikit-learn's OAS of the deviations from class means, and the authors' ε on top of it."""
    x, y, test = data(2, n)
    learner = taught(x, y, [n // 2])
    own = [x[y == c].astype(np.float64) for c in range(3)]
    means = np.stack([part.mean(0) if len(part) else np.zeros(5) for part in own])
    known = OAS(assume_centered=True).fit(x.astype(np.float64) - means[y]).covariance_
    check_scores(learner, (1 - 1e-4) * known + 1e-4 * np.eye(5), x, y, test)
    again = taught(x, y, [n // 2], shrinkage=1e-4)
    assert torch.equal(learner.scatter, again.scatter)  # what is held is not shrunk
