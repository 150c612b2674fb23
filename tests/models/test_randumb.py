"""RanDumb and KLDA: the kernel, LDA by scikit-learn on the features, the ensemble, the cuts."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.covariance import OAS
from teaching import show, start
from toy import Array, blobs

from embedbench.errors import UserError
from embedbench.learning import UNSEEN, Seeds, StreamSpec
from embedbench.models.randumb import RanDumb


def started(seed: int = 0, **settings: Any) -> Any:
    return start(RanDumb(**{"features": 30, **settings}), StreamSpec((5,), 4), seed)


def taught(x: Array, y: Array, cuts: list[int], seed: int = 0, **settings: Any) -> Any:
    return show(RanDumb(**{"features": 30, **settings}), x, y, cuts, seed)


def data(seed: int, n: int = 300) -> tuple[Array, Array, Array]:
    """Samples of three classes (class 3 never comes), and 50 others."""
    y = np.random.default_rng(seed).integers(0, 3, n)
    return blobs(y, 5, seed, spread=1.0), y, blobs(y[:50], 5, seed + 1, spread=1.0)


def phi(learner: RanDumb, x: Array, e: int = 0) -> Array:
    """The random features by the formula, float64."""
    angles = x @ learner.frequencies[e].double().numpy() + learner.phases[e].double().numpy()
    features: Array = np.sqrt(2 / learner.features) * np.cos(angles)
    return features


@pytest.mark.parametrize("gamma", [None, 0.05, 1.0])
def test_products_of_features_are_the_kernel(gamma: float | None) -> None:
    x, _, _ = data(0, 30)
    learner = started(features=4000, gamma=gamma)
    near = np.square(x[:, None] - x[None]).sum(2)
    features = learner._features(torch.tensor(x), 0).numpy()
    expected = np.exp(-(gamma or 1 / 5) * near)
    np.testing.assert_allclose(features @ features.T, expected, atol=5 / np.sqrt(4000))
    np.testing.assert_allclose(features, phi(learner, x), atol=1e-5)
    assert learner.phases.max() == pytest.approx(2 * np.pi, rel=0.01)


@pytest.mark.parametrize("shrinkage", [None, 0.1])
def test_it_is_lda_with_a_shrunk_covariance(shrinkage: float | None) -> None:
    """By OAS as in the authors' `legacy_model.py`, by scikit-learn; or with the mean variance."""
    x, y, test = data(0)
    learner = taught(x, y, [1, 20, 21, 270], shrinkage=shrinkage)
    h = phi(learner, x)
    means = np.stack([h[y == c].mean(0) for c in range(3)])
    if shrinkage is None:
        sigma = OAS(assume_centered=True).fit(h - means[y]).covariance_
    else:
        sigma = np.cov((h - means[y]).T, bias=True)
        sigma = 0.9 * sigma + 0.1 * np.trace(sigma) / 30 * np.eye(30)
    solved = np.linalg.solve(sigma, means.T)
    expected = phi(learner, test) @ solved - 0.5 * (means.T * solved).sum(0)
    scores = learner.scores(torch.tensor(test)).numpy()
    np.testing.assert_allclose(
        scores[:, :3] - scores[:, :1], expected - expected[:, :1], rtol=1e-3, atol=1e-3
    )
    assert (scores[:, 3] <= UNSEEN / 2).all()


@pytest.mark.parametrize("members", [1, 2])
def test_the_cuts_of_the_stream_change_no_bit(members: int) -> None:
    x, y, _ = data(0, 600)
    one = taught(x, y, [], ensemble=members)
    for cuts in ([255], [256, 257], list(range(10, 600, 10))):
        other = taught(x, y, cuts, ensemble=members)
        for name in ("scatter", "sums", "weights", "bias", "counts"):
            assert torch.equal(getattr(one, name), getattr(other, name)), (name, cuts)


