"""FEL: the fixed layer, its winners, gradients through them alone, sizes."""

from typing import Any

import numpy as np
import pytest
import torch
from teaching import learn, start, teach
from torch.nn.utils import parameters_to_vector
from toy import class_stream

from embedbench.learning import Stop, StreamSpec
from embedbench.models.fel import FEL, expansion

SMALL: dict[str, Any] = {"units": 24, "fel_units": 20, "k_pos": 3, "k_neg": 2, "batch_size": 8}


def started(inputs: int = 6, classes: int = 3, **settings: Any) -> Any:
    return start(FEL(**{**SMALL, **settings}), StreamSpec((inputs,), classes))


@pytest.mark.parametrize(
    ("units", "given", "fan_in"), [(400, 0, 200), (8, 4, 4), (9, 5, 5), (5, 0, 2)]
)
def test_half_of_the_connections_excite(units: int, given: int, fan_in: int) -> None:
    torch.manual_seed(0)
    weights = expansion(units, 50, given)
    assert weights.shape == (units, 50)
    assert ((weights > 0).sum(0) == fan_in // 2).all()
    assert ((weights < 0).sum(0) == fan_in - fan_in // 2).all()
    size = weights.abs()[weights != 0]
    torch.testing.assert_close(size, torch.full_like(size, fan_in**-0.5))
    assert len(torch.unique(weights.T, dim=0)) > min(40, 2 * units)  # units differ


def test_connections_and_signs_are_drawn_evenly() -> None:
    torch.manual_seed(0)
    weights = expansion(20, 2000, 10)
    for kind in (weights > 0, weights < 0):  # a quarter of 2,000 units, ±4.5 s.d. of .0097
        assert ((kind.float().mean(1) - 0.25).abs() < 0.044).all()


def test_training_moves_all_but_the_fixed_layer() -> None:
    learner = started()
    before = {k: v.clone() for k, v in learner.net.state_dict().items()}
    learn(learner, class_stream([[0, 1, 2]]).sessions[0])
    moved = {k for k, v in learner.net.state_dict().items() if not torch.equal(v, before[k])}
    assert moved == {"hidden.weight", "hidden.bias", "head.weight", "head.bias"}
    assert (before["bias"] == 0).all()


def plain(learner: FEL, row: np.ndarray) -> np.ndarray:
    """Logits of one sample in NumPy, a unit at a time, float64."""
    w = {k: v.double().numpy() for k, v in learner.net.state_dict().items()}
    h = np.maximum(w["hidden.weight"] @ row + w["hidden.bias"], 0)
    sums = np.array([sum(h[i] * w["expand"][i, j] for i in range(len(h))) for j in range(20)])
    ranked = sorted(range(20), key=lambda j: sums[j])
    assert np.diff(sums[ranked]).min() > 1e-6  # winners of equal sums would be arbitrary
    out = np.zeros(20)
    for j in ranked[len(ranked) - learner.k_pos :]:
        out[j] = {"raw": sums[j], "saturate": sums[ranked[-1]], "sign": 1}[learner.value]
    for j in ranked[: learner.k_neg]:
        out[j] = {"raw": sums[j], "saturate": sums[ranked[0]], "sign": -1}[learner.value]
    scores: np.ndarray = w["head.weight"] @ out + w["head.bias"]
    return scores


@pytest.mark.parametrize("value", ["raw", "saturate", "sign"])
@pytest.mark.parametrize(("k_pos", "k_neg"), [(3, 2), (4, 0), (0, 1), (10, 10)])
def test_scores_are_the_definition(k_pos: int, k_neg: int, value: str) -> None:
    learner = started(k_pos=k_pos, k_neg=k_neg, value=value)
    with torch.no_grad():
        learner.net.hidden.bias.add_(0.7)  # few units at 0, which make sums equal
    x = torch.randn(12, 6, generator=torch.Generator().manual_seed(1))
    found = learner.scores(x).numpy()
    for row, scores in zip(x.double().numpy(), found, strict=True):
        np.testing.assert_allclose(scores, plain(learner, row), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("value", ["raw", "saturate", "sign"])
def test_the_gradient_goes_through_winners_only_and_straight(value: str) -> None:
    net = started(value=value).net
    x = torch.randn(9, 6, generator=torch.Generator().manual_seed(0))
    out = torch.randn(9, 3, generator=torch.Generator().manual_seed(100))
    (net(x) * out).sum().backward()
    with torch.no_grad():  # ∂/∂sums is head.weightᵀ·out on winners, whatever they put out
        h = torch.relu(net.hidden(x))
        sums = h @ net.expand
        order = sums.argsort(1)
        wins = torch.zeros_like(sums)
        wins.scatter_(1, order[:, -3:], 1).scatter_(1, order[:, :2], 1)
        back = (out @ net.head.weight) * wins @ net.expand.T * (h > 0)
    torch.testing.assert_close(net.hidden.weight.grad, back.T @ x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("state", ["fresh", "kept"])
def test_later_sessions_have_their_own_rate(state: str) -> None:
    """One step a session: its length is proportional to the rate, also with momentum."""
    stream, once = class_stream([[0, 1], [2]]), Stop(rule="epochs", epochs=1)
    moved = {}
    for rate in (None, 0.1, 0.02):
        how = {**SMALL, "batch_size": 1000, "optimiser": "sgd", "lr": 0.1, "lr_later": rate}
        learner, _ = teach(FEL(**how, optimiser_state=state, stop=once), stream, 1)
        before = parameters_to_vector(learner.net.parameters())
        learn(learner, stream.sessions[1])
        moved[rate] = before, parameters_to_vector(learner.net.parameters()) - before
    assert torch.equal(moved[None][0], moved[0.02][0])  # the first session has `lr`
    assert torch.equal(moved[None][1], moved[0.1][1])
    assert moved[0.1][1].abs().max() > 1e-3
    torch.testing.assert_close(moved[0.02][1], 0.2 * moved[0.1][1], rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize(
    ("inputs", "classes", "fel_units", "megabytes"),
    [(784, 10, 2000, 4.544), (2048, 200, 1200, 6.164), (1280, 100, 2000, 6.058)],
)
def test_sizes(inputs: int, classes: int, fel_units: int, megabytes: float) -> None:
    """Table 2 counts the fixed matrix dense, with a bias a unit."""
    learner = start(FEL(fel_units=fel_units), StreamSpec((inputs,), classes))
    held, d, h, f, c = learner.footprint(), inputs, 400, fel_units, classes
    assert held["fixed"] == 4 * (h * f + f)
    assert held.total == 4 * (d * h + h + h * f + f + f * c + c)
    assert abs(held.total / 1e6 - megabytes) <= 0.0005
