"""er, agem, icarl, lucir, bic with label sets: each mechanism by independent code, and learning."""

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from multilabel_streams import N_CLASSES, hierarchy_stream, teach
from scipy.optimize import minimize
from teaching import (
    SGD,
    assert_same_weights,
    cosine,
    descend,
    disturb,
    learn,
    minibatches,
    plain,
    start,
)
from torch import Tensor
from torch.nn.functional import logsigmoid

from embedbench.learning import Memory, Seeds, Stop, generator
from embedbench.learning.network import CosineNet, cosine_mlp, mlp_net
from embedbench.models.agem import AGEM
from embedbench.models.bic import BiC, fitted_bias
from embedbench.models.er import ER
from embedbench.models.icarl import ICaRL
from embedbench.models.lucir import LUCIR

STREAM = hierarchy_stream()
FEW: dict[str, Any] = {**SGD, "units": 8, "batch_size": 16, "lr": 0.1}
RANDOM = Memory(per_class=10, select="random")


def entropy(logits: Any, targets: Any, classes: list[int]) -> float:
    """Binary cross-entropy, a sample and a class at a time; the mean."""
    values = []
    for z, t in zip(logits.tolist(), targets.tolist(), strict=True):
        for c in classes:
            p = 1 / (1 + math.exp(-z[c]))
            values.append(-t[c] * math.log(p) - (1 - t[c]) * math.log(1 - p))
    return float(np.mean(values))


def test_er_learns_a_session_with_all_its_exemplars_each_epoch() -> None:
    learner = start(ER(memory=RANDOM, **FEW), STREAM.spec)
    net = mlp_net(10, 8, 2, N_CLASSES, Seeds.of(0).init)
    for t, s in enumerate(STREAM.sessions):
        x = torch.cat([s.x.tensor(), learner.exemplars.x])
        y = torch.cat([torch.from_numpy(s.y), learner.exemplars.y]).float()
        seen = [c for part in STREAM.sessions[: t + 1] for c in part.classes]
        learn(learner, s)
        optimiser = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
        for index in minibatches(len(y), generator(Seeds.of(0).batches, t), size=16):
            p = torch.sigmoid(net(x[index])[:, seen])
            true = y[index][:, seen]
            descend(optimiser, -(true * p.log() + (1 - true) * (1 - p).log()).mean())
        assert_same_weights(learner, net, rtol=1e-3, atol=1e-5)
    assert len(learner.exemplars) == 10 * N_CLASSES


