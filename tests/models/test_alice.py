"""ALICE: the angular penalty by a plain loop, mixtures and their classes, balanced means."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from few_shot import GROUPS, few_shot_stream
from teaching import cosine, learn, plain, start
from toy import blobs, session

from embedbench.learning import UNSEEN, Seeds, Stop, StreamSpec, generator
from embedbench.models.alice import ALICE

QUICK = Stop(rule="epochs", epochs=2)


def started(width: int, n_classes: int, **settings: Any) -> Any:
    return start(ALICE(**{"units": 16, "stop": QUICK, **settings}), StreamSpec((width,), n_classes))


@pytest.mark.parametrize("training", [True, False])
def test_the_angular_penalty_by_a_naive_loop(training: bool) -> None:
    """Without mixtures; and on validation data, which is not mixed, over their classes too."""
    learner = started(6, 7, scale=5.0, margin=0.3, mixes=0 if training else 4)
    base = torch.tensor([1, 2, 5])
    whole = learner._whole(0 if training else 3).train(training)
    y = torch.tensor([5, 1, 1, 2])
    x = torch.from_numpy(blobs(y, 6, 0))
    found = learner._objective(whole, base, np.random.default_rng(0))(x, y)
    phi, theta = map(plain, (whole.features(x), whole.theta))
    losses = []
    for row, own in zip(phi, y.tolist(), strict=True):
        known = [1, 2, 5] if training else [1, 2, 5, 7, 8, 9]
        logits = {c: 5 * (cosine(row, theta[c]) - 0.3 * (c == own)) for c in known}
        losses.append(math.log(sum(map(math.exp, logits.values()))) - logits[own])
    assert float(found.detach()) == pytest.approx(np.mean(losses), rel=1e-4)


@pytest.mark.parametrize("given", [{}, {"margin": 0.0}, {"scale": 1.0}, {"mixes": 0}])
def test_the_margin_the_scale_and_the_mixtures_are_trained_with(given: dict[str, float]) -> None:
    """The loss of one batch of all samples is that of the net as it began."""
    base, seed = few_shot_stream([[0, 1, 2, 3]]).sessions[0], Seeds.of(0).batches
    learner = started(8, 4, batch_size=1000, stop=Stop("epochs", epochs=1), **given)
    whole = learner._whole(6 if learner.mixes else 0)  # a class for each pair
    objective = learner._objective(whole, torch.arange(4), np.random.default_rng([seed, 1]))
    order = torch.randperm(len(base.y), generator=generator(seed, 0))
    expected = objective(base.x.tensor()[order], torch.from_numpy(base.y)[order]).item()
    assert learn(learner, base)["train_loss"] == pytest.approx(expected, rel=1e-4)


def test_mixtures_lie_between_two_classes_and_each_pair_has_a_class() -> None:
    """Sample i is the i-th unit vector, so that a mixture says what it was made from."""
    classes = [0, 3, 4, 8, 9]
    y = torch.tensor(classes * 30)
    learner = started(len(y), 10)
    x, draws = torch.eye(len(y)), np.random.default_rng(0)
    mixed, labels = learner._mixed(x, y, torch.tensor(classes), draws)
    assert torch.equal(mixed[: len(y)], x)
    assert torch.equal(labels[: len(y)], y)
    of_pair: dict[tuple[int, ...], set[int]] = {}
    own = np.random.default_rng(0)
    other, shares = own.permutation(len(y)), torch.from_numpy(own.beta(20, 20, len(y))).float()
    shares[(shares < 0.4) | (shares > 0.6)] = 0.5
    first = (shares[:, None] * x + (1 - shares[:, None]) * x[other])[y != y[other]]
    torch.testing.assert_close(mixed[len(y) : len(y) + len(first)], first)
    for row, label in zip(mixed[len(y) :], labels[len(y) :], strict=True):
        parts = row.nonzero().flatten()
        assert len(parts) == 2
        assert float(row.sum()) == pytest.approx(1)
        pair = tuple(sorted(y[parts].tolist()))
        of_pair.setdefault(pair, set()).add(int(label))
    assert sorted(of_pair) == list(itertools.combinations(classes, 2))
    found = [label for own in of_pair.values() for label in own]
    assert sorted(found) == list(range(10, 20))  # each pair one, and none twice
    assert len(mixed) == pytest.approx(len(y) * (1 + 4 * 120 / 149), rel=0.05)


def test_a_base_session_of_one_class_has_no_mixtures() -> None:
    learner = started(4, 2)
    learn(learner, session(blobs([1] * 6, 4, 0), [1] * 6))
    assert learner.scores(torch.zeros(1, 4) + 1).argmax(1).tolist() == [1]


@pytest.mark.parametrize("shots", [1, 3, 50])
def test_a_class_is_the_mean_of_the_samples_nearest_its_mean(shots: int) -> None:
    stream = few_shot_stream(GROUPS, spread=1.5)
    learner = started(8, 7, shots=shots)
    expected = {}
    for part in stream.sessions[:2]:
        assert bool(learn(learner, part)) == (part is stream.sessions[0])  # it alone trains
        phi = plain(learner.net(part.x.tensor()))
        for c in part.classes.tolist():
            own = phi[part.y == c]
            mean = own.mean(0)
            ranked = sorted(own, key=lambda row: -cosine(row, mean))
            expected[c] = np.mean(ranked[:shots], axis=0)
    assert learner.prototypes.counts.tolist() == [min(shots, 20)] * 4 + [min(shots, 5)] * 2 + [0]
    x = stream.eval_sets[0].x.tensor()
    found = learner.scores(x)
    out = plain(learner.net(x))
    for c, mean in expected.items():
        for i in range(0, len(x), 7):
            assert float(found[i, c]) == pytest.approx(cosine(out[i], mean), abs=1e-4)
    assert (found[:, 6] == UNSEEN).all()


def test_the_scale_is_a_setting_and_is_not_trained() -> None:
    assert not started(6, 7, scale=5.0)._whole(mixtures=3).eta.requires_grad
