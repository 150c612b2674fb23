"""IL2M: the statistics it keeps, and what they do to the scores."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from toy import class_stream, context, session

from embedbench.config.run_seeds import Seeds
from embedbench.learning.exemplars import Memory
from embedbench.learning.learner import learn_session
from embedbench.learning.stopping import Stop
from embedbench.models.il2m import IL2M, class_means
from embedbench.models.mlp import MLP
from embedbench.streams.stream import StreamSpec

SEEDS = Seeds.of(0)
SMALL: dict[str, Any] = {
    "units": 8,
    "batch_size": 8,
    "lr": 0.05,
    "optimiser": "sgd",
    "stop": Stop(rule="epochs", epochs=5),
}


def by_hand() -> IL2M:
    """Class 0 of session 0, class 1 of session 1, class 2 of session 2 (the current), 3 unseen.

    The network passes its input through: logits are x.
    """
    learner = IL2M(layers=0, memory=Memory(select="all"))
    learner.start(StreamSpec((4,), 4), SEEDS, "cpu")
    with torch.no_grad():
        learner.net[-1].weight.copy_(torch.eye(4))
        learner.net[-1].bias.zero_()
    learner.exemplars.choose(session(np.eye(4, dtype=np.float32)[:3], [0, 1, 2]), lambda x: x)
    learner.learned = 3
    learner.session_of = torch.tensor([0, 1, 2, -1])
    learner.first = torch.tensor([0.9, 0.8, 0.7, 1.0])
    learner.now = torch.tensor([0.3, 0.2, 0.6, 1.0])
    learner.confidence = torch.tensor([0.8, 0.4, 0.6, 1.0])
    return learner


def test_rectification_by_hand() -> None:
    """Old class 0: × .9/.3 · .6/.8 = 2.25; old class 1: × .8/.2 · .6/.4 = 6."""
    learner = by_hand()
    p = torch.tensor([[0.3, 0.1, 0.6], [0.5, 0.1, 0.4], [0.25, 0.35, 0.4]])
    x = torch.cat([p.log(), torch.full((3, 1), 5.0)], 1)  # the unseen class has the largest logit
    expected = torch.tensor(
        [
            [0.675, 0.6, 0.6, 0.0],  # best is the current class: rectified, and class 0 wins
            [0.5, 0.1, 0.4, 0.0],  # best is an old class: nothing is done
            [0.5625, 2.1, 0.4, 0.0],
        ]
    )
    torch.testing.assert_close(learner.scores(x), expected)


def test_logits_are_rectified_where_asked() -> None:
    learner = by_hand()
    learner.rectified = "logits"
    x = torch.tensor([[1.0, 0.5, 2.0, 9.0], [3.0, 0.5, 2.0, 9.0]])
    expected = torch.tensor([[2.25, 3.0, 2.0, 9.0], [3.0, 0.5, 2.0, 9.0]])
    torch.testing.assert_close(learner.scores(x), expected)


def test_a_class_without_exemplars_or_score_keeps_its_score() -> None:
    learner = by_hand()
    learner.now[0] = 0.0
    x = torch.tensor([[0.3, 0.1, 0.6, 1.0]]).log()
    torch.testing.assert_close(learner.scores(x), torch.tensor([[0.3, 0.6, 0.6, 0.0]]))
    learner = by_hand()
    learner.exemplars._lists[1] = 0
    torch.testing.assert_close(learner.scores(x), torch.tensor([[0.675, 0.1, 0.6, 0.0]]))


def test_class_means_by_hand() -> None:
    scores = torch.tensor([[0.2, 0.8], [0.6, 0.4], [0.5, 0.5]])
    y = torch.tensor([0, 0, 0])
    assert class_means(scores, y, torch.tensor([7.0, 9.0])).tolist() == pytest.approx([1.3 / 3, 9])


def softmax_over(net: torch.nn.Module, x: Tensor, seen: list[int]) -> Tensor:
    out = torch.zeros(len(x), 5)
    out[:, seen] = torch.softmax(net(x).detach()[:, seen], 1)
    return out


def test_the_statistics_are_their_definitions() -> None:
    """After each session, recomputed from the network and the session's samples."""
    stream = class_stream([[0, 1], [2], [3, 4]], n_train=14, spread=1.0)
    learner = IL2M(memory=Memory(per_class=4), **{**SMALL, "stop": Stop("epochs", epochs=25)})
    learner.start(stream.spec, SEEDS, "cpu")
    first: dict[int, float] = {}
    confidence: dict[int, float] = {}
    seen: list[int] = []
    for number, s in enumerate(stream.sessions):
        learn_session(learner, s, context())
        seen += [int(c) for c in s.classes]
        p = softmax_over(learner.net, s.x.tensor(), seen)
        for c in map(int, s.classes):
            first[c] = float(p[torch.from_numpy(s.y) == c, c].mean())
            confidence[c] = float(p.max(1).values.mean())
            assert int(learner.session_of[c]) == number
        now = {
            c: float(
                softmax_over(learner.net, learner.exemplars.x[learner.exemplars.y == c], seen)[
                    :, c
                ].mean()
            )
            for c in seen
        }
        for name, expected in (("first", first), ("now", now), ("confidence", confidence)):
            found = getattr(learner, name)[seen].tolist()
            assert found == pytest.approx([expected[c] for c in seen], rel=1e-4), name
    x = torch.cat([e.x.tensor() for e in stream.eval_sets])
    plain = softmax_over(learner.net, x, seen)
    touched = 0
    for row, found in zip(plain, learner.scores(x), strict=True):
        expected = row.clone()
        if int(row.argmax()) in (3, 4):
            touched += 1
            for c in (0, 1, 2):
                expected[c] *= first[c] / now[c] * confidence[3] / confidence[c]
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-6)
    assert 0 < touched < len(x)


def test_without_exemplars_it_is_the_mlp() -> None:
    stream = class_stream([[0, 1], [2], [3]], n_train=12)
    learners = [IL2M(memory=Memory(per_class=0), **SMALL), MLP(**SMALL)]
    for learner in learners:
        learner.start(stream.spec, SEEDS, "cpu")
        for s in stream.sessions:
            learn_session(learner, s, context())
    a, b = (list(learner.net.parameters()) for learner in learners)
    assert all(torch.equal(p, q) for p, q in zip(a, b, strict=True))
    x = torch.cat([e.x.tensor() for e in stream.eval_sets])
    one, two = (learner.scores(x).argmax(1) for learner in learners)
    assert torch.equal(one, two)


def test_old_classes_win_back_samples() -> None:
    """With few exemplars the newest classes take too much; rectified, the old ones have it back."""
    stream = class_stream([[0, 1, 2], [3, 4, 5]], n_train=60, n_test=40, width=8, spread=1.0)
    learner = IL2M(memory=Memory(per_class=3), units=32)
    learner.start(stream.spec, SEEDS, "cpu")
    for s in stream.sessions:
        learn_session(learner, s, context())
    test = stream.eval_sets[0]
    x, y = test.x.tensor(), torch.from_numpy(test.y)
    plain = learner.net(x).argmax(1)
    rectified = learner.scores(x).argmax(1)
    assert (plain != rectified).any()
    assert (rectified < 3).sum() > (plain < 3).sum()
    assert float((rectified == y).float().mean()) > float((plain == y).float().mean())
