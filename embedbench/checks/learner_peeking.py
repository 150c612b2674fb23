"""The checks for learners: nothing matters but the sessions so far.

A stream is taught twice: as it is, and with other data where a learner must not look. The same
samples are asked both times after every session.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch

from embedbench.array_types import Floats, Ints
from embedbench.learning.learner import Learner, Tags
from embedbench.streams.feature_tables import PixelTable, Table
from embedbench.streams.stream import Stream
from embedbench.streams.view import View, rows_of, table_of

from . import blob_streams
from . import learner_check_tools as tools
from .check_building_blocks import applies_where, demand
from .learner_contract import FEW

Change = Callable[[Stream], tuple[Stream, Callable[[], None]]]  # what is done after each session


def _vectors(tags: Tags) -> Stream:
    return blob_streams.blobs(tags, FEW, 18, n_val=4)


STREAMS: dict[str, Callable[[Tags], Stream]] = {
    "vectors": _vectors,
    "images": lambda tags: blob_streams.as_images(_vectors(tags)),
    "label sets": lambda tags: blob_streams.family_blobs(tags, 24, n_val=8),
}


@tools.learner_check
def rows_outside_sessions_do_not_matter(cls: type[Learner]) -> None:
    """Rows that are in no session so far may hold noise: the answers stay the same."""
    _compare(cls, _in_noise, "noise in the rows that are in no session so far")


@tools.learner_check
def eval_labels_do_not_matter(cls: type[Learner]) -> None:
    """Eval sets may have other labels: the answers stay the same."""
    _compare(cls, _relabelled, "other labels in the eval sets")


def _compare(cls: type[Learner], change: Change, what: str) -> None:
    applies_where(cls.tags.deterministic)
    taken = {"vectors": True, "images": cls.tags.images, "label sets": cls.tags.multilabel}
    for kind in (kind for kind, takes in taken.items() if takes):
        expected = _unchanged(cls, kind, tools.device())
        for t, answers in enumerate(_answers(cls, kind, change)):
            demand(
                tools.same(answers, expected[t]),
                f"expected the same answers on {kind} with {what}, got others after session {t}: "
                "it reads what it is not given",
            )


@lru_cache(maxsize=8)
def _unchanged(cls: type[Learner], kind: str, _device: str) -> list[Floats]:
    """The answers on a stream as it is, which both checks compare with."""
    return _answers(cls, kind, lambda stream: (stream, lambda: None))


def _answers(cls: type[Learner], kind: str, change: Change) -> list[Floats]:
    """Scores of the test samples, (n, C), after each session of a changed stream.

    Of the stream before the change only these samples are kept.
    """
    stream = STREAMS[kind](cls.tags)
    stream = _mixed(stream.merged() if cls.tags.offline else stream)
    x = tools.probe(stream)
    stream, after = change(stream)
    learner = tools.small(cls, epochs=1)
    answers: list[Floats] = []

    def asked(_: str) -> None:
        answers.append(tools.ask(learner, stream, x))
        after()

    with torch.random.fork_rng(devices=[]):  # another check finds who draws from it
        torch.manual_seed(0)
        tools.run(stream, learner, progress=asked)
    return answers


def _mixed(stream: Stream) -> Stream:
    """The stream with the rows of its table in another order, test samples among the others."""
    table = table_of(stream.sessions[0].x)
    order = np.random.default_rng(0).permutation(len(table.values))
    place, mixed = np.argsort(order), table.part(order, table.width)
    moved = blob_streams.with_views(
        stream, lambda v: View(mixed, place[rows_of(v)], v.width, v.columns)
    )
    return replace(moved, whole=())


def _in_noise(stream: Stream) -> tuple[Stream, Callable[[], None]]:
    """The stream with noise in test samples, and in those of a session until it begins."""
    table, begun = table_of(stream.sessions[0].x), list[Ints]()  # rows of the sessions so far
    to_come = iter(stream.sessions)
    sessions = [*stream.sessions]  # changed in place: the runner reads one after the other

    def begin() -> None:
        new = next(to_come, None)
        if new is None:
            return
        begun.extend((rows_of(new.x), rows_of(new.val_x)))
        noisy = _noise(table, np.concatenate(begun))
        for t, s in enumerate(stream.sessions):
            sessions[t] = replace(
                s, x=blob_streams.on_table(s.x, noisy), val_x=blob_streams.on_table(s.val_x, noisy)
            )

    begin()
    hidden = _noise(table, np.arange(0))
    return replace(
        blob_streams.with_views(stream, lambda v: blob_streams.on_table(v, hidden)),
        sessions=sessions,
    ), begin


def _noise(table: Table, kept: Ints) -> Table:
    """The table with its values in another order, but for the rows `kept`."""
    values = np.random.default_rng(0).permutation(table.values.ravel()).reshape(table.values.shape)
    values[kept] = table.values[kept]
    return PixelTable(values, *table.scaling) if table.scaling else Table(values)


def _relabelled(stream: Stream) -> tuple[Stream, Callable[[], None]]:
    """The stream with the labels of every test sample moved on by one class."""
    n = stream.spec.n_classes
    sets = [
        replace(e, y=np.roll(e.y, 1, 1) if e.y.ndim == 2 else (e.y + 1) % n)
        for e in stream.eval_sets
    ]
    return replace(stream, eval_sets=tuple(sets)), lambda: None
