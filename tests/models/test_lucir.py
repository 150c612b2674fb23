"""LUCIR: imprinted vectors, margins by hand, the loss a sample at a time, what stands still."""

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from teaching import cosine, disturb, learn, plain, teach
from toy import class_stream

from embedbench.learning.stopping import Stop
from embedbench.models.lucir import LUCIR, ranking
from embedbench.streams.stream import Stream

SMALL: dict[str, Any] = {"units": 8, "batch_size": 16, "stop": Stop(rule="epochs", epochs=4)}
STREAM = class_stream([[0, 1], [2, 3], [4]])


def taught(stream: Stream, sessions: int, **settings: Any) -> Any:
    return teach(LUCIR(**{**SMALL, **settings}), stream, sessions)[0]


def test_margins_by_hand() -> None:
    cosines = torch.tensor([[0.9, 0.2, 0.7, -0.1], [0.5, 0.3, 0.2, 0.1]])
    # margin .5, K = 2: .5 - .9 + (.7, .2) = .3, -.2; .5 - .5 + (.3, .2) = .3, .2
    found = ranking(cosines, torch.tensor([0, 0]), [1, 2, 3], 2, 0.5)
    assert float(found) == pytest.approx((0.3 + 0 + 0.3 + 0.2) / 4)
    # a single new class: K can be no more; the other old class does not count
    found = ranking(cosines, torch.tensor([0, 2]), [3], 2, 0.5)
    assert float(found) == pytest.approx((0 + (0.5 - 0.2 + 0.1)) / 2)


def test_new_vectors_are_imprinted() -> None:
    """Direction of the mean of unit features, length of the old vectors on average."""
    learner = taught(STREAM, 1)
    before = learner.net.theta.detach().clone()
    learner._imprint(STREAM.sessions[1], [2, 3], [0, 1])
    theta = learner.net.theta.detach()
    length = np.mean([np.linalg.norm(before[c].numpy()) for c in (0, 1)])
    x, y = STREAM.sessions[1].x.tensor(), STREAM.sessions[1].y
    for c in (2, 3):
        phi = learner.net.features(x[y == c]).detach().double().numpy()
        mean = np.mean([row / np.linalg.norm(row) for row in phi], axis=0)
        expected = length * mean / np.linalg.norm(mean)
        np.testing.assert_allclose(theta[c].numpy(), expected, rtol=1e-4, atol=1e-6)
    assert torch.equal(theta[[0, 1, 4]], before[[0, 1, 4]])


def test_imprinted_vectors_are_where_learning_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[tuple[list[int], list[int]]] = []
    monkeypatch.setattr(LUCIR, "_imprint", lambda _, __, new, seen: called.append((new, seen)))
    taught(class_stream([[0, 1], [1, 2], [3]]), 3)
    assert called == [([2], [0, 1]), ([3], [0, 1, 2])]


@pytest.mark.parametrize("settings", [{}, {"optimiser_state": "kept", "weight_decay": 0.01}])
def test_vectors_of_old_classes_stand_still(settings: dict[str, Any]) -> None:
    learner = taught(STREAM, 1, **settings)
    before = learner.net.theta.detach().clone()
    learn(learner, STREAM.sessions[1])
    after = learner.net.theta.detach()
    assert torch.equal(after[:2], before[:2])
    assert not torch.equal(after[2:4], before[2:4])


def test_the_loss_a_sample_at_a_time() -> None:
    """Cross-entropy of η cos over the classes seen, λ (1 - cos) of features, margins of the old."""
    learner = taught(STREAM, 2)
    objective = learner._objective([0, 1], [2, 3], 3.0)
    old = copy.deepcopy(learner.net)
    disturb(learner.net)
    x = torch.cat([s.x.tensor()[::5] for s in STREAM.sessions[:2]])
    y = torch.cat([torch.tensor(s.y)[::5] for s in STREAM.sessions[:2]])
    theta = plain(learner.net.theta)
    losses, margins = [], []
    for row, c in zip(x, y.tolist(), strict=True):
        phi, was = (plain(n.features(row[None])[0]) for n in (learner.net, old))
        cosines = [cosine(phi, t) for t in theta[:4]]
        logits = [learner.net.eta.item() * v for v in cosines]
        entropy = math.log(sum(math.exp(z) for z in logits)) - logits[c]
        losses.append(entropy + 3 * (1 - cosine(phi, was)))
        if c < 2:
            margins += [max(0.0, 0.5 - cosines[c] + v) for v in sorted(cosines[2:])[-2:]]
    assert sum(m > 0 for m in margins) > 0
    expected = np.mean(losses) + np.mean(margins)
    assert objective(x, y).item() == pytest.approx(expected, rel=1e-4)
    alone = y >= 2  # no exemplar in the batch: no margin
    expected = np.mean(np.array(losses)[alone.numpy()])
    assert objective(x[alone], y[alone]).item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("layers", [0, 2])
def test_features_are_linear_at_the_end_and_logits_are_scaled_cosines(layers: int) -> None:
    learner = taught(STREAM, 1, layers=layers)
    x = STREAM.eval_sets[0].x.tensor()
    phi = learner.net.features(x)
    assert (phi < 0).any()
    assert phi.shape[1] == (8 if layers else 6)
    assert (torch.equal(phi, x)) == (layers == 0)
    cosines = torch.cosine_similarity(phi[:, None], learner.net.theta[None], dim=2)
    torch.testing.assert_close(learner.scores(x), (learner.net.eta * cosines).detach())
