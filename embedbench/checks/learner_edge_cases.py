"""The checks for learners: unusual sessions, bad input, and data that must not matter.

For the last a stream is taught twice: as it is, and with other data where a learner must not look.
The same samples are asked both times after every session.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch

from embedbench.array_types import Floats, Ints
from embedbench.errors import UserError
from embedbench.learning.learner import Learner, learns_sessions
from embedbench.scores.label_set_predictions import LabelSets, pw_js
from embedbench.streams.feature_tables import PixelTable, Table
from embedbench.streams.stream import Stream
from embedbench.streams.view import View, rows_of, table_of

from . import blob_streams
from . import learner_check_tools as tools
from .check_building_blocks import CheckFailed, applies_where, demand


@tools.learner_check
def learns_blobs(cls: type[Learner]) -> None:
    """Blobs are learned (90 % right): vectors, whole sessions of them, images, label sets.

    Vectors with the default hyperparameters, images by a residual trunk if it has trunks.
    """
    applies_where(cls.tags.learns)
    stream = blob_streams.blobs(cls.tags, blob_streams.EVERY_CLASS, 96, n_val=16)
    tools.demand_right(tools.teach(cls(), stream), "on separable blobs")
    if cls.tags.online and learns_sessions(cls()):
        whole = tools.teach(cls(), replace(stream, observe_batch=0))
        tools.demand_right(whole, "from whole sessions")
    if cls.tags.images:
        learner = tools.small(cls, **{**tools.TINY, "epochs": 4, "batch_size": 24})
        colours = blob_streams.blobs(cls.tags, blob_streams.EVERY_CLASS, 192, n_val=16)
        answers = tools.teach(learner, blob_streams.as_images(colours))
        tools.demand_right(answers, "on images of separate colours")
    if cls.tags.multilabel:
        sets, _ = tools.run(blob_streams.family_blobs(cls.tags).merged(), cls())
        assert isinstance(sets, LabelSets)
        value = float(pw_js(sets.true(), sets.answered(-1)).mean())
        demand(value >= 0.9, f"expected a pw-JS of at least 0.9 on label sets, got {value:.2f}")


@tools.learner_check
def unusual_sessions_are_learned(cls: type[Learner]) -> None:
    """Sessions may have one sample or class, a last batch of one, old classes, no validation."""
    learner = tools.small(cls)
    batch = blob_streams.BATCH if cls.tags.online else _batch_size(learner)
    make = partial(blob_streams.blobs, cls.tags)
    for what, stream in {
        "sessions of one sample": make(sizes=(24, 1, 1), n_val=0),
        "a first session of one sample": make(sizes=(1, 1, 1), n_val=0),
        "sessions of one class": make(((2,), (0,), (3,)), 12),
        "a last batch of one": make(sizes=batch + 1, n_val=1),
        "classes that come again": make(((0, 1), (0, 2), (1,))),
        "no new class, but permuted columns": blob_streams.permuted_blobs(cls.tags),
        "no validation data": make(n_val=0),
    }.items():
        try:
            tools.teach(tools.small(cls), stream)
        except Exception as error:
            raise CheckFailed(f"{what}: {type(error).__name__}: {error}") from error


def _batch_size(learner: object) -> int:
    """The hyperparameter `batch_size`, also of nested settings; 16 if there is none."""
    values = vars(learner).values()
    inner = [_batch_size(v) for v in values if dataclasses.is_dataclass(v)]
    return int(getattr(learner, "batch_size", max(inner, default=16)))


@tools.learner_check
def bad_input_is_refused(cls: type[Learner]) -> None:
    """Wrong widths, NaN, unknown labels and streams that the tags exclude are refused."""
    good = blob_streams.blobs(cls.tags)
    bad = _bad_streams(good)
    if not cls.tags.multilabel:
        bad["a stream with several labels a sample"] = blob_streams.family_blobs(cls.tags)
    if not cls.tags.images:
        bad["a stream of images"] = blob_streams.as_images(good)
    for what, stream in bad.items():
        try:
            tools.run(stream, tools.small(cls))
        except UserError:
            continue
        raise CheckFailed(f"expected a UserError for {what}, but it ran")


def _bad_streams(good: Stream) -> dict[str, Stream]:
    """Streams with one fault each, by the name of the fault."""
    session, test = good.sessions[-1], good.eval_sets[-1]
    wide = session.x.width + 1

    def taught(**wrong: Any) -> Stream:
        return replace(good, sessions=(*good.sessions[:-1], replace(session, **wrong)))

    def tested(**wrong: Any) -> Stream:
        return replace(good, eval_sets=(*good.eval_sets[:-1], replace(test, **wrong)))

    bad = {
        "a session that is too wide": taught(x=replace(session.x, width=wide)),
        "validation data that are too wide": taught(val_x=replace(session.val_x, width=wide)),
        "test data that are too wide": tested(x=replace(test.x, width=wide)),
        "more labels than samples": taught(y=np.append(session.y, session.y[0])),
        "a label C": taught(y=np.full_like(session.y, good.spec.n_classes)),
        "a label -1": taught(y=np.full_like(session.y, -1)),
        "a test label C": tested(y=np.full_like(test.y, good.spec.n_classes)),
    }
    for value in (np.nan, np.inf, -np.inf):
        values = table_of(session.x).values.copy()
        values[rows_of(session.x)[0], 0] = value
        bad[f"the feature {value}"] = taught(x=blob_streams.on_table(session.x, Table(values)))
    if good.spec.reveals_session_id:
        hidden = replace(good.spec, reveals_session_id=False)
        bad["a stream that hides the session ids it needs"] = replace(good, spec=hidden)
    return bad


# --- nothing matters but the sessions so far ---

Change = Callable[[Stream], tuple[Stream, Callable[[], None]]]  # what is done after each session


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
    for kind in blob_streams.each_kind(cls.tags):
        expected = _unchanged(cls, kind, tools.device())
        for t, answers in enumerate(_answers(cls, kind, change)):
            where = f"answers on {kind} after session {t}, with {what}"
            tools.demand_same(where, expected[t], answers)


@lru_cache(maxsize=8)
def _unchanged(cls: type[Learner], kind: str, _device: str) -> list[Floats]:
    """The answers on a stream as it is, which both checks compare with."""
    return _answers(cls, kind, lambda stream: (stream, lambda: None))


def _answers(cls: type[Learner], kind: str, change: Change) -> list[Floats]:
    """Scores of the test samples, (n, C), after each session of a changed stream.

    Of the stream before the change only these samples are kept.
    """
    stream = _mixed(blob_streams.each_kind(cls.tags)[kind])
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
