"""C-FSCIL: the losses by plain loops, prototypes that part, a projection that follows them."""

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from few_shot import GROUPS, few_shot_stream
from numpy.typing import NDArray
from teaching import assert_same_weights, cosine, learn, normal, plain, teach

from embedbench.learning import UNSEEN, Stop
from embedbench.models.c_fscil import CFSCIL, _descend, crowding
from embedbench.streams.stream import Stream

QUICK = Stop(rule="epochs", epochs=2)


def taught(stream: Stream, sessions: int, **settings: Any) -> Any:
    return teach(CFSCIL(**{"units": 32, "stop": QUICK, **settings}), stream, sessions)[0]


def test_crowding_by_a_naive_loop() -> None:
    assert CFSCIL().units == 512  # of the paper
    for n in (2, 5):
        keys, before = normal(n, 6, seed=0), normal(n, 6, seed=9)
        k, b = plain(keys), plain(before)
        pairs = [cosine(k[i], k[j]) for i in range(n) for j in range(i)]
        apart = np.mean([math.exp(4 * c) + math.exp(-4 * c) - 2 for c in pairs])
        moved = np.mean([1 - cosine(k[i], b[i]) for i in range(n)])
        assert float(crowding(keys, before)) == pytest.approx(apart + moved, rel=1e-5)
    # one prototype is not crowded, and orthogonal ones are not either
    assert float(crowding(*[normal(1, 6, seed=0)] * 2)) == pytest.approx(0, abs=1e-6)
    assert float(crowding(torch.eye(3), torch.eye(3))) == 0


def test_the_episode_by_a_naive_loop() -> None:
    stream = few_shot_stream([[1, 4, 2]])
    learner = taught(stream, 0)
    base = stream.sessions[0]
    learner.prototypes.add(base)
    x, y = base.x.tensor()[::7], base.y[::7]
    weight, bias = map(plain, learner.net.parameters())

    def projected(v: NDArray[Any]) -> NDArray[Any]:
        return np.tanh(weight @ v + bias)

    def sharp(c: float) -> float:
        return 1 / (1 + math.exp(-10 * (c - 0.5))) + 1 / (1 + math.exp(-10 * (-c - 0.5)))

    data = plain(base.x.tensor())
    keys = {c: projected(data[base.y == c].mean(0)) for c in (1, 2, 4)}
    losses = []
    for v, own in zip(plain(x), y, strict=True):
        raw = {c: sharp(cosine(projected(v), k)) for c, k in keys.items()}
        for c, value in raw.items():
            p = value / sum(raw.values())
            losses.append(-math.log(p if c == own else 1 - p))
    learned = list[bool]()
    learner.net.register_forward_hook(lambda *given: learned.append(given[2].requires_grad))
    found = learner._episode(x, torch.from_numpy(y))
    assert float(found.detach()) == pytest.approx(np.mean(losses), rel=1e-4)
    assert learned == [False, True]  # no gradient reaches the prototypes


def test_the_base_session_is_trained_on_its_episode() -> None:
    """The loss of one batch of all samples is that of the net as it began."""
    stream = few_shot_stream([[0, 1, 2, 3]])
    base, learner = stream.sessions[0], taught(stream, 0)
    learner.prototypes.add(base)
    expected = float(learner._episode(base.x.tensor(), torch.from_numpy(base.y)).detach())
    once = CFSCIL(units=32, batch_size=1000, stop=Stop("epochs", epochs=1))
    assert teach(once, stream)[1][0]["train_loss"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("decay", "end"), [(0.0, 0.5751), (0.5, 0.389725)])
def test_two_steps_with_nesterovs_momentum_by_hand(decay: float, end: float) -> None:
    """Gradient θ (1 + decay): each step is .1 (g + .9 v), v the sum of .9 v and g."""
    theta = torch.nn.Parameter(torch.ones(1))
    _descend([theta], lambda: theta.square().sum() / 2, 2, 0.1, decay)
    assert theta.item() == pytest.approx(end)


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_later_sessions_push_the_prototypes_apart_and_the_projection_follows(mode: int) -> None:
    stream = few_shot_stream(GROUPS)
    learner = taught(
        stream, 1, mode=mode, nudge_steps=7, nudge_lr=0.2, retrain_steps=5, retrain_lr=0.05
    )
    net = copy.deepcopy(learner.net)
    assert learn(learner, stream.sessions[1]) == {}
    memory = learner.prototypes.means()[:6]
    keys = net(memory).detach()
    moved = torch.nn.Parameter(keys.clone())
    _descend([moved], lambda: crowding(moved.tanh(), keys.tanh()), 7, 0.2, 0.0)
    aims = {1: keys, 2: keys.sign(), 3: moved.detach()}[mode].tanh()

    def away() -> torch.Tensor:
        return -torch.cosine_similarity(net(memory).tanh(), aims).mean()

    if mode > 1:
        _descend(net.parameters(), away, 5, 0.05, 5e-4)
    assert_same_weights(learner, net, rtol=0, atol=0)


def test_the_answer_is_the_cosine_to_the_projected_mean() -> None:
    stream = few_shot_stream(GROUPS)
    learner = taught(stream, 2)
    x = stream.eval_sets[1].x.tensor()
    found = learner.scores(x)
    assert (found[:, 6] == UNSEEN).all()
    data = {c: s.x.numpy()[s.y == c] for s in stream.sessions[:2] for c in s.classes.tolist()}
    out = np.tanh(plain(learner.net(x)))
    for c, own in data.items():
        key = np.tanh(plain(learner.net(torch.from_numpy(own.mean(0)))))
        for i, row in enumerate(out):
            assert float(found[i, c]) == pytest.approx(cosine(row, key), abs=1e-5)
