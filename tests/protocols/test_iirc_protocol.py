"""The protocol `iirc` on hierarchies small enough to know by heart, and on random ones."""

import json
from typing import Any

import numpy as np
import pytest
from file_helpers import says
from iirc_files import ABOVE, BEARS, bears, label_file, label_list, publish, random_file, shown

from embedbench.errors import UserError
from embedbench.files.sample_metadata import TEST, TRAIN
from embedbench.protocols.iirc import IIRC
from embedbench.streams.view import rows_of

MODES = ("incomplete", "complete", "cumulative")


def test_sessions_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten samples i = 0 … 9 of a leaf, 0 is for in-task and 1 for post-task validation; bear
    gets three of the eight others (40 %), a kind of bear the last six (80 %)."""
    above = {"polar bear": "bear", "brown bear": "bear", "lamp": None}
    sessions = [["bear"], ["polar bear", "lamp"], ["brown bear"]]
    hierarchy = publish(monkeypatch, parents=above, configurations=[sessions])
    stream = IIRC(hierarchy=hierarchy).build([bears()], seed=0)
    polar, brown, lamp = ([3 * i + k for i in range(10)] for k in range(3))
    a, b, c = shown(stream)
    assert a == [(r, ["bear"]) for r in sorted(polar[2:5] + brown[2:5])]
    assert b == sorted([(r, ["polar bear"]) for r in polar[4:]] + [(r, ["lamp"]) for r in lamp[2:]])
    assert c == [(r, ["brown bear"]) for r in brown[4:]]
    assert [rows_of(s.val_x).tolist() for s in stream.sessions] == [[0, 1], [0, 2], [1]]
    assert [s.val_y.sum() for s in stream.sessions] == [2, 2, 1]
    assert [s.classes.tolist() for s in stream.sessions[-3:]] == [[3], [0, 2], [1]]
    assert stream.classes == BEARS
    assert tuple(stream.parents) == ABOVE
    losses = [s.loss_classes for s in stream.sessions]
    assert [np.flatnonzero(m).tolist() for m in losses] == [[3], [0, 2, 3], [0, 1, 2, 3]]
    assert stream.spec.multilabel is True
    assert stream.observe_batch == 0
    test, posttask = stream.eval_sets
    assert test.split == "test"
    assert rows_of(test.x).tolist() == list(range(30, 36))
    assert posttask.split == "val"
    assert rows_of(posttask.x).tolist() == [3, 4, 5]
    truth = [[True, False, False, True], [False, True, False, True], [False, False, True, False]]
    assert test.y.tolist() == truth * 2
    assert posttask.y.tolist() == truth
    assert test.classes.all()


def test_information_changes_no_question() -> None:
    streams = [IIRC(information=mode).build([bears()], seed=3) for mode in MODES]
    for key, alike in (("eval", 1), ("features", 1), ("train", 3), ("recipe", 3)):
        assert len({s.digests[key] for s in streams}) == alike, key
    assert len({json.dumps(s.merged().digests, sort_keys=True) for s in streams}) == 1


def test_four_levels_by_hand() -> None:
    """The list is cut once a level: 0.4 of 101 to a, 0.4 of the last 80 to b, 0.4 of the last 64 to
    c, and the last 51 to d."""
    file = label_file([0] * 126, [TRAIN] * 125 + [TEST], ("d", "a", "b", "c"), (3, -1, 1, 2))
    stream = IIRC(base=1, step=1).build([file], seed=0)
    rows = [rows_of(s.x).tolist() for s in stream.sessions]
    assert [s.classes.tolist() for s in stream.sessions] == [[1], [2], [3], [0]]
    train = list(range(24, 125))  # 12 samples each for the two validations leave 101
    assert rows == [train[:40], train[-80:][:32], train[-64:][:25], train[-51:]]
    (whole,) = stream.whole
    assert whole.y.all()
    assert rows_of(whole.x).tolist() == sorted(set().union(*map(set, rows)))


def test_the_cap_counts_leaves() -> None:
    """16 leaves in pairs under nodes under one root: the root gets 8 / 16 · 0.4 of each."""
    names = [*(f"leaf {i}" for i in range(16)), "root", *(f"pair {i}" for i in range(8))]
    parents = [*(17 + i // 2 for i in range(16)), -1, *[16] * 8]
    labels, split = np.arange(16 * 26) % 16, np.repeat([TRAIN, TEST], [16 * 25, 16])
    stream = IIRC(base=1).build([label_file(labels, split, names, parents)], seed=0)
    size = np.sum([s.y.sum(axis=0) for s in stream.sessions], axis=0)
    assert size[16] == 16 * 4  # ⌊8/16 · .4 · 21⌋ of 25 less 4 for validation
    assert set(size[17:].tolist()) == {2 * 6}  # ⌊.4 · 16⌋, of ⌊.8 · 21⌋
    assert set(size[:16].tolist()) == {12}  # ⌊.8 · 16⌋
    assert stream.notes[1].startswith("16 training samples are in no class")  # the fifth of each


@pytest.mark.parametrize(
    ("n", "kept"), [(1, [3, 0, 0]), (2, [3, 3, 0]), (3, [3, 3, 3]), (4, [6, 3, 3])]
)
def test_tiny_classes(n: int, kept: list[int]) -> None:
    """A class of one sample keeps it; bear and its kinds then share it."""
    stream = IIRC(base=1).build([bears(n)], seed=0)
    (whole,) = stream.whole
    assert [len(x) for x in (whole.x, whole.val_x, stream.eval_sets[1].x)] == kept
    taught = np.sum([s.y.sum(axis=0) for s in stream.sessions], axis=0)
    assert taught.tolist() == [1, 1, 1 + (n > 3), 2]  # of two, bear has the first


def test_validation_that_the_file_brings() -> None:
    """Five samples: three in-task, two post-task; the training samples are all taught."""
    stream = IIRC(subclass_share=1.0).build([bears(4, val=5)], seed=0)
    (whole,) = stream.whole
    rows = [rows_of(v).tolist() for v in (whole.x, whole.val_x, stream.eval_sets[1].x)]
    assert rows == [[*range(12)], [*range(12, 21)], [*range(21, 27)]]
    assert any("file's validation samples" in note for note in stream.notes)


def test_a_file_without_a_hierarchy_is_said() -> None:
    for file, said in ((label_list(list("abc"), 8, 2), 1), (bears(), 0)):
        stream = IIRC().build([file], seed=0)
        assert len(stream.sessions[0].classes) == 1  # half of three, or the one above others
        assert sum("protocol.hierarchy" in note for note in stream.notes) == said
        with pytest.raises(UserError, check=says(what="base", got=3)):
            IIRC(base=3).build([file], seed=0)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_no_label_of_the_future_reaches_a_learner(depth: int) -> None:
    rng = np.random.default_rng(depth)
    file = random_file(rng, depth)
    parents, n = file.parents, len(file.classes)
    for mode in MODES:
        stream = IIRC(information=mode, step=int(rng.integers(1, 8))).build([file], seed=depth)
        assert stream.classes == file.classes
        when = np.full(n, -1)
        for t, session in enumerate(stream.sessions):
            assert (when[session.classes] == -1).all()
            when[session.classes] = t
        assert (when >= 0).all()
        assert (when[parents >= 0] > when[parents[parents >= 0]]).all()
        for t, session in enumerate(stream.sessions):
            assert np.array_equal(session.loss_classes, when <= t)
            for view, y in ((session.x, session.y), (session.val_x, session.val_y)):
                assert y.shape == (len(view), n)
                assert not y[:, when > t].any()
                assert y.any(axis=1).all()
                if mode == "incomplete":
                    assert not y[:, when != t].any()
                for row, labels in zip(rows_of(view), y, strict=True):
                    assert (np.flatnonzero(labels)[:, None] == truth(file, row)).any(axis=1).all()


def truth(file: Any, row: int) -> list[int]:
    """The classes of a sample, from the leaf up."""
    found = [int(file.labels[row])]
    while file.parents[found[-1]] >= 0:
        found.append(int(file.parents[found[-1]]))
    return found


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_sessions_are_as_many_as_asked(depth: int) -> None:
    """Also where every session must take its part of the deepest branch; sizes in the way asked."""
    file = random_file(np.random.default_rng(depth), depth)
    n, tops = len(file.classes), int((file.parents < 0).sum())
    base = min(tops, n - 1)
    for count in range(max(2, depth), min(n - base + 1, depth + 6)):
        sessions = IIRC(base=base, sessions=count).build([file], seed=0).sessions
        assert len(sessions) == count
        assert all(len(s.classes) for s in sessions)
    sizes = {
        tuple(len(s.classes) for s in IIRC(base=base, step=3).build([file], seed=s).sessions)
        for s in range(3)
    }
    assert {len(s) for s in sizes} == {max(depth, 1 + -(-(n - base) // 3))}
    if depth < 3:
        rest = [(n - base) % 3] if (n - base) % 3 else []
        assert sizes == {(base, *[3] * ((n - base) // 3), *rest)}


def test_the_base_is_superclasses() -> None:
    file = random_file(np.random.default_rng(0), 2)
    supers = set(file.parents.tolist()) - {-1}
    for seed in range(5):
        first = IIRC().build([file], seed=seed).sessions[0]
        assert set(first.classes.tolist()) <= supers
        assert len(first.classes) == int(np.ceil(2 / 3 * len(supers)))
        later = len(file.classes) - len(first.classes)
        assert len(IIRC().build([file], seed=seed).sessions) == 1 + -(-later // 5)
    with pytest.raises(UserError, check=says(what="sessions", got=2)):  # a superclass, then all
        IIRC(base=1, sessions=2).build([file], seed=0)
    assert len(IIRC(base=1, sessions=2).build([bears()], seed=0).sessions) == 2
    flat = label_file([*range(7)] * 4, [TRAIN] * 21 + [TEST] * 7, "abcdefg")  # half of the classes
    assert len(IIRC().build([flat], seed=0).sessions[0].classes) == 3


def test_the_order_is_the_seeds_or_the_configurations() -> None:
    file = random_file(np.random.default_rng(1), 3)
    drawn = IIRC(step=1).build([file], seed=1).digests["train"]
    fixed = {IIRC(step=1, configuration=1).build([file], seed=s).digests["train"] for s in (0, 1)}
    assert fixed == {drawn}
