"""exstream: its four buffers against the algorithms written plainly, its passes, its memory."""

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import teaching
import torch
from numpy.typing import NDArray
from teaching import STORAGE_CHECKS, assert_same_weights, descend, start
from torch import Tensor
from torch.nn.functional import cross_entropy
from toy import class_stream

from embedbench.config.make_from_settings import make
from embedbench.errors import UserError
from embedbench.learning import Seeds, StreamSpec
from embedbench.learning.exemplars import Capacity
from embedbench.learning.network import mlp_net
from embedbench.models.exstream import KINDS, Clusters, ExStream
from embedbench.runs.stream_runner import run_stream

SEEDS = Seeds.of(0)
Array = NDArray[Any]
Buffers = dict[int, list[list[Any]]]  # class → [prototype, count] in the order of their places


def samples(seed: int, n: int = 80) -> tuple[Tensor, Tensor]:
    return teaching.samples(seed, n, range(3), width=5)


def filled(kind: str, x: Tensor, y: Tensor, size: int, cuts: int = 1000, seed: int = 0) -> Clusters:
    made = Clusters(kind, int(y.max()) + 1, size, x.shape[1], [seed])
    for xs, ys in zip(x.split(cuts), y.split(cuts), strict=True):
        made.add(xs, ys)
    return made


def nearest_pair(buffer: list[list[Any]]) -> tuple[int, int]:
    pairs = [(i, j) for i in range(len(buffer)) for j in range(i + 1, len(buffer))]
    return min(pairs, key=lambda p: float(((buffer[p[0]][0] - buffer[p[1]][0]) ** 2).sum()))


def exstream_plainly(x: Array, buffer: list[list[Any]]) -> None:
    """As `_stream_clustering_class_buffers` of the authors: the merged one lies at the later place,
    the new sample at the earlier."""
    i, j = nearest_pair(buffer)
    (p, a), (q, b) = buffer[i], buffer[j]
    buffer[i], buffer[j] = [x, 1], [(p * a + q * b) / (a + b), a + b]


def kmeans_plainly(x: Array, buffer: list[list[Any]]) -> None:
    near = min(buffer, key=lambda pair: float(((pair[0] - x) ** 2).sum()))
    near[0], near[1] = (near[0] * near[1] + x) / (near[1] + 1), near[1] + 1


def plainly(kind: str, x: Tensor, y: Tensor, size: int) -> Buffers:
    add = {"exstream": exstream_plainly, "kmeans": kmeans_plainly}[kind]
    buffers: Buffers = {}
    for sample, c in zip(x.double().numpy(), y.tolist(), strict=True):
        buffer = buffers.setdefault(c, [])
        if len(buffer) < size:
            buffer.append([sample, 1])
        else:
            add(sample, buffer)
    return buffers


@pytest.mark.parametrize("size", [2, 4, 7])
@pytest.mark.parametrize("kind", ["exstream", "kmeans"])
def test_clusters_are_those_of_the_algorithm_one_sample_at_a_time(kind: str, size: int) -> None:
    for seed in range(3):
        x, y = samples(seed)
        ours = filled(kind, x, y, size, cuts=7)
        assert ours.seen.tolist() == torch.bincount(y).tolist()
        for c, buffer in plainly(kind, x, y, size).items():
            held = int(ours.held[c])
            prototypes, counts = zip(*buffer, strict=True)
            assert ours.counts[c, :held].tolist() == list(counts)
            expected = torch.from_numpy(np.stack(prototypes)).float()
            torch.testing.assert_close(ours.x[c, :held], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["exstream", "kmeans"])
def test_of_equally_near_ones_the_first_are_taken(kind: str) -> None:
    for places in itertools.product(range(3), repeat=5):
        x, y = torch.tensor(places).float()[:, None], torch.zeros(5, dtype=torch.int64)
        made = filled(kind, x, y, 3)
        prototypes, counts = zip(*plainly(kind, x, y, 3)[0], strict=True)
        assert made.counts[0].tolist() == list(counts), places
        np.testing.assert_allclose(made.x[0], np.stack(prototypes), rtol=1e-6)


def test_a_reservoir_keeps_each_sample_of_a_class_with_equal_chance() -> None:
    """3 of 12, for 3,000 classes; four standard deviations of a share are .032."""
    classes, n, size = 3000, 12, 3
    y = torch.arange(classes).repeat(n)
    x = torch.arange(n).repeat_interleave(classes).float()[:, None]
    kept = filled("reservoir", x, y, size, cuts=4999).x.flatten().long()
    assert (torch.bincount(kept, minlength=n) / classes - size / n).abs().max() < 0.032
    assert len(torch.unique(kept.view(classes, size).sort(1).values, dim=0)) > 200  # of 220


def test_a_queue_keeps_the_newest() -> None:
    x = torch.arange(20).float()[:, None]
    made = filled("queue", x, torch.tensor([0, 0, 1, 0, 1] * 4), 3, cuts=7)
    assert sorted(made.x[0].flatten().tolist()) == [15, 16, 18]
    assert sorted(made.x[1].flatten().tolist()) == [14, 17, 19]


