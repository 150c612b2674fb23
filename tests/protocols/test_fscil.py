"""The protocol fscil with generated sessions: counts, shots, roles, refusals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import says
from protocol_files import make_file

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.files.sample_metadata import TRAIN
from embedbench.protocols.fscil import FSCIL
from embedbench.streams.stream import Stream
from embedbench.streams.view import rows_of

SIZES = (9, 20, 6, 12, 7, 30, 8, 10)  # training samples of classes a to h


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> EmbeddingFile:
    return make_file(tmp_path_factory.mktemp("fscil"), SIZES, [0] * 8, [2] * 8)


def classes(stream: Stream) -> list[list[int]]:
    return [s.classes.tolist() for s in stream.sessions]


def shots(stream: Stream) -> dict[int, list[int]]:
    """Rows of the training samples of each class after the base session."""
    return {
        c: rows_of(s.x)[s.y == c].tolist() for s in stream.sessions[1:] for c in s.classes.tolist()
    }


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [[0, 1, 2, 3, 4], [5], [6], [7]]),  # 60 % of 8 are 4.8; 3 are left, for 3 sessions
        ({"novel": 1}, [[0, 1, 2, 3, 4], [5, 6, 7]]),  # fewer than 5
        ({"way": 1}, [[0, 1, 2, 3, 4], [5], [6], [7]]),
        ({"base": 2, "way": 3}, [[0, 1], [2, 3, 4], [5, 6, 7]]),
        ({"base": 2, "way": 2, "sessions": 2}, [[0, 1], [2, 3]]),
        ({"base": 4, "way": 2, "order": "size"}, [[5, 1, 3, 7], [0, 6], [4, 2]]),
        ({"base": 5, "way": 2}, [[0, 1, 2, 3, 4], [5, 6]]),
    ],
)
def test_classes(settings: dict[str, Any], expected: list[list[int]], file: EmbeddingFile) -> None:
    stream = FSCIL(**settings).build([file], seed=0)
    assert classes(stream) == expected
    tested = [np.flatnonzero(e.classes).tolist() for e in stream.eval_sets]
    assert tested == [sorted(c) for c in expected]
    assert not stream.can_reveal
    left = sorted({*range(8)} - {c for own in expected for c in own})
    names = ", ".join("abcdefgh"[c] for c in left)
    said = (f"classes left out, after the last whole session: {names}",) if left else ()
    assert stream.notes == said


@pytest.mark.parametrize(
    ("n", "cuts", "earlier"),
    [
        (6, [4, 5, 6], [4, 6]),
        (14, [8, 10, 12, 14], [8, 13]),
        (25, [15, 18, 21, 24], [15, 20, 25]),
        (100, [*range(60, 101, 5)], [*range(60, 101, 5)]),
    ],
)
def test_way_follows_the_number_of_classes(n: int, cuts: list[int], earlier: list[int]) -> None:
    """Three few-shot sessions at least, where there used to be one of five classes."""
    assert FSCIL()._cuts(n, early=0, untested=0) == cuts
    assert FSCIL(novel=1)._cuts(n, early=0, untested=0) == earlier


def test_who_gets_which_samples(file: EmbeddingFile) -> None:
    base, *novel = FSCIL(base=3, way=2, shot=4, order="random").build([file], seed=1).sessions
    assert len(novel) == 2
    mine = np.flatnonzero(np.isin(file.labels, base.classes) & (file.split == TRAIN))
    both = np.concatenate([rows_of(base.x), rows_of(base.val_x)])
    assert np.sort(both).tolist() == mine.tolist()  # all there are, the validation data among them
    assert len(base.val_x) == sum(max(1, round(0.1 * SIZES[c])) for c in base.classes)
    for session in novel:
        assert np.unique(session.y, return_counts=True)[1].tolist() == [4, 4]
        assert len(session.val_x) == len(session.val_y) == 0


def test_shots_do_not_depend_on_the_session_and_fewer_are_among_more(file: EmbeddingFile) -> None:
    five = shots(FSCIL(base=2, way=3, shot=5).build([file], seed=1))
    other = shots(FSCIL(base=4, way=1, shot=5, order="size").build([file], seed=1))
    two = shots(FSCIL(base=2, way=3, shot=2).build([file], seed=1))
    assert [(c, five[c]) for c in (2, 4, 6)] == [(c, other[c]) for c in (2, 4, 6)]
    assert {len(rows) for rows in two.values()} == {2}
    assert all({*two[c]} < {*rows} for c, rows in five.items())


def test_every_sample_may_be_a_shot(file: EmbeddingFile) -> None:
    """Validation data that is carved from other classes is not kept from them."""
    drawn = [shots(FSCIL(base=2, way=6).build([file], seed=seed))[2] for seed in range(40)]
    mine = np.flatnonzero((file.labels == 2) & (file.split == TRAIN)).tolist()
    assert {len(rows) for rows in drawn} == {5}
    assert {row for rows in drawn for row in rows} == {*mine}
    for row in mine:  # each in 5 of 6 draws
        assert 24 <= sum(row in rows for rows in drawn) <= 40


def test_classes_of_fewer_samples_than_shots_join_the_base_session(tmp_path: Path) -> None:
    file = make_file(tmp_path, (9, 8, 8, 3, 7, 4), [0] * 6, [1] * 6)
    for shot, expected, named in (
        (5, [[3, 5, 0], [1], [2], [4]], ["d, f"]),
        (4, [[3, 0, 1], [2], [4], [5]], ["d"]),
        (3, [[0, 1, 2], [3], [4], [5]], []),
    ):
        stream = FSCIL(base=3, way=1, shot=shot).build([file], seed=0)
        assert classes(stream) == expected
        assert [note.rpartition(": ")[2] for note in stream.notes] == named


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"shot": 9}, {"match": "3 to 7 .* 3 .* 9 ", "check": says(what="base", got=2)}),
        ({"novel": 0}, {"check": says(what="novel", got=0)}),
        ({"base": 8}, {"match": "1 to 7", "check": says(what="base", got=8)}),
        ({"base": 6, "way": 3}, {"match": "at most 2", "check": says(what="way", got=3)}),
        ({"sessions": 5}, {"match": "2 to 4", "check": says(what="sessions", got=5)}),
        ({"sessions": 1}, {"match": "2 to 4", "check": says(what="sessions", got=1)}),
        ({"lists": "cifar10"}, {"match": "lists 'cifar10'.* 'cifar100'"}),
        ({"lists": "cifar100", "way": 5}, {"match": "drop protocol.way"}),
        ({"lists": "cifar100", "shot": 1}, {"match": "drop protocol.shot"}),
        ({"lists": "cifar100", "order": "size"}, {"match": "drop protocol.order"}),
        ({"shot": 0}, {"check": says(what="shot", got=0)}),
        ({"order": "alphabetic"}, {"check": says(what="unknown order", got="alphabetic")}),
    ],
)
def test_refusals(settings: dict[str, Any], refusal: Any, file: EmbeddingFile) -> None:
    usual = {} if "lists" in settings else {"base": 2, "way": 2}
    with pytest.raises(UserError, **refusal):
        FSCIL(**{**usual, **settings}).build([file], seed=0)


def test_untested_classes_join_the_base_session(tmp_path: Path) -> None:
    file = make_file(tmp_path, (6, 6, 6, 6), test=(1, 2, 0, 2))
    stream = FSCIL(base=2, way=1).build([file], seed=0)
    assert classes(stream) == [[2, 0], [1], [3]]
    assert stream.notes[0].endswith("without test samples, in the base session: c")
    with pytest.raises(UserError, check=says(what="base", got=1)):
        FSCIL(base=1).build([file], seed=0)


def test_a_file_that_brings_its_validation_data(tmp_path: Path) -> None:
    file = make_file(tmp_path, (6, 6, 6), (2, 2, 2), (1, 1, 1))
    stream = FSCIL(base=2, shot=6).build([file], seed=0)
    assert [s.val_y.tolist() for s in stream.sessions] == [[0, 0, 1, 1], []]
    assert [len(s.x) for s in stream.sessions] == [12, 6]
    test = FSCIL(base=2, shot=8, validation="test").build([file], seed=0)  # a paper's way
    assert [len(s.x) for s in test.sessions] == [16, 8]
    for session, asked in zip(test.sessions, test.eval_sets, strict=True):
        np.testing.assert_array_equal(rows_of(session.val_x), rows_of(asked.x))
