"""The four orders of streaming learning, on videos small enough to know by heart."""

import itertools
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from file_helpers import says
from protocol_files import make_file

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.protocols.instance import Instance, Ordering
from embedbench.streams.stream import Stream
from embedbench.streams.view import rows_of

# Four classes with two videos of three frames and one test sample each: rows 0-5 train, 6 test, …
# The frames of every other video lie in the file from the last to the first.
N = 4
GROUP = np.array([f"{c}{v}" for c in range(N) for v in ("x", "x", "x", "y", "y", "y", "test")])
TIME = np.array([0.0, 0.5, 1.0, 9.0, 5.0, 1.0, 0.0] * N)
VIDEOS = {(7 * c, 7 * c + 1, 7 * c + 2) for c in range(N)}
VIDEOS |= {(7 * c + 5, 7 * c + 4, 7 * c + 3) for c in range(N)}  # by time
SEEDS = range(6)


@pytest.fixture
def file(tmp_path: Path) -> EmbeddingFile:
    return make_file(tmp_path, [6] * N, [0] * N, [1] * N, columns={"group": GROUP, "time": TIME})


def build(file: EmbeddingFile, seed: int = 0, **settings: Any) -> Stream:
    return Instance(validation="test", **settings).build([file], seed=seed)


def flow(stream: Stream) -> list[int]:
    """All training rows, in the order of the stream."""
    return np.concatenate([rows_of(s.x) for s in stream.sessions]).tolist()


def videos(order: list[int]) -> list[tuple[int, ...]]:
    return [tuple(order[i : i + 3]) for i in range(0, len(order), 3)]


def runs(labels: list[int]) -> list[int]:
    """The labels, without repetitions side by side."""
    return [c for c, _ in itertools.groupby(labels)]


def test_what_is_mixed_and_what_stays_together(file: EmbeddingFile) -> None:
    first = dict[str, set[tuple[int, ...]]]()
    for seed in SEEDS:
        assert all(build(file, seed, ordering=o).ordered for o in get_args(Ordering))
        flows = {o: flow(build(file, seed, ordering=o)) for o in get_args(Ordering)}
        in_a_row = {o: runs([r // 7 for r in order]) for o, order in flows.items()}
        assert len(in_a_row["iid"]) > 8
        for name in ("class-iid", "class-instance"):
            assert sorted(in_a_row[name]) == [0, 1, 2, 3]
        for name in ("instance", "class-instance"):  # in time
            assert {*videos(flows[name])} == VIDEOS
        assert not VIDEOS & {*videos(flows["iid"])}
        assert not {*videos(flows["class-iid"])} >= VIDEOS
        for name, order in flows.items():
            first.setdefault(name, set()).update(videos(order)[::2])
    assert all(len(each) > N for each in first.values())  # videos of a class are shuffled, too


def test_a_group_of_two_classes(tmp_path: Path) -> None:
    """One scene with two objects: as one in "instance", by class in "class-instance"."""
    columns = {"group": np.array(["scene"] * 6), "time": np.array([0.0, 2, 0, 1, 3, 0])}
    file = make_file(tmp_path, (2, 2), (0, 0), (1, 1), columns=columns)
    assert flow(build(file, ordering="instance", sessions=2)) == [0, 3, 1, 4]
    by_class = {tuple(flow(build(file, s, ordering="class-instance"))) for s in SEEDS}
    assert by_class == {(0, 1, 3, 4), (3, 4, 0, 1)}


def test_without_times_a_group_keeps_the_order_of_the_file(tmp_path: Path) -> None:
    columns = {"group": np.array(["v", "w", "v", "w", "test"])}
    file = make_file(tmp_path, (4,), (0,), (1,), columns=columns)
    stream = build(file, ordering="instance", sessions=2)
    assert flow(stream) in ([0, 2, 1, 3], [1, 3, 0, 2])
    assert stream.notes == ("no column time: a group comes in the order of the file",)


def test_sessions_of_samples_or_of_classes(file: EmbeddingFile) -> None:
    for ordering, sessions, sizes in (
        ("instance", 5, [5, 5, 5, 5, 4]),
        ("iid", 0, [3, 3, 3, 3, *[2] * 6]),
        ("iid", 24, [1] * 24),
        ("class-iid", 0, [6] * 4),  # fewer classes than 10
        ("class-iid", 3, [12, 6, 6]),
        ("class-iid", 4, [6] * 4),
    ):
        stream = build(file, ordering=ordering, sessions=sessions)
        assert [len(s.x) for s in stream.sessions] == sizes
        assert stream.notes == ()


def test_what_is_tested_when(file: EmbeddingFile) -> None:
    """All from the start, or the classes so far."""
    for ordering in ("iid", "instance"):
        stream = build(file, ordering=ordering, sessions=3)
        assert [rows_of(e.x).tolist() for e in stream.eval_sets] == [[6, 13, 20, 27], [], []]
        assert [s.classes.tolist() for s in stream.sessions] == [[0, 1, 2, 3], [], []]
    for ordering in ("class-iid", "class-instance"):
        stream = build(file, seed=1, ordering=ordering, sessions=2)
        for session, test in zip(stream.sessions, stream.eval_sets, strict=True):
            assert session.classes.tolist() == sorted({*session.y.tolist()})
            assert rows_of(test.x).tolist() == [7 * c + 6 for c in session.classes]


def test_classes_without_test_samples_come_last(tmp_path: Path) -> None:
    file = make_file(tmp_path, (2, 2, 2), (0, 0, 0), (1, 0, 1))
    for seed in SEEDS:
        stream = build(file, seed, ordering="class-iid")
        assert stream.sessions[-1].classes.tolist() == [1]
        assert [len(e.x) for e in stream.eval_sets] == [1, 1, 0]


def test_the_offline_references_are_of_the_data_so_far(file: EmbeddingFile) -> None:
    stream = build(file, ordering="class-instance", sessions=4)
    parts = stream.references
    for p, n in zip(parts, (1, 2, 3, 4), strict=True):
        taught = sorted(c for s in stream.sessions[:n] for c in s.classes.tolist())
        (session,), (test,) = p.sessions, p.eval_sets
        assert sorted(session.y) == np.repeat(taught, 6).tolist()
        assert test.y.tolist() == taught
    assert not any(p.ordered or p.so_far for p in parts[1:])


def test_columns_are_digested_where_they_are_read(file: EmbeddingFile, tmp_path: Path) -> None:
    plain = make_file(tmp_path, [6] * N, [0] * N, [1] * N, name="plain.h5")
    for ordering in ("iid", "class-iid"):
        assert build(file, ordering=ordering).digests == build(plain, ordering=ordering).digests
    for ordering in ("instance", "class-instance"):
        assert file.digests["columns"] in build(file, ordering=ordering).samples
        with pytest.raises(UserError, match="group"):
            build(plain, ordering=ordering)


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"ordering": "classes"}, {"match": "ordering 'classes'"}),
        ({"observe_batch": 0}, {"check": says(what="observe_batch", got=0)}),
        ({"sessions": 5}, {"match": "sessions .* 4, .* classes", "check": says(got=5)}),
        ({"ordering": "iid", "sessions": 25}, {"match": "24, .* samples", "check": says(got=25)}),
    ],
)
def test_refused(settings: dict[str, Any], refusal: Any, file: EmbeddingFile) -> None:
    with pytest.raises(UserError, **refusal):
        build(file, **settings)
