"""prototype: answers by class means, and by trained weights, by hand."""

from typing import Any

import numpy as np
import pytest
import torch
from teaching import cosine, learn, start
from toy import blobs, session

from embedbench.learning import UNSEEN, StreamSpec
from embedbench.learning.base_session_prototypes import Classifier
from embedbench.learning.learner import Learner
from embedbench.models.prototype import Prototype


def started(learner: Learner, width: int, n_classes: int) -> Any:
    return start(learner, StreamSpec((width,), n_classes))


def test_prototype_answers_by_cosine_to_class_means() -> None:
    seed, first, second = 0, np.repeat([0, 2], [7, 4]), np.repeat([1], 3)
    x, shots = blobs(first, 5, seed, 1.0), blobs(second, 5, seed + 1, 1.0)
    test = blobs([0, 1, 2, 1], 5, seed + 2, 1.0)
    learner = started(Prototype(), 5, 4)
    learn(learner, session(x, first))
    assert (learner.scores(torch.tensor(test))[:, [1, 3]] == UNSEEN).all()
    learn(learner, session(shots, second))
    found = learner.scores(torch.tensor(test)).numpy()
    for c, mean in enumerate((x[:7].mean(0), shots.mean(0), x[7:].mean(0))):
        assert found[:, c] == pytest.approx([cosine(row, mean) for row in test], abs=1e-5)
    assert (found[:, 3] == UNSEEN).all()
    learn(learner, session(test[3:], [3]))
    assert np.array_equal(learner.prototypes.means()[3], test[3])  # one sample is its class's mean


def test_a_trained_classifier_separates_what_means_do_not() -> None:
    """One feature of large, useless variance: means are blurred, trained weights ignore it."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 60)
    useless = 8 * rng.normal(size=120) + 2 * (y == 0)  # by chance, 2/8 of a deviation apart
    x = np.stack([np.where(y == 0, 1.0, -1.0), useless, np.ones(120)], axis=1).astype(np.float32)
    right = {}
    for base in ("means", "trained"):
        learner = started(Prototype(Classifier(base, epochs=60, batch_size=20, lr=0.02)), 3, 3)
        learn(learner, session(x, y))
        right[base] = float((learner.scores(torch.tensor(x)).argmax(1).numpy() == y).mean())
        torch.testing.assert_close(learner.prototypes.rows[:2].norm(dim=1), torch.ones(2))
        before = learner.prototypes.rows.clone()
        learn(learner, session(np.eye(3, dtype=np.float32), [2, 2, 0]))
        if base == "trained":
            assert torch.equal(learner.prototypes.rows[:2], before[:2])  # weights stay
        expected = torch.tensor([1.0, 1.0, 0.0]) / 2**0.5  # the novel class gets its mean
        torch.testing.assert_close(learner.prototypes.rows[2], expected)
    assert right["trained"] > 0.98 > right["means"] + 0.05
