"""GeppNet and GeppNet+STM: whole runs against the algorithms written plainly; storage; sizes."""

from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from plain_som import PlainSom, assert_close
from teaching import learn, start, teach
from toy import Array, class_stream

from embedbench.learning import Seeds, Store
from embedbench.models._som import Rehearsal, Som
from embedbench.models.geppnet import GeppNet
from embedbench.models.geppnet_stm import GeppNetSTM
from embedbench.streams.feature_tables import Table
from embedbench.streams.stream import Stream, StreamSpec
from embedbench.streams.view import View, rows_of

SOM = Som(side=4, iterations=400, som_iterations=150, hold=50, lr=0.02, theta=0.3)
BRIEF: dict[str, Any] = {"som": SOM, "rehearsal": Rehearsal(iterations=120)}
GROUPS = [[0, 1], [2], [3]]


def stream_of(seed: int, permuted: bool) -> Stream:
    """Overlapping classes; where `permuted`, the later sessions show other columns."""
    stream = class_stream(GROUPS, n_train=20, width=6, seed=seed, spread=1.0)
    if not permuted:
        return stream
    rng = np.random.default_rng(seed)
    later = [replace(s, x=replace(s.x, columns=rng.permutation(6))) for s in stream.sessions[1:]]
    return replace(stream, sessions=(stream.sessions[0], *later))


def samples_until(stream: Stream, number: int) -> tuple[Array, Array]:
    """All samples of the sessions up to a number, copied out."""
    parts = stream.sessions[: number + 1]
    return np.concatenate([s.x.numpy() for s in parts]), np.concatenate([s.y for s in parts])


@pytest.mark.parametrize("permuted", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_geppnet_is_the_plain_algorithm(seed: int, permuted: bool) -> None:
    stream, seeds = stream_of(seed, permuted), Seeds.of(seed)
    learner, plain = start(GeppNet(**BRIEF), stream.spec, seed), PlainSom(SOM, 6, 4)
    for number, s in enumerate(stream.sessions):
        log = learn(learner, s)
        x, y = samples_until(stream, number)
        rng = np.random.default_rng([seeds.batches, number])
        if number == 0:
            novel = plain.learn_base(x, y, seeds.init, rng)
        else:
            drawn = learner.rehearsal.draw(y.astype(np.int32), len(s.y), rng)
            novel = plain.learn(x, y, drawn)
        assert log == {"iterations": 120 if number else 400, "novelty": np.mean(novel)}
        assert 0 < log["novelty"] < 1
        assert_close(learner.net, plain)


@pytest.mark.parametrize(
    ("memory", "period", "iterations"), [(10, 30, 120), (300, 50, 120), (7, 120, 120), (5, 999, 70)]
)
def test_geppnet_stm_is_the_plain_algorithm(memory: int, period: int, iterations: int) -> None:
    stream, seeds = stream_of(0, False), Seeds.of(0)
    made: Any = {"memory": memory, "period": period, "sleep": 40}
    made["answer_from_memory"] = True  # so that the memory can be looked at after the session
    learner = GeppNetSTM(som=SOM, rehearsal=Rehearsal(iterations=iterations), **made)
    plain = PlainSom(SOM, 6, 4)
    start(learner, stream.spec)
    for number, s in enumerate(stream.sessions):
        log = learn(learner, s)
        x, y = samples_until(stream, number)
        rng = np.random.default_rng([seeds.batches, number])
        if number == 0:
            plain.learn_base(x, y, seeds.init, rng)
            continue
        queue: deque[int] = deque(maxlen=memory)
        novel, sleeps = 0, []
        drawn = learner.rehearsal.draw(y.astype(np.int32), len(s.y), rng)
        for t, i in enumerate(drawn, start=1):
            output, _ = plain.respond(x[i])
            if plain.is_novel(output, y[i], wrong_too=True):
                novel += 1
                queue.append(i)
            if t % period == 0 and queue:
                again = [queue[k] for k in rng.integers(len(queue), size=40)]
                sleeps.append(np.mean(plain.learn(x, y, np.array(again))))
        share = novel / iterations
        assert log == {"iterations": iterations, "novelty": share, "sleep_novelty": sleeps}
        assert_close(learner.net, plain)
        assert learner.held == len(queue) > 0
        np.testing.assert_array_equal(learner.stm_x[: learner.held], x[list(queue)])
        np.testing.assert_array_equal(learner.stm_y[: learner.held], y[list(queue)])
        assert len(sleeps) == iterations // period


def test_the_memory_is_emptied_when_the_session_ends() -> None:
    learner, logs = teach(GeppNetSTM(**BRIEF, period=40, sleep=40), stream_of(0, False))
    assert logs[-1]["novelty"] > 0  # it was in use
    assert learner.held == 0
    assert not learner.stm_x.any()


def test_answers_from_memory() -> None:
    """Within the distance at which a remembered sample lies from its own unit, its label wins."""
    learner = GeppNetSTM(som=Som(side=1), memory=3, answer_from_memory=True)
    start(learner, StreamSpec((2,), 4))
    learner.net.W[:] = torch.tensor([[0.0, 0.0]])
    learner.net.error = 1.0
    learner.net.b[:] = torch.tensor([0.1, 0.4, 0.2, 0.3])
    x = torch.tensor([[2.9, 0.0], [6.1, 0.0], [0.5, 0.0], [-3.0, 0.0], [0.0, 10.5], [6.0, 0.0]])
    assert learner.scores(x).argmax(1).tolist() == [1] * 6
    learner.stm_x[:2] = torch.tensor([[3.0, 0.0], [0.0, 7.0]])  # reach 3 and 7
    learner.stm_y[:2] = torch.tensor([2, 3])
    learner.held = 2
    assert learner.scores(x).argmax(1).tolist() == [2, 1, 2, 1, 3, 1]
    learner.answer_from_memory = False
    assert learner.scores(x).argmax(1).tolist() == [1] * 6


@pytest.mark.parametrize("draws", ["balanced", "iid"])
def test_new_samples_first_and_then_all(draws: str) -> None:
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 2, 5, 9], [40, 10, 30, 20])).astype(np.int32)
    drawn = Rehearsal(iterations=40_000, share=0.75, draws=draws).draw(y, 15, rng)
    first, replay = drawn[:10_000], drawn[10_000:]
    assert len(replay) == 30_000
    assert set(first) == set(range(85, 100))
    assert set(replay) == set(range(100))
    class_share = {0: 0.4, 2: 0.1, 5: 0.3, 9: 0.2}
    for i in range(100):
        expected = 1 / 100 if draws == "iid" else 1 / 4 / (100 * class_share[int(y[i])])
        count = (replay == i).sum()
        spread = np.sqrt(30_000 * expected)
        assert abs(count - 30_000 * expected) < 5 * spread


