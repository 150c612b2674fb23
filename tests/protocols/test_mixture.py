"""The mixtures: each rule held against the paper's, and streams counted by hand."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import says
from protocol_files import make_file

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.protocols import mixture
from embedbench.protocols.mixture import Mixture
from embedbench.streams.make_sessions import deal_validation_rows
from embedbench.streams.stream import Stream
from embedbench.streams.view import rows_of

SEEDS = range(3)


def table(session_of: list[np.ndarray], labels: np.ndarray, n: int) -> np.ndarray:
    """(T, C) samples of each class in each session."""
    return np.stack([np.bincount(labels[rows], minlength=n) for rows in session_of])


def deal(rule: Any, labels: Any, sessions: int, *given: Any, seed: int = 0, **more: Any) -> Any:
    """The parts that a rule makes of all rows, with the classes in order."""
    rows, classes = np.arange(len(labels)), np.arange(labels.max() + 1)
    return rule(rows, labels, classes, sessions, *given, np.random.default_rng(seed), **more)


def clib(
    labels: list[int], order: list[int], tasks: int, n: int, m: int, rng: np.random.Generator
) -> list[list[int]]:
    """The split i-Blurry-n-m of Koh et al., as their published code states it, in percent.

    Disjoint classes are the first n % of the order, T equal groups in order; blurry classes the
    rest, likewise. Each task gives the first m % of its shuffled blurry samples to a list, the list
    is shuffled, and every task takes the same number from its front.
    """
    n_disjoint = len(order) * n // 100
    each, each_blurry = n_disjoint // tasks, (len(order) - n_disjoint) // tasks
    disjoint = [order[t * each : (t + 1) * each] for t in range(tasks)]
    start = tasks * each
    blurry = [order[start + t * each_blurry : start + (t + 1) * each_blurry] for t in range(tasks)]
    own, blurred, stay = [], [], []
    for t in range(tasks):
        own.append([i for i, c in enumerate(labels) if c in disjoint[t]])
        stay.append(rng.permutation([i for i, c in enumerate(labels) if c in blurry[t]]).tolist())
    for t in range(tasks):
        give = len(stay[t]) * m // 100
        blurred += stay[t][:give]
        stay[t] = stay[t][give:]
    blurred = rng.permutation(blurred).tolist()
    take = len(blurred) // tasks
    for t in range(tasks):
        own[t] += stay[t] + blurred[:take]
        blurred = blurred[take:]
    assert not blurred
    return [sorted(task) for task in own]


@pytest.mark.parametrize(("n", "m"), [(50, 29), (0, 10), (25, 50), (50, 100)])
def test_i_blurry_is_the_authors_rule(n: int, m: int) -> None:
    """Twenty classes of 25 samples in 5 sessions: all numbers divide, as in their data sets."""
    for seed in SEEDS:
        labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(20), 25))
        order = np.random.default_rng(100 + seed).permutation(20)
        expected = clib(labels.tolist(), order.tolist(), 5, n, m, np.random.default_rng(seed))
        rng, shares = np.random.default_rng(seed), (n / 100, m / 100)
        parts = mixture.i_blurry(np.arange(500), labels, order, 5, shares, rng)
        assert [p.tolist() for p in parts] == expected


def test_i_blurry_where_nothing_divides() -> None:
    """Seven classes, 3 disjoint and 4 blurry, in 4 sessions: no sample is lost, none empty."""
    labels = np.repeat(np.arange(7), 11)
    for seed in SEEDS:
        parts = deal(mixture.i_blurry, labels, 4, (0.5, 0.3), seed=seed)
        assert sorted(np.concatenate(parts).tolist()) == list(range(77))
        counts = table(parts, labels, 7)
        assert [np.flatnonzero(counts[:, c]).tolist() for c in range(3)] == [[0], [1], [2]]
        assert [int(counts[k, 3 + k]) >= 8 for k in range(4)] == [True] * 4  # 11 - ⌊3.3⌋
    disjoint = deal(mixture.i_blurry, labels, 4, (1.0, 0.3))
    assert [sorted({*labels[p].tolist()}) for p in disjoint] == [[0, 1], [2, 3], [4, 5], [6]]


def test_si_blurry_draws_how_much_is_shared() -> None:
    labels, sizes = np.repeat(np.arange(10), 40), set()
    for seed in SEEDS:
        parts = deal(mixture.si_blurry, labels, 4, (0.5, 0.1), seed=seed)
        assert sorted(np.concatenate(parts).tolist()) == list(range(400))
        counts = table(parts, labels, 10)
        sizes.add(tuple(counts.sum(axis=1).tolist()))
        where = [np.flatnonzero(counts[:, c]).tolist() for c in range(5)]
        assert [len(w) for w in where] == [1] * 5  # disjoint classes
        assert where == sorted(where)  # in order
        moved = 200 - counts[:, 5:].max(axis=0).sum()
        assert 0 < moved <= 20  # M of all blurry samples; some come back
    assert len(sizes) == len(SEEDS)
    assert min(map(min, sizes)) > 0


def test_si_blurry_that_cannot_fill_its_sessions() -> None:
    with pytest.raises(UserError, match=r"^si-blurry left .* in each of 1000 draws; use fewer"):
        deal(mixture.si_blurry, np.arange(4), 9, (1.0, 0.0))
    assert not mixture._borders(1, 9, np.random.default_rng(0)).any()


def test_repetition_fills_slots() -> None:
    """Six classes, 4 sessions of 3 slots: 12 slots, two a class, with 5 of its 10 samples each."""
    labels = np.repeat(np.arange(6), 10)
    for seed in SEEDS:
        parts = deal(mixture.repetition, labels, 4, 3, seed=seed)
        assert sorted(np.concatenate(parts).tolist()) == list(range(60))
        counts = table(parts, labels, 6)
        assert counts.sum(axis=1).tolist() == [15] * 4
        assert {*counts.ravel().tolist()} <= {0, 5, 10}  # 10: both slots in one session
        assert (counts[-1] <= 5).all()  # filled first, with different classes
        five = deal(mixture.repetition, labels, 5, 4, seed=seed)  # 20 slots
        by_class = [len({k for k in range(5) if c in labels[five[k]]}) for c in range(6)]
        assert all(n <= 4 for n in by_class)  # three slots, four for two classes
        assert table(five, labels, 6).sum(axis=0).tolist() == [10] * 6
    # K = C is a stream of mixed sessions; T K = C is class-incremental
    labels = np.repeat(np.arange(4), 6)
    mixed, single = (deal(mixture.repetition, labels, t, k) for t, k in ((3, 4), (4, 1)))
    assert table(mixed, labels, 4).tolist() == [[2] * 4] * 3
    assert sorted(table(single, labels, 4).tolist()) == sorted((6 * np.eye(4)).tolist())


def test_long_tails_by_hand() -> None:
    """C = 5, ρ = 1/16, 100 samples: 100, 50, 25, 12.5 → 12, 6.25 → 6."""
    labels, order = np.repeat(np.arange(5), 100), np.array([3, 1, 4, 0, 2])
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        parts = mixture.long_tailed(np.arange(500), labels, order, 2, 1 / 16, rng, shuffled=False)
        assert table(parts, labels, 5).tolist() == [[0, 50, 0, 100, 25], [12, 0, 6, 0, 0]]
        mixed = mixture.long_tailed(np.arange(500), labels, order, 2, 1 / 16, rng, shuffled=True)
        assert sorted(table(mixed, labels, 5).sum(axis=0).tolist()) == [6, 12, 25, 50, 100]
        assert [sorted({*labels[p].tolist()}) for p in mixed] == [[1, 3, 4], [0, 2]]


def test_a_long_tail_takes_what_is_there() -> None:
    labels = np.array([0] * 8 + [1] * 3 + [2] * 2)
    parts = deal(mixture.long_tailed, labels, 3, 0.01, shuffled=False)
    assert [len(p) for p in parts] == [8, 1, 1]  # 8, .8, .08; at least one
    assert [len(p) for p in deal(mixture.long_tailed, labels, 3, 1.0, shuffled=False)] == [8, 3, 2]


@pytest.fixture
def file(tmp_path: Path) -> EmbeddingFile:
    return make_file(tmp_path, [10] * 6, [0] * 6, [2] * 6)


def build(file: EmbeddingFile, seed: int = 0, **settings: Any) -> Stream:
    return Mixture(**settings).build([file], seed=seed)


def test_a_session_may_introduce_nothing(file: EmbeddingFile) -> None:
    """M = 1: all samples go anywhere, and session 0 has all classes."""
    stream = build(file, disjoint=0.0, blurry=1.0, sessions=2, task_free=True)
    assert [s.classes.tolist() for s in stream.sessions] == [[0, 1, 2, 3, 4, 5], []]
    assert [(len(e.x), e.classes.sum()) for e in stream.eval_sets] == [(12, 6), (0, 0)]
    last = build(file, setting="repetition", observe_batch=0).sessions[-1]
    assert len({*last.y.tolist()}) == 3  # it is filled first, with half of the classes


def test_validation_follows_training_in_proportion(tmp_path: Path) -> None:
    file = make_file(tmp_path, [20, 20], [10, 10], [1, 1])
    stream = build(file, setting="repetition", sessions=5, slots=2)  # five slots of four samples
    assert [Counter(s.y.tolist()) for s in stream.sessions] == [{0: 4, 1: 4}] * 5
    held = [r for s in stream.sessions for r in rows_of(s.val_x).tolist()]
    assert sorted(held) == np.flatnonzero(file.split == 1).tolist()
    assert [Counter(s.val_y.tolist()) for s in stream.sessions] == [{0: 2, 1: 2}] * 5
    tailed = build(file, setting="long-tailed", sessions=2, imbalance=0.25, order="natural")
    assert [(len(s.x), len(s.val_x)) for s in tailed.sessions] == [(20, 10), (5, 2)]


def test_validation_rows_are_dealt_evenly() -> None:
    """Class 0 is taught by one row in session 0 and by three in session 1, class 1 by none."""
    labels = np.array([0, 0, 0, 0, 0, 0, 0, 0, 1])
    parts, held = [np.array([2]), np.array([0, 1, 3])], np.array([4, 5, 6, 7, 8])
    for rows, dealt in ((held, [[4], [5, 6, 7]]), (held[:1], [[], [4]]), (held[4:], [[], []])):
        assert [r.tolist() for r in deal_validation_rows(labels, parts, rows)] == dealt


def test_untested_and_untaught_classes(tmp_path: Path) -> None:
    file = make_file(tmp_path, (4, 4, 0, 4), (0, 0, 0, 0), (0, 1, 1, 1))
    for seed in SEEDS:
        stream = build(file, seed, disjoint=1.0, sessions=3)
        assert stream.sessions[-1].classes.tolist() == [0]
        assert [len(e.x) for e in stream.eval_sets] == [1, 1, 0]
        assert stream.notes[0].endswith("left out: c")


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"setting": "blurry"}, {"match": "setting 'blurry'"}),
        ({"sessions": 1}, {"check": says(what="sessions", got=1)}),
        ({"disjoint": 1.5}, {"check": says(what="disjoint", got=1.5)}),
        ({"slots": 2}, {"match": "protocol.slots .* 'i-blurry'"}),
        ({"setting": "long-tailed", "blurry": 0.3}, {"match": "protocol.blurry .* 'long-tailed'"}),
        ({"task_free": True, "observe_batch": 0}, {"match": "protocol.observe_batch is 0"}),
        ({"setting": "repetition", "slots": 1}, {"match": "slots .* 2 to 6", "check": says(got=1)}),
        ({"setting": "repetition", "slots": 7}, {"match": "slots .* 2 to 6", "check": says(got=7)}),
        ({"disjoint": 1.0, "sessions": 7}, {"match": "for session 6"}),
    ],
)
def test_refused(settings: dict[str, Any], refusal: Any, file: EmbeddingFile) -> None:
    with pytest.raises(UserError, **refusal):
        build(file, **settings)


@pytest.mark.parametrize(
    ("setting", "first"),
    [("long-tailed", 22), ("long-tailed-shuffled", 4), ("i-blurry", 40), ("si-blurry", 1)],
)
def test_samples_of_session_0_by_hand(setting: Any, first: float) -> None:
    """Ten classes of 20: the last of session 0, two of them, keeps 20 · .1^(2/9) = 11."""
    made = Mixture(setting=setting, sessions=5, imbalance=0.1 if "long" in setting else 0.01)
    assert made._first(np.full(10, 20)) == first
