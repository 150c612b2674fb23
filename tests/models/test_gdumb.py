"""gdumb against the plain algorithm, an epoch at a time."""

import math
from typing import Any

import pytest
import torch
from teaching import assert_same_weights, batches_of, descend, online_stream, start, weights
from torch.nn.functional import cross_entropy

from embedbench.learning import Memory, Seeds, Stop
from embedbench.learning.network import mlp_net
from embedbench.models import gdumb
from embedbench.models.gdumb import GDumb
from embedbench.streams.stream import Stream

SEEDS = Seeds.of(0)


def taught(learner: Any, stream: Stream, size: int) -> Any:
    start(learner, stream.spec)
    for x, y in batches_of(stream, size):
        learner.observe(x, y)
    return learner


def moved(a: Any, b: Any) -> float:
    return max(float((p - q).abs().max()) for p, q in zip(weights(a), weights(b), strict=True))


def test_gdumb_learns_from_the_memory_alone_and_from_scratch() -> None:
    """The network depends on what is stored, not on when or how often it was asked."""
    stop, memory = Stop(rule="epochs", epochs=4), Memory(total=20, select="balanced")
    settings: dict[str, Any] = {"units": 8, "batch_size": 6, "stop": stop, "memory": memory}
    stream = online_stream(n_train=25)
    once = taught(GDumb(**settings), stream, 6)
    once.prepare()
    often = start(GDumb(**settings), stream.spec)
    for x, y in batches_of(stream, 6):
        often.observe(x, y)
        often.prepare()
    assert moved(often, once) == 0.0
    x, y, none = once.exemplars.x, once.exemplars.y, once._session()
    assert len(none.val_x) == len(none.val_y) == 0
    net = mlp_net(6, 8, 2, 4, SEEDS.init)
    sgd = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-6)
    draw = gdumb.generator(SEEDS.batches, 100)
    for rate in (0.005, 0.05, 0.05, 0.02525):
        for index in torch.split(torch.randperm(20, generator=draw), 6):
            sgd.param_groups[0]["lr"] = rate
            descend(sgd, cross_entropy(net(x[index]), y[index]))
    assert_same_weights(once, net)


def test_gdumbs_learning_rate_by_hand() -> None:
    learner = GDumb(lr=0.05, lr_min=0.01)
    low = 0.02 * math.cos(math.pi / 4)
    expected = [0.005, 0.05, 0.05, 0.03, 0.05, 0.03 + low, 0.03, 0.03 - low, 0.05]
    assert [learner.rate(k) for k in range(9)] == pytest.approx(expected)


def test_gdumb_clips_its_gradients() -> None:
    nets = []
    for clip in (1e-6, 10.0):
        stop = Stop(rule="epochs", epochs=5)
        nets.append(
            taught(GDumb(units=8, clip=clip, weight_decay=0.0, stop=stop), online_stream(), 6)
        )
        nets[-1].prepare()
    fresh = start(GDumb(units=8), online_stream().spec)
    assert moved(nets[0], fresh) < 1e-3 < 0.01 < moved(nets[1], fresh)


def test_gdumb_is_presented_what_came_since_it_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    class Noted(gdumb.Training):
        def run(self, *given: Any) -> dict[str, Any]:
            limits.append(self.presented)
            return {}

    monkeypatch.setattr(gdumb, "Training", Noted)
    learner = start(GDumb(units=8, passes=1.5), online_stream().spec)
    for n in (0, 30, 0, 10):
        learner.observe(torch.zeros(n, 6), torch.zeros(n, dtype=torch.int64))
        learner.prepare()
    assert limits == [45, 15]
