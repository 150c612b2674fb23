"""IL2M: the statistics it keeps, and what they do to the scores."""

from typing import Any

import numpy as np
import pytest
import torch
from teaching import SGD, assert_same_weights, learn, start, teach
from torch import Tensor
from toy import class_stream, session

from embedbench.learning import Memory, Stop, StreamSpec
from embedbench.models.il2m import IL2M
from embedbench.models.mlp import MLP

SMALL: dict[str, Any] = {**SGD, "units": 8, "lr": 0.05}


def by_hand() -> IL2M:
    """Class k of session k, 2 is the current session, 3 is unseen; the logits are x."""
    learner = IL2M(layers=0, memory=Memory(select="all"))
    start(learner, StreamSpec((4,), 4))
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
    expected = [
        [0.675, 0.6, 0.6, 0.0],  # best is the current class: rectified, and class 0 wins
        [0.5, 0.1, 0.4, 0.0],  # best is an old class: nothing is done
        [0.5625, 2.1, 0.4, 0.0],
    ]
    torch.testing.assert_close(learner.scores(x), torch.tensor(expected))


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


def softmax_over(net: torch.nn.Module, x: Tensor, seen: list[int]) -> Tensor:
    out = torch.zeros(len(x), 5)
    out[:, seen] = torch.softmax(net(x).detach()[:, seen], 1)
    return out


def test_the_statistics_are_their_definitions() -> None:
    """After each session, recomputed from the network and the session's samples."""
    stream = class_stream([[0, 1], [2], [3, 4]], n_train=14, spread=1.0)
    learner = IL2M(memory=Memory(per_class=4), **{**SMALL, "stop": Stop("epochs", epochs=25)})
    start(learner, stream.spec)
    first: dict[int, float] = {}
    confidence: dict[int, float] = {}
    seen: list[int] = []
    for number, s in enumerate(stream.sessions):
        learn(learner, s)
        seen += [int(c) for c in s.classes]
        p = softmax_over(learner.net, s.x.tensor(), seen)
        for c in map(int, s.classes):
            first[c] = float(p[torch.from_numpy(s.y) == c, c].mean())
            confidence[c] = float(p.max(1).values.mean())
            assert int(learner.session_of[c]) == number
        held = softmax_over(learner.net, learner.exemplars.x, seen)
        now = {c: float(held[learner.exemplars.y == c, c].mean()) for c in seen}
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
    learner, _ = teach(IL2M(memory=Memory(per_class=0), **SMALL), stream)
    mlp, _ = teach(MLP(**SMALL), stream)
    assert_same_weights(learner, mlp, rtol=0, atol=0)
    x = torch.cat([e.x.tensor() for e in stream.eval_sets])
    assert torch.equal(learner.scores(x).argmax(1), mlp.scores(x).argmax(1))
