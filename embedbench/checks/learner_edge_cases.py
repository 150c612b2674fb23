"""The checks for learners: unusual sessions, and data that must not matter.

For the last a stream is taught twice: as it is, and with other data where a learner must not look.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from embedbench.array_types import Floats
from embedbench.errors import error_text
from embedbench.learning.learner import Learner, learns_sessions
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
        value = sets.score_matrix().pooled[-1]
        demand(value >= 0.9, f"expected a pw-JS of at least 0.9 on label sets, got {value:.2f}")


@tools.learner_check
def unusual_sessions_are_learned(cls: type[Learner]) -> None:
    """Sessions may have one sample or class, a last batch of one, old classes, no validation."""
    batch = blob_streams.BATCH if cls.tags.online else tools.SMALL["batch_size"]
    make = partial(blob_streams.blobs, cls.tags)
    for what, stream in {
        "sessions of one sample": make(sizes=(24, 1, 1), n_val=0),
        "a first session of one sample": make(sizes=1, n_val=0),
        "sessions of one class": make(((2,), (0,), (3,))),
        "a last batch of one": make(sizes=batch + 1, n_val=1),
        "classes that come again": make(((0, 1), (0, 2), (1,))),
        "no new class, but permuted columns": blob_streams.permuted_blobs(cls.tags),
        "no validation data": make(n_val=0),
    }.items():
        try:
            tools.teach(tools.small(cls), stream)
        except Exception as error:
            raise CheckFailed(f"{what}: {error_text(error)}") from error


# --- nothing matters but the sessions so far ---


@tools.learner_check
def only_sessions_so_far_matter(cls: type[Learner]) -> None:
    """Rows of no session so far may be noise, and eval sets have other labels: same answers."""
    applies_where(cls.tags.deterministic)
    for kind in tuple(blob_streams.each_kind(cls.tags)):  # their streams are not kept
        each = zip(_answers(cls, kind), _answers(cls, kind, hidden=True), strict=True)
        for t, (expected, answers) in enumerate(each):
            what = "with noise in other rows and other labels in the eval sets"
            tools.demand_same(f"answers on {kind} after session {t}, {what}", expected, answers)


def _answers(cls: type[Learner], kind: str, *, hidden: bool = False) -> list[Floats]:
    """Scores of the test samples, (n, C), after each session of a stream, or of a hidden one.

    Of the stream before the change only these samples are kept.
    """
    stream = _mixed(blob_streams.each_kind(cls.tags)[kind])
    show = None
    x = tools.probe(stream)
    if hidden:
        stream, show = _hide(stream)
    learner = tools.small(cls, epochs=1)
    answers: list[Floats] = []

    def asked(_: str) -> None:
        answers.append(tools.ask(learner, stream, x))
        if show is not None:
            show(len(answers) + 1)

    with torch.random.fork_rng(devices=[]):  # another check finds who draws from it
        torch.manual_seed(0)
        tools.run(stream, learner, progress=asked)
    return answers


def _mixed(stream: Stream) -> Stream:
    """The stream with the rows of its table in another order, test samples among the others."""
    table = table_of(stream.sessions[0].x)
    order = np.random.default_rng(0).permutation(len(table.values))
    place = np.argsort(order)
    mixed = table.part(order, table.width)
    moved = blob_streams.with_views(
        stream, lambda v: View(mixed, place[rows_of(v)], v.width, v.columns)
    )
    return replace(moved, whole=())


def _hide(stream: Stream) -> tuple[Stream, Callable[[int], None]]:
    """The stream with noise in all rows but those of the first session.

    The labels of eval sets are moved on by one class. The function shows so many sessions.
    """
    table = table_of(stream.sessions[0].x)
    taught = stream.sessions
    noise = np.random.default_rng(0).permutation(table.values.ravel()).reshape(table.values.shape)
    sessions = [*taught]  # changed in place: the runner reads one after the other

    def show(count: int) -> None:  # it keeps no eval set in memory
        views = [s.x for s in taught[:count]] + [s.val_x for s in taught[:count]]
        visible = np.concatenate([rows_of(view) for view in views])
        values = noise.copy()
        values[visible] = table.values[visible]
        noisy = PixelTable(values, *table.scaling) if table.scaling else Table(values)
        for t, s in enumerate(taught):
            x = blob_streams.on_table(s.x, noisy)
            val_x = blob_streams.on_table(s.val_x, noisy)
            sessions[t] = replace(s, x=x, val_x=val_x)

    show(1)
    noisy = table_of(sessions[0].x)
    n = stream.spec.n_classes
    sets = [
        replace(
            e,
            x=blob_streams.on_table(e.x, noisy),
            y=np.roll(e.y, 1, 1) if e.y.ndim == 2 else (e.y + 1) % n,
        )
        for e in stream.eval_sets
    ]
    return replace(stream, sessions=sessions, eval_sets=tuple(sets)), show
