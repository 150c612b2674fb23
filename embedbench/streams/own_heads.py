"""A head a session where sessions share their classes: task-incremental training and answers.

A class of such a stream has a unit in the head of each session. So a learner is taught a stream in
which every session has classes of its own, one for each unit, and each loss that tells apart the
classes of one session only (`protocol.loss=session`) is one within a head. Of its scores the runner
takes those of the sample's session: answers are among the classes of the stream, and all scores and
the offline reference are as on the stream without heads.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from embedbench.array_types import Bools

from .stream import EvalSet, Session, Stream

if TYPE_CHECKING:
    import torch


def has_own_heads(stream: Stream) -> bool:
    """Whether the sessions of a stream share classes, and each has a head of its own for them."""
    return stream.spec.loss_over_session and stream.spec.reveals_session_id


def give_heads(stream: Stream) -> Stream:
    """The same samples as the classes of heads: class c of session t becomes class t·C + c.

    `pick_head` takes scores of these classes back to those of the stream.
    """
    n_classes = stream.spec.n_classes
    n_heads = len(stream.sessions)

    def in_head(classes: Bools, number: int) -> Bools:
        units = np.zeros((n_heads, n_classes), dtype=np.bool_)
        units[number] = classes
        return units.ravel()

    def taught(session: Session, number: int) -> Session:
        first = number * n_classes
        classes = session.loss_classes
        assert classes is not None  # the loss is over the session
        units = in_head(classes, number)
        return replace(
            session,
            y=session.y + first,
            val_y=session.val_y + first,
            classes=np.flatnonzero(units),
            loss_classes=units,
        )

    def tested(test: EvalSet, number: int) -> EvalSet:
        return replace(test, y=test.y + number * n_classes, classes=in_head(test.classes, number))

    return replace(
        stream,
        spec=replace(stream.spec, n_classes=n_heads * n_classes),
        sessions=tuple(taught(s, number) for number, s in enumerate(stream.sessions)),
        eval_sets=tuple(tested(e, number) for number, e in enumerate(stream.eval_sets)),
        classes=(),  # none has a name
    )


def pick_head(scores: torch.Tensor, session: torch.Tensor, n_classes: int) -> torch.Tensor:
    """Of scores (b, T·C) those of each sample's session, (b,), in [0, T): (b, C).

    >>> import torch
    >>> scores = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    >>> pick_head(scores, torch.tensor([1, 0]), 2).tolist()
    [[3.0, 4.0], [5.0, 6.0]]
    """
    heads = scores.reshape(len(scores), scores.shape[1] // n_classes, n_classes)  # (b, T, C)
    return heads.take_along_dim(session[:, None, None], 1)[:, 0]