def test_agem_projects_by_the_gradient_of_old_classes() -> None:
    """One step an epoch; the loss of the exemplars is over old classes, that of the session over
    new ones."""
    learner = AGEM(memory=RANDOM, **{**FEW, "batch_size": 500, "lr": 0.5})
    teach(learner, STREAM.sessions[:1], STREAM.spec)
    old, s = learner.exemplars, STREAM.sessions[1]
    old_x, old_y = old.x.clone(), old.y.float()
    net, dots = copy.deepcopy(learner.net), []
    learn(learner, s)
    parameters = list(net.parameters())
    sgd = torch.optim.SGD(parameters, lr=0.5, momentum=0.9, weight_decay=1e-4)

    def by(x: Tensor, y: Tensor, classes: list[int]) -> Tensor:
        z, t = net(x)[:, classes], y[:, classes]
        loss = -(t * logsigmoid(z) + (1 - t) * logsigmoid(-z)).mean()
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)])

    for _ in range(3):
        g = by(s.x.tensor(), torch.from_numpy(s.y).float(), [2, 5, 7])
        r = by(old_x, old_y, [0, 1])
        dots.append(float(g @ r))
        g = g if g @ r >= 0 else g - (g @ r) / (r @ r) * r
        for p, part in zip(parameters, g.split([p.numel() for p in parameters]), strict=True):
            p.grad = part.view_as(p)
        sgd.step()
    assert min(dots) < 0  # there was something to project
    assert_same_weights(learner, net, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("head", ["linear", "cosine"])
def test_icarls_targets_of_old_classes_are_the_old_networks_for_every_sample(head: str) -> None:
    learner = start(ICaRL(head=head, **FEW), STREAM.spec, 1)
    teacher = copy.deepcopy(learner.net)
    objective = learner._objective([2, 5, 7], [0, 1])
    disturb(learner.net)
    x, y = STREAM.sessions[1].x.tensor()[::4], torch.from_numpy(STREAM.sessions[1].y)[::4]
    targets = y.float()
    targets[:, :2] = 1 / (1 + (-teacher(x)[:, :2].detach()).exp())
    found = objective(x, y)
    expected = entropy(learner.net(x).detach(), targets, [0, 1, 2, 5, 7])
    assert found.item() == pytest.approx(expected, rel=1e-4)
    marked = y.clone()
    marked[:, 0] = True  # what is said of an old class does not matter, of a new one it does
    assert torch.equal(objective(x, marked), found)
    marked[:, 2] = True
    assert not torch.equal(objective(x, marked), found)
    found.backward()
    vectors = learner.net.theta if isinstance(learner.net, CosineNet) else learner.net[-1].weight
    assert vectors.grad is not None
    assert (vectors.grad[[3, 4, 6]] == 0).all()
    assert (vectors.grad[[0, 1, 2, 5, 7]].abs().sum(1) > 0).all()


def test_how_a_cosine_layer_begins() -> None:
    drawn = cosine_mlp(4, 100, 1, 500, eta=1.0, seed=0).theta
    assert drawn.abs().max() <= 0.1
    assert drawn.abs().mean().item() == pytest.approx(0.05, rel=0.02)  # uniform in ±1/√100


def test_eta_is_learned_begins_anew_and_does_not_change_the_answer() -> None:
    learner = ICaRL(head="cosine", **FEW)
    begins, train = [], learner.train

    def watched(*given: Any, **hooks: Any) -> Any:
        begins.append(learner.net.eta.item())
        return train(*given, **hooks)

    learner.train = watched  # type: ignore[method-assign]
    start(learner, STREAM.spec)
    for s in STREAM.sessions:
        learn(learner, s)
        assert abs(learner.net.eta.item() - 1) > 1e-3
    assert begins == [1.0] * 4
    x = STREAM.eval_sets[0].x.tensor()
    assert ((learner.scores(x) > 0) == (learner.net(x) > 0)).all()
    before = learner.scores(x)
    learner.net.eta.data.fill_(17.0)
    assert torch.equal(learner.scores(x), before)


def test_lucirs_loss_a_sample_at_a_time() -> None:
    """Binary cross-entropy of η cos, λ (1 - cos) of features, margins of samples of old labels."""
    learner = LUCIR(units=8, stop=Stop(rule="epochs", epochs=2))
    teach(learner, STREAM.sessions[:1], STREAM.spec)
    objective = learner._objective([0, 1], [2, 5, 7], 3.0)
    was = copy.deepcopy(learner.net)
    disturb(learner.net)
    x = torch.cat([STREAM.sessions[1].x.tensor()[::5], learner.exemplars.x[::5]])
    y = torch.cat([torch.from_numpy(STREAM.sessions[1].y)[::5], learner.exemplars.y[::5]])
    y[-1, 0] = y[-1, 1] = True  # an exemplar of two old classes has its margins from both
    y[0, 1] = True  # a sample with a new label is no exemplar
    theta = plain(learner.net.theta)
    logits, turned, margins = [], [], []
    for row, labels in zip(x, y.tolist(), strict=True):
        phi, old = (plain(n.features(row[None])[0]) for n in (learner.net, was))
        cosines = [cosine(phi, t) for t in theta]
        logits.append([learner.net.eta.item() * v for v in cosines])
        turned.append(1 - cosine(phi, old))
        if any(labels[c] for c in (2, 5, 7)):
            continue
        for c in (0, 1):
            if labels[c]:
                hard = sorted(cosines[k] for k in (2, 5, 7))[-2:]
                margins += [max(0.0, 0.5 - cosines[c] + v) for v in hard]
    assert sum(m > 0 for m in margins) > 2
    whole = entropy(torch.tensor(logits), y.double(), [0, 1, 2, 5, 7])
    expected = whole + 3 * np.mean(turned) + np.mean(margins)
    assert objective(x, y).item() == pytest.approx(expected, rel=1e-4)


def test_lucirs_lambda_frozen_vectors_and_imprinting() -> None:
    learner = start(LUCIR(units=8, stop=Stop(rule="epochs", epochs=3)), STREAM.spec)
    lams = []
    for s in STREAM.sessions:
        before = learner.net.theta.detach().clone()
        old = sorted(learner.exemplars.classes)
        lams.append(learn(learner, s)["lam"])
        assert torch.equal(learner.net.theta.detach()[old], before[old])
    assert lams == pytest.approx([0, 5 * math.sqrt(2 / 3), 5 * math.sqrt(5 / 2), 5 * math.sqrt(7)])
    fresh = LUCIR(units=8, stop=Stop(rule="epochs", epochs=3))
    teach(fresh, STREAM.sessions[:1], STREAM.spec)
    fresh._imprint(STREAM.sessions[1], [2], [0, 1])
    x = STREAM.sessions[1].x.tensor()[torch.from_numpy(STREAM.sessions[1].y[:, 2])]
    phi = fresh.net.features(x).detach()
    mean = (phi / phi.norm(dim=1, keepdim=True)).mean(0)
    theta = fresh.net.theta.detach()
    length = (theta[0].norm() + theta[1].norm()) / 2
    torch.testing.assert_close(theta[2], length * mean / mean.norm())


def test_bics_two_numbers_minimise_the_binary_cross_entropy() -> None:
    draw = torch.Generator().manual_seed(0)
    y = torch.rand(200, 2, generator=draw) < 0.3
    logits = 2.0 * y - 1 + torch.randn(200, 2, generator=draw) + 2

    def loss(bias: Any) -> float:
        moved = bias[0] * logits.double() + bias[1]
        penalty = 0.05 * ((bias[0] - 1) ** 2 + bias[1] ** 2)
        return entropy(moved, y.double(), [0, 1]) + float(penalty)

    known = minimize(loss, [1.0, 0.0], tol=1e-10).x
    np.testing.assert_allclose(fitted_bias(logits, y, [0, 1]).numpy(), known, atol=2e-3)


def test_bics_targets_hold_out_and_pairs() -> None:
    learner = BiC(**FEW, memory=Memory(per_class=10), hold_out=0.2)
    assert teach(learner, STREAM.sessions[:2], STREAM.spec)[1]["held_out"] == 2 * 5
    assert learner.session_of.tolist() == [0, 0, 1, 0, 0, 1, 0, 1]
    assert learner.biases[0].tolist() == [1, 0]
    first = learner.biases[1].clone()
    joined = learner.exemplars.join(STREAM.sessions[2])
    rest, held, held_y = learner._hold_out(joined, [0, 1, 2, 5, 7])
    assert held_y.sum(0).tolist() == [2, 2, 2, 2, 0, 2, 2, 2]
    assert len(rest.x) + len(held) == len(joined.x)
    learner.biases = torch.tensor([[1.2, 0.3], [0.7, -0.8]])
    objective = learner._objective([0, 1, 2, 5, 7], [0, 1, 2, 3, 5, 6, 7])
    x = STREAM.sessions[2].x.tensor()[::5]
    y = torch.from_numpy(STREAM.sessions[2].y)[::5]
    scale = torch.tensor([1.2, 1.2, 0.7, 1.2, 1.2, 0.7, 1.2, 0.7])
    shift = torch.tensor([0.3, 0.3, -0.8, 0.3, 0.3, -0.8, 0.3, -0.8])
    targets, old = y.float(), [0, 1, 2, 5, 7]
    targets[:, old] = torch.sigmoid(learner.net(x) * scale + shift)[:, old].detach()
    disturb(learner.net)
    expected = entropy((learner.net(x) * scale + shift).detach(), targets, [0, 1, 2, 3, 5, 6, 7])
    assert objective(x, y).item() == pytest.approx(expected, rel=1e-4)
    learner.biases = torch.stack([torch.tensor([1.0, 0.0]), first])
    learn(learner, STREAM.sessions[2])
    assert torch.equal(learner.biases[1], first)  # an older pair stays
    assert learner.biases[2].tolist() != [1, 0]


@pytest.mark.parametrize("cls", [ER, AGEM])
def test_online_batches_of_label_sets(cls: Any) -> None:
    """Through observe: the classes met so far, and no other, are in the loss."""
    learner = start(cls(units=8, lr=0.05, updates=1), STREAM.spec)
    head = learner.net[-1]
    began = head.weight.detach().clone()
    s = STREAM.sessions[0]
    for index in torch.split(torch.arange(len(s.x)), 10):
        learner.observe(s.x.batch(index), torch.from_numpy(s.y)[index])
    decay = (1 - 0.05 * 1e-4) ** 100  # nothing but the weight decay reached the others
    assert (head.weight[2:] - began[2:]).abs().max() < 1 - decay
    assert (head.weight[:2] - began[:2]).abs().max() > 0.01