@pytest.mark.parametrize("kind", ["exstream", "kmeans"])
def test_one_prototype_is_the_mean_of_its_class(kind: str) -> None:
    x, y = samples(2)
    means = torch.stack([x[y == c].mean(0) for c in range(3)])
    torch.testing.assert_close(filled(kind, x, y, 1).x[:, 0], means, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_places_hold_what_was_put_there(kind: str) -> None:
    x, y = samples(3, n=9)
    made = Clusters(kind, 3, 2, 5, [0])
    for xs, ys in zip(x.split(1), y.split(1), strict=True):
        (place,) = made.add(xs, ys).tolist()
        if place < 0:
            assert kind == "reservoir"
            continue
        assert place // 2 == int(ys)
        if kind != "kmeans" or made.counts.flatten()[place] == 1:
            assert torch.equal(made.rows[place], xs[0])


def trained(settings: dict[str, Any], x: Tensor, y: Tensor, cuts: int = 1) -> ExStream:
    learner: ExStream = make(ExStream, {"units": 8, "layers": 1, **settings}, name="exstream")
    start(learner, StreamSpec((x.shape[1],), 3))
    for xs, ys in zip(x.split(cuts), y.split(cuts), strict=True):
        learner.observe(xs, ys)
    return learner


@pytest.mark.parametrize("cuts", [1, 4])
def test_each_batch_is_followed_by_one_pass_over_all_prototypes(cuts: int) -> None:
    """The authors' `_consolidate_one_epoch`, with our network and our shuffles."""
    x, y = samples(4, n=24)
    settings: dict[str, Any] = {"memory.per_class": 3, "batch_size": 4, "replays": None}
    learner = trained(settings, x, y, cuts)
    net = mlp_net(5, 8, 1, 3, SEEDS.init)
    optimiser = torch.optim.Adam(net.parameters(), lr=2e-3)
    for step, end in enumerate(range(cuts, 25, cuts)):
        held = filled("exstream", torch.cat([x[:end], x[:0]]), y[:end], 3)
        rows = [(c, k) for c in range(len(held.held)) for k in range(int(held.held[c]))]
        order = np.random.default_rng([SEEDS.batches, step]).permutation(len(rows))
        n, size = len(rows), min(4, len(rows))
        for first in [min(s, n - size) for s in range(0, n, size)]:
            batch = [rows[i] for i in order[first : first + size]]
            inputs = torch.stack([held.x[place] for place in batch])
            descend(optimiser, cross_entropy(net(inputs), torch.tensor([c for c, _ in batch])))
    assert_same_weights(learner, net, rtol=1e-3, atol=1e-5)


def test_while_no_buffer_is_full_all_four_are_full_rehearsal() -> None:
    x, y = samples(5, n=20)
    all_, *others = (trained({"buffer": k, "memory.per_class": 20}, x, y) for k in KINDS)
    for other in others:
        assert_same_weights(all_, other, rtol=0, atol=0)
    full = (trained({"buffer": k, "memory.per_class": 2}, x, y).net.head.bias for k in KINDS)
    assert len({tuple(bias.tolist()) for bias in full}) == 4


def test_replays_bounds_a_pass_and_keeps_what_changed() -> None:
    x, y = samples(6)
    learner = trained({"memory.per_class": 8, "replays": 4}, x, y)
    full = learner.clusters.full_rows()
    assert len(full) == 24
    drawn = set()
    for seed in range(60):
        rows = learner._replayed(torch.tensor([3, -1, 17]), np.random.default_rng(seed))
        assert len(set(rows.tolist())) == 12
        assert {3, 17} <= set(rows.tolist())
        drawn |= set(rows.tolist())
    assert drawn == set(full.tolist())
    whole = learner._replayed(torch.zeros(6, dtype=torch.int64), np.random.default_rng(0))
    assert sorted(whole.tolist()) == full.tolist()


def test_a_memory_without_a_place_for_each_class_is_refused() -> None:
    with pytest.raises(UserError, match=r"4 classes, got 3"):
        start(ExStream(memory=Capacity(total=3)), StreamSpec((5,), 4))
    learner = start(ExStream(memory=Capacity(total=7)), StreamSpec((5,), 4))
    assert learner.clusters.size == 1


@pytest.mark.parametrize("kind", KINDS[1:])
def test_every_buffer_keeps_the_contract(kind: str) -> None:
    """Those checks in which a buffer matters; `check exstream` runs all for the default."""

    @dataclass
    class Variant(ExStream):
        buffer: str = kind

    for check in STORAGE_CHECKS:
        check(Variant)


def test_its_log_counts_the_steps_of_the_optimiser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two batches of 10 of each session; a pass over what is held is cut into steps of 5."""
    taken: list[int] = []
    step = torch.optim.Adam.step
    monkeypatch.setattr(torch.optim.Adam, "step", lambda *a, **k: (taken.append(1), step(*a, **k)))
    stream = replace(class_stream([[0], [1]], n_train=20), observe_batch=10)
    _, logs = run_stream(stream, ExStream(batch_size=5, units=4), SEEDS)
    assert [log.log["batches"] for log in logs] == [2, 2]
    assert sum(log.log["steps"] for log in logs) == len(taken) > 8
