"""Heads of sessions that share their classes: the stream that a learner is taught, by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from toy import class_stream

from embedbench.streams.make_sessions import own_losses
from embedbench.streams.own_heads import give_heads, has_own_heads, pick_head
from embedbench.streams.stream import Stream


def shared(groups: list[list[int]]) -> Stream:
    """A stream whose sessions have these classes of all, and a head each for all of them."""
    free = class_stream(groups, n_train=2, n_val=1, n_test=1)
    pairs = own_losses(list(zip(free.sessions, free.eval_sets, strict=True)))
    spec = replace(free.spec, loss_over_session=True)
    return replace(free, spec=spec, sessions=tuple(s for s, _ in pairs)).revealed()


def test_a_class_is_another_one_in_each_session() -> None:
    """Three classes and two sessions: six units, of which session 1 has 3, 4 and 5."""
    taught = give_heads(shared([[0, 2], [1, 2]]))
    assert taught.spec.n_classes == 6
    assert [s.y.tolist() for s in taught.sessions] == [[0, 0, 2, 2], [4, 4, 5, 5]]
    assert [s.val_y.tolist() for s in taught.sessions] == [[0, 2], [4, 5]]
    assert [e.y.tolist() for e in taught.eval_sets] == [[0, 2], [4, 5]]


def test_a_session_introduces_its_head() -> None:
    taught = give_heads(shared([[0, 2], [1, 2]]))
    masks = [s.loss_classes for s in taught.sessions]
    assert [s.classes.tolist() for s in taught.sessions] == [[0, 1, 2], [3, 4, 5]]
    assert [np.flatnonzero(m).tolist() for m in masks if m is not None] == [[0, 1, 2], [3, 4, 5]]


def test_the_samples_stay() -> None:
    stream = shared([[0, 2], [1, 2]])
    for mine, theirs in zip(give_heads(stream).sessions, stream.sessions, strict=True):
        assert mine.x is theirs.x
        assert mine.ids is theirs.ids
        assert mine.session_id == theirs.session_id


def test_scores_are_those_of_the_samples_session() -> None:
    scores = torch.arange(12.0).view(2, 6)
    assert pick_head(scores, torch.tensor([1, 0]), 3).tolist() == [[3, 4, 5], [6, 7, 8]]
    assert pick_head(scores[:0], torch.tensor([], dtype=torch.int64), 3).shape == (0, 3)


@pytest.mark.parametrize(("over_session", "reveals"), [(False, True), (True, False)])
def test_other_streams_have_no_own_heads(over_session: bool, reveals: bool) -> None:
    stream = class_stream([[0, 1], [2]])
    spec = replace(stream.spec, loss_over_session=over_session, reveals_session_id=reveals)
    assert not has_own_heads(replace(stream, spec=spec))
