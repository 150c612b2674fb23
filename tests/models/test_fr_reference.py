"""FR against reference functions of the authors' module, losses and gAcc."""

from typing import Any

import numpy as np
import pytest
import torch
from fr_reference import Batch, Module, five, gacc
from teaching import normal, start
from torch import Tensor

from embedbench.learning import Seeds, StreamSpec
from embedbench.models.fr import FR, TERMS, Rectifier
from embedbench.scores.few_shot_scores import curves_from_accuracies, summary

LAYERS, WIDTH, HIDDEN, N_BASE, CLASSES, N = 3, 12, 20, 5, 8, 30
WEIGHTS = (0.1, 2.0, 0.5, 1.0, 1.0)  # the authors' script for CIFAR-100
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.mark.parametrize(("hidden", "parameters"), [(512, 922_880), (None, 659_200)])
def test_modules_have_their_number_of_parameters(hidden: int | None, parameters: int) -> None:
    assert sum(p.numel() for p in Module(256, hidden or 256).parameters()) == parameters
    layers = {f"block-{k}": (256 * k, 256 * (k + 1)) for k in (1, 2, 3)}
    learner = start(FR(hidden=hidden), StreamSpec((1024,), 2, layers=layers))
    assert sum(p.numel() for p in learner.net.parameters()) == 3 * parameters


def test_the_reference_losses_by_hand() -> None:
    """Two base samples at right angles and a novel one; every number follows from the equations."""
    final = torch.eye(2, dtype=torch.float64)[[0, 1, 0]]
    rectified = torch.tensor([[0.0, 2.0], [0.0, 2.0], [3.0, 0.0]], dtype=torch.float64)
    layer = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 4.0]], dtype=torch.float64)
    prototypes = 5 * torch.eye(2, dtype=torch.float64)
    y = torch.tensor([0, 0, 1])
    cos, novel, relation, same, different = map(
        float, five(rectified, Batch(final, layer, y, prototypes, n_base=1))
    )
    assert cos == pytest.approx((1 + 0 + 0) / 3)
    # the novel sample lies on the other prototype: -log(1 / (1 + e^16))
    assert novel == pytest.approx(np.log1p(np.exp(16.0)))
    p = np.exp(16 * np.array([1, 4]) / np.sqrt(17))  # of the third sample
    p /= p.sum()
    turned = np.tanh(8.0) * 16  # KL of two softmaxes that are mirrored
    third = (p * (np.log(p) + np.log1p(np.exp([-16.0, 16.0])))).sum()
    assert relation == pytest.approx((2 * turned + third) / 3)
    assert same == 0  # both pairs of class 0 are at distance 0, and five pairs count
    # distance √13 to the novel sample, and 4 in the layer
    assert different == pytest.approx((4 - np.sqrt(13)) ** 2 / 2)


def started(seed: int) -> tuple[FR, list[Module], Tensor, Tensor]:
    """FR with drawn prototypes, the references with its weights, a batch of all tables, labels."""
    layers = {f"block-{k}": (WIDTH * k, WIDTH * (k + 1)) for k in range(1, LAYERS + 1)}
    given: Any = {f"w_{t}": w for t, w in zip(TERMS, WEIGHTS, strict=True)}
    learner = FR(hidden=HIDDEN, **given)
    spec = StreamSpec((WIDTH * (1 + LAYERS),), CLASSES + 1, layers=layers)  # one class is not seen
    learner.start(spec, Seeds.of(seed), "cpu")
    for p in learner.net.parameters():  # gains and shifts too
        p.data += 0.2 * normal(*p.shape, seed=seed)
    everything = normal(CLASSES, WIDTH * (1 + LAYERS), seed=seed + 1)
    learner.prototypes.include(everything, torch.arange(CLASSES))
    learner.base[:N_BASE] = True
    tables = 1.5 * normal(1 + LAYERS, N, WIDTH, seed=seed + 2)
    y = torch.randint(CLASSES, (N,), generator=torch.Generator().manual_seed(seed))
    return learner, [copied(learner.net, k) for k in range(LAYERS)], tables, y


def pairs(net: Rectifier, module: Module) -> list[tuple[Tensor, Tensor, bool]]:
    """Our parameters of all layers, those of a reference, and whether they are turned."""
    result = []
    for part in ("intermediate", "final", "mix"):
        ours, theirs = getattr(net, part), getattr(module, part)
        result += [
            (ours.enter.weight, theirs.fc1.weight, True),
            (ours.enter.bias, theirs.fc1.bias, False),
            (ours.gain, theirs.norm.weight, False),
            (ours.shift, theirs.norm.bias, False),
            (ours.leave.weight, theirs.fc2.weight, True),
            (ours.leave.bias, theirs.fc2.bias, False),
        ]
    return result


def copied(net: Rectifier, k: int) -> Module:
    """The reference module with our weights of layer k."""
    module = Module(WIDTH, HIDDEN)
    for ours, theirs, turned in pairs(net, module):
        value = ours.data[k].T if turned else ours.data[k].flatten()
        assert value.shape == theirs.shape
        theirs.data.copy_(value)
    return module


@pytest.mark.parametrize("novel", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_the_module_the_losses_and_the_gradients_are_theirs(seed: int, novel: bool) -> None:
    learner, modules, tables, y = started(seed)
    y = y if novel else y % N_BASE
    found = learner.net(tables[0], tables[1:])
    wide = tables.double()
    expected = [m(wide[1 + k], wide[0]) for k, m in enumerate(modules)]
    torch.testing.assert_close(found.double(), torch.stack(expected), **CLOSE)
    prototypes = learner.prototypes.rows[:CLASSES].double()
    by_layer = [
        torch.stack(five(x, Batch(wide[0], wide[1 + k], y, prototypes, N_BASE)))
        for k, x in enumerate(expected)
    ]
    terms = learner._losses(tables, y)
    assert (terms > 0).tolist() == [True, novel, True, True, True]
    torch.testing.assert_close(terms.double(), torch.stack(by_layer).sum(0), **CLOSE)
    (terms * learner._weights()).sum().backward()
    theirs = sum((t * torch.tensor(WEIGHTS, dtype=torch.float64)).sum() for t in by_layer)
    assert isinstance(theirs, Tensor)
    theirs.backward()
    for k, module in enumerate(modules):
        check_gradients(learner.net, module, k)


def check_gradients(net: Rectifier, module: Module, k: int) -> None:
    """Our gradients of layer k are those of the reference; 1e-5 of the largest one is allowed."""
    largest = max(float(p.grad.abs().max()) for p in module.parameters() if p.grad is not None)
    assert largest > 0
    for ours, theirs, turned in pairs(net, module):
        assert ours.grad is not None
        assert theirs.grad is not None
        grad = ours.grad[k].T if turned else ours.grad[k].flatten()
        torch.testing.assert_close(grad.double(), theirs.grad, rtol=1e-5, atol=1e-5 * largest)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("sizes", [[60, *[5] * 8], [100, *[10] * 10]])
def test_gacc_is_theirs(seed: int, sizes: list[int]) -> None:
    """Accuracies of three decimals, to which their code rounds before."""
    n = len(sizes)
    R = np.random.default_rng(seed).uniform(size=(n, n)).round(3)
    expected = gacc([R[i, : i + 1].tolist() for i in range(n)], sizes[0] // sizes[1])
    assert summary(curves_from_accuracies(R, sizes))["gacc"] == pytest.approx(expected, abs=1e-12)
