"""`benchmarks/peer_answers.py` draws what our learners draw, and reads exported streams."""

import numpy as np
import peer_answers
import pytest
import torch
from plan_runs import plan
from protocol_files import make_file

from embedbench.config.run_seeds import Seeds, generator
from embedbench.interop.exported_stream import export
from embedbench.learning.exemplars import Exemplars, Memory
from embedbench.learning.network import mlp_net
from embedbench.models.ranpac import RanPAC
from embedbench.runs.run_task import Task, make_task
from embedbench.runs.stream_cache import StreamCache
from embedbench.streams.stream import StreamSpec


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    folder = tmp_path_factory.mktemp("stream")
    make_file(folder, (9, 8, 7, 9, 6), (0,) * 5, (5, 3, 4, 6, 2), apart=4.0)
    settings = ["protocol.base=2", "protocol.order=random", "protocol.step=2"]
    (cell,) = plan([str(folder / "file.h5")], "incremental-class", ["ncm"], [3], settings)
    made = make_task(cell, folder / "runs", StreamCache())
    export(made, folder / "exported", features=True)
    return made


@pytest.fixture(scope="module")
def stream(task: Task) -> peer_answers.Exported:
    return peer_answers.read_stream(task.root.parent / "exported")


def test_classes_are_numbered_as_learned(task: Task, stream: peer_answers.Exported) -> None:
    assert stream.ends == [2, 4, 5]
    for i, (session, test) in enumerate(
        zip(task.stream.sessions, task.stream.eval_sets, strict=True)
    ):
        for (x, y), view, labels in (
            (stream.train[i], session.x, session.y),
            (stream.test[i], test.x, test.y),
        ):
            np.testing.assert_array_equal(x.numpy(), view.tensor().numpy())
            np.testing.assert_array_equal(stream.order[y.numpy()], labels)
        assert set(stream.train[i][1].tolist()) == set(range([0, *stream.ends][i], stream.ends[i]))
    np.testing.assert_array_equal(
        stream.rows, np.concatenate([e.ids for e in task.stream.eval_sets])
    )


def test_classes_may_be_numbered_by_label(task: Task, stream: peer_answers.Exported) -> None:
    by_label = peer_answers.read_stream(task.root.parent / "exported", by_label=True)
    labels = [torch.from_numpy(stream.order)[y] for _, y in stream.train]
    assert [y.tolist() for _, y in by_label.train] == [y.tolist() for y in labels]
    assert by_label.order.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("seed", range(3))
def test_projection_and_order_are_those_of_our_ranpac(seed: int) -> None:
    seeds = Seeds.of(seed)
    ours = RanPAC(projections=7)
    ours.start(StreamSpec((4,), 3), seeds, "cpu")
    theirs = torch.randn((4, 7), generator=peer_answers.drawn_like_ours(seeds.init, 0))
    assert torch.equal(theirs, ours.projection)
    for session in (0, 2):
        drawn = peer_answers.drawn_like_ours(seeds.batches, session)
        order = torch.randperm(9, generator=generator(seeds.batches, session))
        assert torch.equal(torch.randperm(9, generator=drawn), order)


def test_the_network_is_that_of_our_er(stream: peer_answers.Exported) -> None:
    ours = mlp_net(stream.width, 6, 2, len(stream.order), stream.seeds["init"])
    theirs = peer_answers.mlp_like_ours(stream, 6)
    for i, (a, b) in enumerate(zip(theirs.parameters(), ours.parameters(), strict=True)):
        assert torch.equal(a, b if i < 4 else b[stream.order])  # 4 and 5 are the head's


def test_the_network_has_the_same_weights_in_float64(
    stream: peer_answers.Exported,
) -> None:
    single = peer_answers.mlp_like_ours(stream, 6)
    torch.set_default_dtype(torch.float64)
    try:
        double = peer_answers.mlp_like_ours(stream, 6)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(double[0].weight, single[0].weight.double())


def test_reservoir_is_filled_as_ours() -> None:
    seeds, memory = Seeds.of(4), Memory(total=6, select="reservoir")
    ours = Exemplars(memory, StreamSpec((1,), 2), seeds.memory, "cpu")
    draws = peer_answers.DrawsOfMemory(vars(seeds))
    theirs: list[int] = [-1] * 6
    for first in (0, 4, 8, 12):
        x = torch.arange(first, first + 4.0)[:, None]
        ours.add(x, torch.zeros(4, dtype=torch.int64))
        draws.begin(4)
        for number in range(first, first + 4):  # as in Mammoth's buffer
            place = number if number < 6 else draws.randint(0, number + 1)
            if place < 6:
                theirs[place] = number
    assert ours.x.flatten().tolist() == theirs


def test_steps_replay_what_ours_do() -> None:
    seeds = Seeds.of(4)
    draws = peer_answers.DrawsOfMemory(vars(seeds))
    for step in range(2):
        draws.begin(3)
        ours = np.random.default_rng([seeds.batches, step])
        for _ in range(2):  # `derpp` draws twice in a step
            drawn = ours.choice(9, 4, replace=False, shuffle=False)
            np.testing.assert_array_equal(draws.choice(9, 4, replace=False), drawn)


def test_sets_of_classes_replay_what_ours_do(task: Task, stream: peer_answers.Exported) -> None:
    spec = StreamSpec((stream.width,), len(stream.order))
    ours = Exemplars(Memory(per_class=2, select="random"), spec, stream.seeds["memory"], "cpu")
    memory = peer_answers.MemoryOfOurs(stream, 2)
    kept: list[torch.Tensor] = []  # of each class, in the order in which they are learned
    for i, session in enumerate(task.stream.sessions):
        ours.choose(session, lambda x: x)
        x, y = stream.train[i]
        for number in sorted(set(y.tolist())):
            of_class = x[y == number]
            kept.append(of_class[memory.choice(len(of_class), 2, replace=False)])
        (chosen,) = memory.steps(i, 1, 3)
        draw = np.random.default_rng([stream.seeds["batches"], i])
        assert torch.equal(torch.cat(kept)[chosen], ours.sample(3, draw)[0])
