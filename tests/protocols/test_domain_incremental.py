"""Domain-incremental streams of a file that is small enough to know by heart."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import says
from protocol_files import make_file

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.protocols.domain_incremental import DomainIncremental
from embedbench.streams.stream import Stream
from embedbench.streams.view import rows_of

# Rows: a has 0-5 train, 6-8 test; b has 9-14 and 15-17. Class b is never drawn in ink.
DOMAIN = ["ink", "oil", "pen", "ink", "oil", "pen", "ink", "oil", "pen"]
DOMAIN += ["oil", "pen", "oil", "pen", "oil", "pen", "oil", "pen", "oil"]


@pytest.fixture
def file(tmp_path: Path) -> EmbeddingFile:
    return make_file(tmp_path, (6, 6), (0, 0), (3, 3), columns={"domain": np.array(DOMAIN)})


def build(file: EmbeddingFile, seed: int = 0, **settings: Any) -> Stream:
    """Validation is the test set, so that all training rows are taught."""
    return DomainIncremental(validation="test", **settings).build([file], seed=seed)


def rows(stream: Stream) -> list[list[int]]:
    return [rows_of(s.x).tolist() for s in stream.sessions]


def asked(stream: Stream) -> list[list[int]]:
    return [rows_of(e.x).tolist() for e in stream.eval_sets]


INK, OIL, PEN = [0, 3], [1, 4, 9, 11, 13], [2, 5, 10, 12, 14]


def test_a_session_a_domain(file: EmbeddingFile) -> None:
    """All classes are known from the start: ink has no b, and a learner may answer b after it."""
    stream = build(file)
    assert rows(stream) == [INK, OIL, PEN]
    assert asked(stream) == [[6], [7, 15, 17], [8, 16]]
    assert [s.y.tolist() for s in stream.sessions] == [[0, 0], [0, 0, 1, 1, 1], [0, 0, 1, 1, 1]]
    assert [s.classes.tolist() for s in stream.sessions] == [[0, 1], [], []]
    assert [e.classes.tolist() for e in stream.eval_sets] == [[True, True]] * 3
    assert stream.can_reveal is True
    assert stream.normalise_new is True
    assert stream.notes == ()
    assert rows(build(file, domains="pen,oil,ink", sessions=3)) == [PEN, OIL, INK]
    assert rows(build(file, sessions=2)) == [sorted(INK + OIL), PEN]  # the first gets one more


def test_domains_that_are_not_named_are_not_taught(file: EmbeddingFile) -> None:
    stream = build(file, domains="pen, oil")
    assert stream.notes == ("domains that are not taught: 1",)
    assert (rows(stream), asked(stream)) == ([PEN, OIL], [[8, 16], [7, 15, 17]])
    assert asked(build(file, domains="oil,pen", test="all")) == [[6, 7, 8, 15, 16, 17], []]


def test_one_test_set_for_all(file: EmbeddingFile) -> None:
    stream = build(file, test="all")
    assert rows(stream) == [INK, OIL, PEN]
    assert asked(stream) == [[6, 7, 8, 15, 16, 17], [], []]
    assert [e.classes.any() for e in stream.eval_sets] == [True, False, False]
    assert not stream.can_reveal


def test_test_domains_need_not_be_taught(tmp_path: Path) -> None:
    """As in CORe50: under test="all" the test samples are of domains of their own."""
    columns = {"domain": np.array(["one", "one", "two", "two", "three", "four"])}
    file = make_file(tmp_path, (4,), (0,), (2,), columns=columns)
    stream = build(file, test="all")
    assert (rows(stream), asked(stream)) == ([[0, 1], [2, 3]], [[4, 5], []])
    with pytest.raises(UserError, match=r"training samples .* four"):
        build(file)
    with pytest.raises(UserError, match=r"test samples .* one; .*protocol\.test=all"):
        build(file, domains="one,two")


def test_the_columns_are_part_of_the_digests(file: EmbeddingFile, tmp_path: Path) -> None:
    named = {"domain": np.array([name.replace("oil", "paint") for name in DOMAIN])}
    other = make_file(tmp_path, (6, 6), (0, 0), (3, 3), name="other.h5", columns=named)
    one, two = build(file).digests, build(other).digests
    assert {k for k in one if one[k] != two[k]} == {"train", "eval"}


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"test": "every"}, {"match": "test 'every'"}),
        ({"domains": "ink,oli"}, {"match": "ink, oil, pen, .* 'ink,oli'"}),
        ({"domains": "ink"}, {"match": "domains .* 'ink'"}),
        ({"domains": "ink,ink"}, {"match": "domains .* 'ink,ink'"}),
        ({"sessions": 4}, {"match": "2 to 3", "check": says(what="protocol.sessions", got=4)}),
        ({"sessions": 1}, {"match": "2 to 3", "check": says(what="protocol.sessions", got=1)}),
    ],
)
def test_refused(settings: dict[str, Any], refusal: Any, file: EmbeddingFile) -> None:
    with pytest.raises(UserError, **refusal):
        build(file, **settings)


def test_a_file_of_one_domain(tmp_path: Path) -> None:
    one = {"domain": np.array(["ink"] * 3)}
    with pytest.raises(UserError, match=r"one\.h5 .* one domain"):
        build(make_file(tmp_path, (2,), (0,), (1,), name="one.h5", columns=one))
