"""FeCAM: distances against dense inverses, classes that come again, when features get a power."""

from typing import Any

import numpy as np
import pytest
import torch
from teaching import learn, start
from toy import Array, blobs, session

from embedbench.learning import UNSEEN, StreamSpec
from embedbench.models.fecam import FeCAM


def taught(*parts: tuple[Array, Array], **settings: Any) -> FeCAM:
    """A learner of three classes after sessions of samples x (n, D), y (n,)."""
    learner: FeCAM = start(FeCAM(**settings), StreamSpec((parts[0][0].shape[1],), 3))
    for x, y in parts:
        learn(learner, session(x, y))
    return learner


def unit(x: Array) -> Array:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def plain(x: Array, test: Array, beta: float, gamma1: float, gamma2: float, *base: Array) -> Array:
    """Distances of `test` to one class with samples x, with every matrix written out.

    The covariance is the mean of those of `base`, if there are any.
    """
    x, test, *data = (unit(a.astype(np.float64)) ** beta for a in (x, test, *(base or (x,))))
    sigma = np.mean([np.cov(a.T) for a in data], axis=0)
    width = len(sigma)
    v1 = np.mean(np.diag(sigma))
    v2 = np.mean([sigma[i, j] for i in range(width) for j in range(width) if i != j])
    shrunk = sigma + gamma1 * v1 * np.eye(width) + gamma2 * v2 * (1 - np.eye(width))
    deviation = np.sqrt(np.diag(shrunk))
    inverse = np.linalg.inv(shrunk / np.outer(deviation, deviation))
    return np.array([d @ inverse @ d for d in unit(test) - unit(x.mean(0))])


@pytest.mark.parametrize("gammas", [(1.0, 1.0), (1.0, 0.0), (0.3, 0.1)])
@pytest.mark.parametrize(("n", "width"), [(3, 8), (6, 8), (40, 8), (9, 2)])
def test_distances_are_those_of_dense_matrices(n: int, width: int, gammas: tuple[Any, Any]) -> None:
    y = np.repeat([0, 1], n)  # fewer and more samples than dimensions
    x, test = (np.abs(blobs(y, width, k, spread=0.5)) for k in (0, 1))
    learner = taught((x, y), gamma1=gammas[0], gamma2=gammas[1])
    found = learner.scores(torch.tensor(test)).numpy()
    for c in (0, 1):
        expected = plain(x[y == c], test, 0.5, *gammas)
        np.testing.assert_allclose(-found[:, c], expected, rtol=2e-3, atol=1e-5)
        assert len(learner.factors[c]) == min(n - 1, width)  # never more numbers than D x D
    assert (found[:, 2] == UNSEEN).all()


def test_a_class_that_comes_again_adds_to_its_covariance() -> None:
    y = np.zeros(30, dtype=np.int64)
    x, test = np.abs(blobs(y, 8, 0)), torch.tensor(np.abs(blobs(y, 8, 1)))
    once = taught((x, y))
    again = taught(*((x[part], y[part]) for part in (slice(1), slice(1, 5), slice(5, 30))))
    torch.testing.assert_close(again.scores(test), once.scores(test), rtol=1e-3, atol=1e-5)
    assert len(again.factors[0]) == 8


def test_a_power_is_taken_only_of_features_without_negative_values() -> None:
    y = np.repeat([0, 1], 20)
    x = blobs(y, 8, 0)
    assert (x < 0).any()
    test = torch.tensor(x[:5])
    expected = plain(x[:20], x[:5], 1.0, 1.0, 0.0)
    np.testing.assert_allclose(-taught((x, y)).scores(test)[:, 0].numpy(), expected, rtol=2e-3)
    first = taught((np.abs(x), y))
    assert learn(first, session(x, y)) == {"power": 0.5}  # decided once
    assert torch.isfinite(first.scores(test)).all()


@pytest.mark.parametrize("n", [1, 4])
def test_one_sample_and_samples_that_are_all_alike_leave_distances_by_gamma1(n: int) -> None:
    learner = taught((np.ones((n, 3)), np.zeros(n, dtype=np.int64)), gamma1=0.5, gamma2=0.0)
    test = torch.tensor([[1.0, 1, 1], [1, 0, 0]])
    expected = torch.tensor([0.0, 2 - 2 * 3**-0.5]) * (1 + 0.5) / 0.5
    torch.testing.assert_close(-learner.scores(test)[:, 0], expected, atol=1e-5, rtol=1e-5)
    assert not learner.footprint()["covariances"]


@pytest.mark.parametrize(("lowest", "gamma2"), [(0.0, 1.0), (-1.0, 0.0)])
def test_gamma2_is_the_papers_for_the_sign_of_the_features(lowest: float, gamma2: float) -> None:
    draw = np.random.default_rng(0)
    x = np.abs(draw.normal(size=(60, 5))).astype(np.float32)
    x[0, 0] = lowest
    y = np.repeat([0, 1, 2], 20)
    test = torch.from_numpy(np.abs(draw.normal(size=(9, 5))).astype(np.float32))
    found = [taught((x, y), gamma2=given).scores(test) for given in (None, gamma2)]
    assert torch.equal(*found)


def test_classes_of_few_shots_take_the_mean_covariance_of_the_base_classes() -> None:
    y, few = np.repeat([0, 2], [30, 2]), np.repeat([1], 3)
    x, shots, test = (np.abs(blobs(c, 8, k, spread=0.5)) for k, c in enumerate((y, few, y)))
    parts = (x, y), (shots, few)
    learner = taught(*parts, gamma1=0.3, gamma2=0.1, covariance="base")
    own = taught(*parts, gamma1=0.3, gamma2=0.1)
    found = learner.scores(torch.tensor(test))
    torch.testing.assert_close(found[:, [0, 2]], own.scores(torch.tensor(test))[:, [0, 2]])
    expected = plain(shots, test, 0.5, 0.3, 0.1, x[:30], x[30:])
    np.testing.assert_allclose(-found[:, 1].numpy(), expected, rtol=2e-3, atol=1e-5)
    assert len(learner.factors[1]) == 0