def test_samples_are_kept_as_they_were_shown() -> None:
    rng = np.random.default_rng(0)
    wide, narrow = (Table(rng.normal(size=(50, d)).astype(np.float32)) for d in (6, 4))
    columns = rng.permutation(6)
    views = [
        View(wide, rng.integers(50, size=9), 6),
        View(wide, rng.integers(50, size=5), 6),
        View(wide, rng.integers(50, size=7), 6, columns),
        View(narrow, rng.integers(50, size=3), 6),
    ]
    samples = Store(6)
    for k, v in enumerate(views):
        samples.add(v, np.full(len(v), k))
    everything = np.concatenate([v.numpy() for v in views])
    index = rng.integers(24, size=40)
    np.testing.assert_array_equal(samples.take(index), everything[index])
    assert samples.y.tolist() == [0] * 9 + [1] * 5 + [2] * 7 + [3] * 3
    again = Store(6)
    again.load_state_dict(samples.state_dict())
    np.testing.assert_array_equal(again.take(index), everything[index])
    assert again.footprint() == samples.footprint()
    used = len({r for v in views[:3] for r in rows_of(v)}), len(set(rows_of(views[3])))
    assert samples.footprint() == {
        "samples": used[0] * 6 * 4 + used[1] * 4 * 4 + 24 * 4,
        "index": 24 * 8 + 6 * 8,
    }


def test_the_state_holds_no_other_rows_of_the_table() -> None:
    samples = Store(3)
    table = Table(np.arange(30, dtype=np.float32).reshape(10, 3))
    samples.add(View(table, np.array([7, 2]), 3), np.zeros(2))
    tables = samples.state_dict()["tables"]
    assert [t["values"].tolist() for t in tables] == [[[6, 7, 8], [21, 22, 23]]]


PUBLISHED = [  # inputs, classes, training samples, Table 2: MB of GeppNet and of GeppNet+STM
    (784, 10, 60_000, 190.08, 191.02),
    (1280, 100, 28_779, 150.38, 151.92),
    (2048, 10, 5_994, 53.48, 55.94),  # CUB-200, with ten outputs: the paper's sizes fit no others
]


@pytest.mark.parametrize(("inputs", "classes", "n", "plain", "stm"), PUBLISHED)
def test_sizes(inputs: int, classes: int, n: int, plain: float, stm: float) -> None:
    """Table 2 counts map, readout, and samples with a label; where they lie is ours beyond that."""
    for cls, published in ((GeppNet, plain), (GeppNetSTM, stm)):
        learner = start(cls(), StreamSpec((inputs,), classes))
        table = Table(np.zeros((n, inputs), np.float32))
        learner.samples.add(View(table, np.arange(n), inputs), np.zeros(n, np.int64))
        held = learner.footprint()
        assert abs((held.total - held["index"]) / 1e6 - published) <= 0.005
        assert held["index"] == 8 * n
