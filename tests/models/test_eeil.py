"""EEIL: the loss a sample at a time, the balanced set, and fine-tuning by the plain algorithm."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from toy import class_stream, context

from embedbench.config.run_seeds import Seeds, generator
from embedbench.learning.exemplars import Memory
from embedbench.learning.learner import learn_session
from embedbench.learning.stopping import Stop
from embedbench.models.eeil import BALANCED, EEIL
from embedbench.streams.stream import Stream

SMALL: dict[str, Any] = {
    "units": 8,
    "batch_size": 16,
    "lr": 0.05,
    "optimiser": "sgd",
    "stop": Stop(rule="epochs", epochs=3),
    "finetune_epochs": 2,
    "memory": Memory(per_class=5),
}
STREAM = class_stream([[0, 1], [2, 3], [4]])


def taught(stream: Stream, sessions: int, seed: int = 0, **settings: Any) -> tuple[EEIL, list[Any]]:
    learner = EEIL(**{**SMALL, **settings})
    learner.start(stream.spec, Seeds.of(seed), "cpu")
    return learner, [learn_session(learner, part, context()) for part in stream.sessions[:sessions]]


def log_softmax(z: Any) -> Any:
    return z - np.log(np.sum(np.exp(z)))


def loss_of(z: Any, before: Any, c: int, heads: list[list[int]], lam: float, seen: Any) -> float:
    """L_C + λ Σ_f L_f of one sample, T = 2."""
    total = -log_softmax(z[seen])[list(seen).index(c)]
    for head in heads:
        total -= lam * np.sum(np.exp(log_softmax(before[head] / 2)) * log_softmax(z[head] / 2))
    return float(total)


@pytest.mark.parametrize("lam", [1.0, 0.3])
def test_every_old_head_is_distilled_by_itself(lam: float) -> None:
    learner, _ = taught(STREAM, 2, lam=lam)
    assert learner.heads({0, 1, 2, 3}) == [[0, 1], [2, 3]]
    x, y = STREAM.sessions[2].x.tensor()[:6], torch.tensor(STREAM.sessions[2].y)[:6]
    objective = learner._objective(learner.heads({0, 1, 2, 3}), {0, 1, 2, 3, 4})
    old = learner.net(x).detach().double().numpy()
    with torch.no_grad():
        for p in learner.net.parameters():
            p.mul_(1.4)  # the net learns on; the old answers stay
    new = learner.net(x).detach().double().numpy()
    heads, seen = [[0, 1], [2, 3]], np.arange(5)
    each = [
        loss_of(z, w, c, heads, lam, seen) for z, w, c in zip(new, old, y.tolist(), strict=True)
    ]
    assert objective(x, y).item() == pytest.approx(np.mean(each), rel=1e-4)
    joint = [loss_of(z, w, 4, [[0, 1, 2, 3]], lam, seen) for z, w in zip(new, old, strict=True)]
    assert abs(np.mean(each) - np.mean(joint)) > 1e-3  # one softmax for all is another loss


def test_classes_not_seen_are_not_in_the_loss() -> None:
    learner, _ = taught(STREAM, 0)
    x, y = STREAM.sessions[0].x.tensor()[:6], torch.tensor(STREAM.sessions[0].y)[:6]
    expected = torch.nn.functional.cross_entropy(learner.net(x)[:, :2], y)
    torch.testing.assert_close(learner._objective([], {0, 1})(x, y), expected)


@pytest.mark.parametrize(
    ("memory", "counts"), [(Memory(per_class=7), [7, 7]), (Memory(total=20), [5, 4])]
)
def test_the_balanced_set_has_equally_many_of_every_class(
    memory: Memory, counts: list[int]
) -> None:
    learner, logs = taught(STREAM, 1, memory=memory)
    assert "balanced" not in logs[0]  # nothing old to balance with
    for part, each in zip(STREAM.sessions[1:], counts, strict=True):
        log = learn_session(learner, part, context())
        balanced = learner.balanced(part)
        n_seen = 4 if each == counts[0] and part is STREAM.sessions[1] else 5
        assert np.bincount(balanced.y).tolist() == [each] * n_seen
        assert log["balanced"] == each * n_seen == len(balanced.x)
        everything = torch.cat([s.x.tensor() for s in STREAM.sessions])
        labels = np.concatenate([s.y for s in STREAM.sessions])
        x = balanced.x.batch(torch.arange(len(balanced.y)), "cpu")
        where = torch.cdist(x, everything).argmin(1)
        assert torch.equal(everything[where], x)
        assert labels[where.numpy()].tolist() == balanced.y.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_fine_tuning_is_the_plain_algorithm(seed: int) -> None:
    """SGD on the balanced set at a tenth of the rate, from the weights before the fine-tuning."""
    stream = class_stream([[0, 1], [2, 3], [4]], seed=seed)
    learner, plain = taught(stream, 1, seed)[0], taught(stream, 1, seed, finetune_epochs=0)[0]
    for part in stream.sessions[1:2]:
        learn_session(learner, part, context())
        assert "finetune" not in learn_session(plain, part, context())
    net, teacher = plain.net, copy.deepcopy(plain.net)
    x, y = plain.exemplars.x, plain.exemplars.y
    step = torch.optim.SGD(net.parameters(), lr=0.005, momentum=0.9)
    draw = generator(Seeds.of(seed).batches, 1, BALANCED)
    for _ in range(2):
        for batch in torch.randperm(20, generator=draw).split(16):
            z, before = net(x[batch])[:, :4], teacher(x[batch]).detach()
            total = torch.nn.functional.cross_entropy(z, y[batch])
            for head in ([0, 1], [2, 3]):  # the new classes, too
                p = torch.softmax(before[:, head] / 2, 1)
                total = total - (p * torch.log_softmax(z[:, head] / 2, 1)).sum(1).mean()
            step.zero_grad()
            total.backward()
            step.step()
    for p, q in zip(learner.net.parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-6)


def test_a_class_that_comes_again_is_not_distilled_and_keeps_its_head() -> None:
    learner, _ = taught(class_stream([[0, 1], [1, 2], [0, 3]]), 3)
    assert learner.session_of.tolist() == [0, 0, 1, 2]
    assert learner.heads({1, 2}) == [[1], [2]]


def test_goes_on_from_a_checkpoint() -> None:
    first, other = taught(STREAM, 2)[0], taught(STREAM, 0)[0]
    other.load_state_dict(first.state_dict())
    for learner in (first, other):
        learn_session(learner, STREAM.sessions[2], context())
    x = STREAM.eval_sets[0].x.tensor()
    assert torch.equal(first.scores(x), other.scores(x))
    assert first.footprint()["samples"] == 25 * (6 * 4 + 8)
