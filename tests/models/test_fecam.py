"""FeCAM: distances against dense inverses, classes that come again, when features get a power."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from toy import blobs, class_stream, context, session

from embedbench.config.run_seeds import Seeds
from embedbench.learning.prototypes import UNSEEN
from embedbench.models.fecam import FeCAM
from embedbench.streams.stream import StreamSpec

Array = NDArray[Any]


def started(width: int, **settings: Any) -> FeCAM:
    learner = FeCAM(**settings)
    learner.start(StreamSpec((width,), 3), Seeds.of(0), "cpu")
    return learner


def unit(x: Array) -> Array:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def plain(x: Array, test: Array, beta: float, gamma1: float, gamma2: float) -> Array:
    """Distances of `test` to one class with samples x, with every matrix written out."""
    x, test = (unit(a.astype(np.float64)) ** beta for a in (x, test))
    sigma = np.cov(x.T)
    width = len(sigma)
    v1 = np.mean(np.diag(sigma))
    v2 = np.mean([sigma[i, j] for i in range(width) for j in range(width) if i != j])
    shrunk = sigma + gamma1 * v1 * np.eye(width) + gamma2 * v2 * (1 - np.eye(width))
    deviation = np.sqrt(np.diag(shrunk))
    inverse = np.linalg.inv(shrunk / np.outer(deviation, deviation))
    away = unit(test) - unit(x.mean(0))
    return np.array([d @ inverse @ d for d in away])


@pytest.mark.parametrize("gammas", [(1.0, 1.0), (1.0, 0.0), (0.3, 0.1)])
@pytest.mark.parametrize("n", [3, 6, 40])  # fewer and more samples than dimensions
@pytest.mark.parametrize("seed", range(3))
def test_distances_are_those_of_the_dense_matrices(
    seed: int, n: int, gammas: tuple[float, float]
) -> None:
    y = np.repeat([0, 1], n)
    x, test = np.abs(blobs(y, 8, seed, spread=0.5)), np.abs(blobs(y, 8, seed + 1, spread=0.5))
    learner = started(8, gamma1=gammas[0], gamma2=gammas[1])
    assert learner.learn(session(x, y), context()) == {"power": 0.5}
    found = learner.scores(torch.tensor(test)).numpy()
    for c in (0, 1):
        np.testing.assert_allclose(
            -found[:, c], plain(x[y == c], test, 0.5, *gammas), rtol=2e-3, atol=1e-5
        )
        assert len(learner.factors[c]) == min(n - 1, 8)  # never more numbers than D x D
    assert (found[:, 2] == UNSEEN).all()


def test_negatively_correlated_features_are_shrunk_too() -> None:
    """V₂ < 0: the shrunk matrix is still positive definite."""
    y = np.zeros(30, dtype=np.int64)
    one = np.random.default_rng(0).uniform(0.1, 0.9, 30)
    x = np.stack([one, 1 - one], 1).astype(np.float32)
    learner = started(2)
    learner.learn(session(x, y), context())
    found = learner.scores(torch.tensor(x)).numpy()[:, 0]
    np.testing.assert_allclose(-found, plain(x, x, 0.5, 1.0, 1.0), rtol=2e-3, atol=1e-6)
    assert (found <= 1e-6).all()


@pytest.mark.parametrize("seed", range(3))
def test_a_class_that_comes_again_adds_to_its_covariance(seed: int) -> None:
    y = np.zeros(30, dtype=np.int64)
    x, test = np.abs(blobs(y, 8, seed)), torch.tensor(np.abs(blobs(y, 8, seed + 1)))
    once, again = started(8), started(8)
    once.learn(session(x, y), context())
    for part in (x[:1], x[1:5], x[5:]):
        again.learn(session(part, y[: len(part)]), context())
    torch.testing.assert_close(again.scores(test), once.scores(test), rtol=1e-3, atol=1e-5)
    assert len(again.factors[0]) == 8


def test_a_power_is_taken_only_of_features_without_negative_values() -> None:
    y = np.repeat([0, 1], 20)
    x = blobs(y, 8, 0)
    assert (x < 0).any()
    signed = started(8)
    assert signed.learn(session(x, y), context()) == {"power": 1.0}
    test = torch.tensor(x[:5])
    expected = plain(x[:20], x[:5], 1.0, 1.0, 0.0)
    np.testing.assert_allclose(-signed.scores(test)[:, 0].numpy(), expected, rtol=2e-3)
    first = started(8)
    first.learn(session(np.abs(x), y), context())
    assert first.learn(session(x, y), context()) == {"power": 0.5}  # decided once
    assert torch.isfinite(first.scores(test)).all()


def test_one_sample_and_samples_that_are_all_alike_leave_distances_by_gamma1() -> None:
    for n in (1, 4):
        learner = started(3, gamma1=0.5, gamma2=0.0)
        learner.learn(session(np.ones((n, 3)), np.zeros(n, dtype=np.int64)), context())
        test = torch.tensor([[1.0, 1, 1], [1, 0, 0]])
        expected = torch.tensor([0.0, 2 - 2 * 3**-0.5]) * (1 + 0.5) / 0.5
        torch.testing.assert_close(-learner.scores(test)[:, 0], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_a_class_of_one_sample_is_not_nearer_than_the_others(seed: int) -> None:
    """Many more dimensions than samples: a test sample differs where no class was seen to vary."""
    y = np.repeat([0, 1, 2], [20, 20, 1])
    x, test = (blobs(y, 400, s, spread=1.5) for s in (seed, seed + 10))
    learner = started(400, gamma2=0.0)
    learner.learn(session(x, y), context())
    assert learner.scores(torch.tensor(test[:40])).argmax(1).tolist() == y[:40].tolist()


def test_what_varies_together_is_forgiven() -> None:
    """What class means cannot tell: two classes with one mean, one of correlated features."""
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.1, (200, 4))
    together = noise + rng.normal(0, 0.5, (200, 1)) * [1, -1, 0, 0]
    x = np.concatenate([together, noise]).astype(np.float32) + 2
    learner = started(4, gamma1=0.1, gamma2=0.0)
    learner.learn(session(x, np.repeat([0, 1], 200)), context())
    test = torch.tensor([[2.5, 1.5, 2, 2], [2.5, 2.5, 2, 2]])
    assert learner.scores(test)[:, :2].argmax(1).tolist() == [0, 1]


def test_bytes_are_those_of_the_rows() -> None:
    stream = class_stream([[0, 1], [2]], width=50, n_train=9)
    learner = started(50)
    for part in stream.sessions:
        learner.learn(part, context())
    assert learner.footprint() == {"means": 3 * (50 * 4 + 8), "covariances": 3 * 8 * 50 * 4}


@pytest.mark.parametrize(("lowest", "gamma2"), [(0.0, 1.0), (-1.0, 0.0)])
def test_gamma2_is_the_papers_for_the_sign_of_the_features(lowest: float, gamma2: float) -> None:
    draw = np.random.default_rng(0)
    x = np.abs(draw.normal(size=(60, 5))).astype(np.float32)
    x[0, 0] = lowest
    y = np.repeat([0, 1, 2], 20)
    test = torch.from_numpy(np.abs(draw.normal(size=(9, 5))).astype(np.float32))
    found = []
    for given in (None, gamma2):
        learner = FeCAM(gamma2=given)
        learner.start(StreamSpec((5,), 3), Seeds.of(0), "cpu")
        learner.learn(session(x, y), context())
        found.append(learner.scores(test))
    assert torch.equal(*found)


# --- few shots ---


@pytest.mark.parametrize("seed", range(3))
def test_classes_of_few_shots_take_the_mean_covariance_of_the_base_classes(seed: int) -> None:
    y, few = np.repeat([0, 1], [30, 12]), np.repeat([2], 3)
    x, shots, test = (
        np.abs(blobs(labels, 8, seed + k, spread=0.5)) for k, labels in enumerate((y, few, y))
    )
    learner = started(8, gamma1=0.3, gamma2=0.1, covariance="base")
    own = started(8, gamma1=0.3, gamma2=0.1)
    for part in (session(x, y), session(shots, few)):
        learner.learn(part, context())
        own.learn(part, context())
    found = learner.scores(torch.tensor(test))
    torch.testing.assert_close(found[:, :2], own.scores(torch.tensor(test))[:, :2])  # as ever
    unit_base, unit_few = (unit(a.astype(np.float64)) ** 0.5 for a in (x, shots))
    sigma = (np.cov(unit_base[:30].T) + np.cov(unit_base[30:].T)) / 2
    v1 = np.diag(sigma).mean()
    v2 = (sigma.sum() - np.trace(sigma)) / (8 * 7)
    shrunk = sigma + 0.3 * v1 * np.eye(8) + 0.1 * v2 * (1 - np.eye(8))
    deviation = np.sqrt(np.diag(shrunk))
    inverse = np.linalg.inv(shrunk / np.outer(deviation, deviation))
    away = unit(unit(test.astype(np.float64)) ** 0.5) - unit(unit_few.mean(0))
    expected = [d @ inverse @ d for d in away]
    np.testing.assert_allclose(-found[:, 2].numpy(), expected, rtol=2e-3, atol=1e-5)
    assert len(learner.factors[2]) == 0
