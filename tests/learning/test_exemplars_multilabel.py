"""Exemplars of a multi-label stream: which labels they keep, whose they are, what they weigh."""

from typing import Any

import numpy as np
import pytest
import torch
from multilabel_streams import N_CLASSES, hierarchy_stream
from torch import Tensor

from embedbench.learning.exemplars import Exemplars, Memory
from embedbench.streams.stream import Session, Stream
from embedbench.streams.view import rows_of, table_of

STREAM = hierarchy_stream()
identity = torch.nn.Identity()


def exemplars(stream: Stream = STREAM, **settings: Any) -> Exemplars:
    return Exemplars(Memory(**settings), stream.spec, 0, "cpu")


def places_of(x: Tensor, stream: Stream = STREAM) -> list[int]:
    """Rows of the stream's table that these samples are."""
    table = table_of(stream.sessions[0].x).values
    return [int(np.flatnonzero((table == v).all(1))[0]) for v in x.numpy()]


def labels_given(session: Session) -> dict[int, list[bool]]:
    return {int(r): y.tolist() for r, y in zip(rows_of(session.x), session.y, strict=True)}


@pytest.mark.parametrize("select", ["herding", "random"])
def test_exemplars_keep_the_labels_of_their_session(select: str) -> None:
    stream = hierarchy_stream(n_train=30)
    held = exemplars(stream, per_class=6, select=select)
    for session in stream.sessions:
        held.choose(session, identity)
    assert held.lists.tolist() == sorted(list(range(N_CLASSES)) * 6)
    given = [labels_given(s) for s in stream.sessions]
    session_of = {int(c): t for t, s in enumerate(stream.sessions) for c in s.classes}
    for row, c, y in zip(places_of(held.x, stream), held.lists.tolist(), held.y, strict=True):
        assert y.tolist() == given[session_of[c]][row]
        assert y[c]
    # of the superclass's exemplars no one has learned of its subclass since
    assert held.y[held.lists == 0][:, 1:].sum() == 0


def test_a_sample_may_be_kept_twice_under_two_labels() -> None:
    held = exemplars(per_class=1000, select="random")
    for session in STREAM.sessions:
        held.choose(session, identity)
    rows = np.array(places_of(held.x))
    twice = [r for r in set(rows.tolist()) if (rows == r).sum() == 2]
    assert len(twice) == 5 * 4  # the shared fifth of five subclasses
    for r in twice:
        one, two = held.y[torch.from_numpy(rows == r)]
        assert not (one & two).any()
        assert int(one.sum() + two.sum()) == 2


def test_a_sample_with_two_labels_of_a_session_is_an_exemplar_of_both() -> None:
    (whole,) = STREAM.whole
    held = exemplars(per_class=1000, select="random")
    held.choose(whole, identity)
    assert torch.bincount(held.lists).tolist() == [60, 40, 20, 20, 20, 20, 20, 20]
    given = labels_given(whole)
    assert [given[r] for r in places_of(held.x)] == held.y.tolist()


@pytest.mark.parametrize("select", ["all", "reservoir", "balanced"])
def test_sessions_taken_sample_by_sample(select: str) -> None:
    held = exemplars(total=40, select=select)
    offered = []
    for session in STREAM.sessions:
        held.update(session)
        offered += list(labels_given(session).items())
    found = list(zip(places_of(held.x), held.y.tolist(), strict=True))
    if select == "all":
        assert found == offered  # each with what it was shown with, a shared one twice
    else:
        assert len(found) == 40
        assert all(pair in offered for pair in found)
    assert held.classes == set(range(N_CLASSES))
    if select == "balanced":
        assert set(torch.bincount(held.lists).tolist()) == {5}


def test_exemplars_join_a_session_with_their_labels() -> None:
    held = exemplars(per_class=3)
    held.choose(STREAM.sessions[0], identity)
    joined = held.join(STREAM.sessions[1])
    n = len(STREAM.sessions[1].x)
    assert len(joined.x) == n + 6
    assert joined.y.dtype == np.bool_
    assert np.array_equal(joined.y[:n], STREAM.sessions[1].y)
    assert joined.y[n:].argmax(1).tolist() == [0, 0, 0, 1, 1, 1]
    assert torch.equal(joined.x.batch(torch.arange(n, n + 6)), held.x)
    assert np.flatnonzero(joined.loss_classes).tolist() == [0, 1, 2, 5, 7]