@pytest.mark.parametrize("settings", [{}, {"shrinkage": 1e-9, "ensemble": 2}])
def test_an_evaluation_on_the_way_changes_no_bit(settings: dict[str, Any]) -> None:
    """As `randumb`, and as `klda`, whose covariance is nearly singular."""
    x, y, test = data(0, 600)
    one, other = taught(x, y, [], **settings), taught(x[:100], y[:100], [], **settings)
    other.observe(torch.tensor(x[100:]), torch.tensor(y[100:]))
    other.prepare()
    assert torch.equal(one.scatter, other.scatter)
    assert torch.equal(one.scores(torch.tensor(test)), other.scores(torch.tensor(test)))


def test_samples_that_wait_are_in_the_answers_and_none_waits_after_a_session() -> None:
    x, y, test = data(0, 600)
    learner = taught(x, y, [], ensemble=2)
    assert learner.footprint()["waiting"] == (600 % 256) * (5 * 4 + 8)
    before = learner.scores(torch.tensor(test))
    learner.trim()
    assert learner.footprint()["waiting"] == 0
    assert torch.equal(before, learner.scores(torch.tensor(test)))
    learner.prepare()
    assert torch.equal(before, learner.scores(torch.tensor(test)))
    assert int(learner.counts.sum()) == 600


def test_waiting_samples_are_part_of_the_state() -> None:
    x, y, _ = data(1, 300)
    half, again = started(), started()
    half.observe(torch.tensor(x[:100]), torch.tensor(y[:100]))
    again.load_state_dict(half.state_dict())
    again.observe(torch.tensor(x[100:]), torch.tensor(y[100:]))
    again.prepare()
    assert torch.equal(again.weights, taught(x, y, []).weights)


def test_the_ensemble_adds_the_softmax_of_mahalanobis_distances() -> None:
    """KLDA-E: -d² by the scatter matrix, not divided by the number of samples."""
    x, y, test = data(0)
    learner = taught(x, y, [50], ensemble=3, shrinkage=1e-9)
    expected = np.zeros((len(test), 3))
    for e in range(3):
        h, asked = phi(learner, x, e), phi(learner, test, e)
        means = np.stack([h[y == c].mean(0) for c in range(3)])
        scatter = (h - means[y]).T @ (h - means[y])
        away = asked[:, None] - means
        logits = -np.einsum("ncd,de,nce->nc", away, np.linalg.inv(scatter), away)
        share = np.exp(logits - logits.max(1, keepdims=True))
        expected += share / share.sum(1, keepdims=True)
    scores = learner.scores(torch.tensor(test)).numpy()
    np.testing.assert_allclose(scores[:, :3], expected, atol=1e-4)
    assert not scores[:, 3].any()


def test_members_are_drawn_independently_and_the_first_is_that_of_one() -> None:
    x, y, _ = data(0, 20)
    one, three = taught(x, y, []), taught(x, y, [], ensemble=3)
    assert torch.equal(one.frequencies[0], three.frequencies[0])
    assert not torch.equal(three.frequencies[0], three.frequencies[1])
    assert not torch.equal(one.frequencies, taught(x, y, [], 1).frequencies)


def test_where_nothing_varies_the_nearest_mean_answers() -> None:
    x = np.array([[0, 0, 0, 0, 0], [3, 0, 0, 0, 0]], dtype=np.float32)
    learner = taught(x, np.array([0, 1]), [1], features=200)
    scores, (a, b) = learner.scores(torch.tensor(x)), phi(learner, x)
    expected = phi(learner, x) @ (b - a) - (b @ b - a @ a) / 2  # of ‖φ - a‖² and ‖φ - b‖²
    np.testing.assert_allclose(scores[:, 1] - scores[:, 0], expected, rtol=1e-3)
    assert scores.argmax(1).tolist() == [0, 1]


def test_too_many_features_are_refused_before_memory_is_taken() -> None:
    with pytest.raises(UserError, match="randumb holds"):
        RanDumb(features=100_000).start(StreamSpec((5,), 4), Seeds.of(0), "cpu")
