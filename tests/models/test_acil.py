"""ACIL: the authors' recursion, ridge regression on all data at once, and the cuts."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from teaching import show
from toy import Array, blobs

from embedbench.learning import Seeds, generator
from embedbench.models._linear_models import Blocks, ridge
from embedbench.models.acil import ACIL

SIZE = 30


def data(seed: int, n: int = 300) -> tuple[Array, Array]:
    """Classes 0 and 1 first, then 2; class 3 never comes."""
    y = np.sort(np.random.default_rng(seed).integers(0, 3, n))
    return blobs(y, 6, seed, spread=1.0), y


def hidden(learner: ACIL, x: Array) -> Array:
    """h = ReLU(Bx), with the learner's float32 weights."""
    h: Array = learner.features(torch.tensor(x)).double().numpy()
    return h


def recursion(h: Array, y: Array, cuts: list[int], lam: float) -> Array:
    """The paper's Equations 9 and 10: R and W updated batch by batch, float64."""
    r, w = np.eye(SIZE) / lam, np.zeros((SIZE, 4))
    for part in np.split(np.arange(len(y)), cuts):
        block, labels = h[part], np.eye(4)[y[part]]
        k = np.linalg.inv(np.eye(len(part)) + block @ r @ block.T)
        r = r - r @ block.T @ k @ block @ r
        w = w + r @ block.T @ (labels - block @ w)
    return w


@pytest.mark.parametrize(("seed", "lam"), [(0, 0.1), (1, 10.0)])
def test_the_recursion_is_ridge_on_all_data_and_so_is_the_learner(seed: int, lam: float) -> None:
    x, y = data(seed)
    cuts = sorted(np.random.default_rng(seed).choice(np.arange(1, 300), 12, replace=False))
    learner = show(ACIL(projections=SIZE, lam=lam), x, y, cuts, seed)
    h = hidden(learner, x)
    known = Ridge(alpha=lam, fit_intercept=False, solver="cholesky").fit(h, np.eye(4)[y]).coef_.T
    np.testing.assert_allclose(recursion(h, y, cuts, lam), known, atol=1e-6)
    np.testing.assert_allclose(learner.weights.numpy(), known, rtol=1e-5, atol=1e-6)
    asked = blobs(y[:40], 6, seed + 1, spread=1.0)
    scores = learner.scores(torch.tensor(asked)).numpy()
    np.testing.assert_allclose(scores, hidden(learner, asked) @ known, atol=1e-4)
    assert not scores[:, 3].any()


def test_the_buffer_layer_is_as_pytorchs_linear_begins() -> None:
    drawn = show(ACIL(projections=500), *data(0, 10)).projection
    known = torch.nn.Linear(6, 500, bias=False).weight.detach()
    uniform = 2 * torch.rand(6, 500, generator=generator(Seeds.of(0).init, 0)) - 1
    torch.testing.assert_close(drawn, uniform / 6**0.5)
    for weights in (drawn, known):
        assert weights.abs().max() <= 1 / np.sqrt(6)
        assert weights.std() == pytest.approx(1 / np.sqrt(18), rel=0.05)


def test_blocks_are_whole_and_the_rest_waits() -> None:
    made, seen = Blocks(), 0
    two = [256, 256]
    for n, sizes, left in ((255, [], 255), (1, [256], 0), (600, two, 88), (512, two, 88)):
        numbers = torch.arange(seen, seen + n)
        assert [len(y) for _, y in made.add(numbers[:, None].float(), numbers)] == sizes
        assert sum(len(y) for _, y in made.waiting) == left
        assert len(made.waiting) == (left > 0)
        seen += n
    ((x, y),) = made.rest()
    assert y.tolist() == x[:, 0].tolist() == list(range(1280, 1368))
    assert list(made.rest()) == []


@pytest.mark.parametrize(("least", "used"), [(1e-3, 10.0), (4.0, 40.0)])
def test_lambda_rises_tenfold_until_it_will_do(least: float, used: float) -> None:
    gram = torch.diag(torch.tensor([-5.0, 1.0])).double()
    weights, lam = ridge(gram, torch.eye(2).double(), 0.1, least)
    assert lam == pytest.approx(used)
    torch.testing.assert_close(weights.diag(), 1 / (gram.diag() + used))


def test_an_evaluation_on_the_way_changes_no_bit() -> None:
    x, y = data(0)
    one, other = (show(ACIL(projections=SIZE), x, y, cuts) for cuts in ([], []))
    half = ACIL(projections=SIZE)
    half = show(half, x[:100], y[:100], [])
    half.observe(torch.tensor(x[100:]), torch.tensor(y[100:]))
    half.prepare()
    half.prepare()
    assert torch.equal(one.weights, half.weights)
    other.trim()
    assert torch.equal(one.weights, other.weights)
