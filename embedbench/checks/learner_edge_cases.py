"""The checks for learners: unusual sessions, bad input, and data that must not matter.

For the last a stream is taught twice: as it is, and with other data where a learner must not look.
The same samples are asked both times after every session.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from embedbench.array_types import Floats, Ints
from embedbench.errors import UserError
from embedbench.learning.learner import Learner, Tags, learns_sessions
from embedbench.scores.label_set_predictions import LabelSets, pw_js
from embedbench.streams.feature_tables import PixelTable, Table
from embedbench.streams.stream import Stream
from embedbench.streams.view import View, rows_of, table_of

from . import blob_streams
from . import learner_check_tools as tools
from .check_building_blocks import CheckFailed, applies_where, demand
from .learner_contract import FEW


@tools.learner_check
def learns_blobs(cls: type[Learner]) -> None:
    """Well separated blobs are learned with the default hyperparameters (90 % right)."""
    applies_where(cls.tags.learns)
    stream = blob_streams.blobs(cls.tags, blob_streams.EVERY_CLASS, 96, n_val=16)
    tools.demand_right(tools.teach(cls(), stream), "on separable blobs")


@tools.learner_check
def one_sample(cls: type[Learner]) -> None:
    """A session may hold a single sample, and no validation data."""
    for sizes in ((24, 1, 1), (1, 1, 1)):
        tools.teach(tools.small(cls), blob_streams.blobs(cls.tags, sizes=sizes, n_val=0))


@tools.learner_check
def one_class(cls: type[Learner]) -> None:
    """Every session may hold a single class, the first session too."""
    tools.teach(tools.small(cls), blob_streams.blobs(cls.tags, ((2,), (0,), (3,)), 12))


@tools.learner_check
def last_batch_of_one(cls: type[Learner]) -> None:
    """A session may leave a single sample for the last batch."""
    learner = tools.small(cls)
    batch = blob_streams.BATCH if cls.tags.online else _batch_size(learner)
    tools.teach(learner, blob_streams.blobs(cls.tags, sizes=batch + 1, n_val=1))


def _batch_size(learner: object) -> int:
    """The hyperparameter `batch_size`, also of nested settings; 16 if there is none."""
    values = vars(learner).values()
    inner = [_batch_size(v) for v in values if dataclasses.is_dataclass(v)]
    return int(getattr(learner, "batch_size", max(inner, default=16)))


@tools.learner_check
def a_class_comes_again(cls: type[Learner]) -> None:
    """A class may come again in a later session, alone or with new ones."""
    tools.teach(tools.small(cls), blob_streams.blobs(cls.tags, ((0, 1), (0, 2), (1,))))


@tools.learner_check
def all_classes_permuted(cls: type[Learner]) -> None:
    """A session may introduce no new class, only old ones with permuted columns."""
    tools.teach(tools.small(cls), blob_streams.permuted_blobs(cls.tags))


@tools.learner_check
def no_validation_data(cls: type[Learner]) -> None:
    """No session needs to hold validation data."""
    tools.teach(tools.small(cls), blob_streams.blobs(cls.tags, n_val=0))


@tools.learner_check
def bad_input_is_refused(cls: type[Learner]) -> None:
    """Wrong widths, NaN, unknown labels and streams that the tags exclude are refused."""
    good = blob_streams.blobs(cls.tags)
    bad = _bad_streams(good)
    if not cls.tags.multilabel:
        bad["a stream with several labels a sample"] = blob_streams.multilabel_blobs(cls.tags)
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


# --- label sets; online learners that also learn sessions ---


@tools.learner_check
def label_sets_are_learned(cls: type[Learner]) -> None:
    """Sums of one or two blobs get their label sets: scores above 0 for these labels only."""
    applies_where(cls.tags.multilabel and cls.tags.learns)
    answers, _ = tools.run(blob_streams.multilabel_blobs(cls.tags), cls())
    assert isinstance(answers, LabelSets)
    value = float(pw_js(answers.true(), answers.answered(-1)).mean())
    demand(value >= 0.9, f"expected a pw-JS of at least 0.9 on sums of blobs, got {value:.2f}")


@tools.learner_check
def label_sets_follow_the_seeds(cls: type[Learner]) -> None:
    """With label sets, too, only the four seeds matter, and inputs are not changed."""
    applies_where(cls.tags.multilabel and cls.tags.deterministic)
    stream = blob_streams.family_blobs(cls.tags)
    before = [s.y.copy() for s in stream.sessions]
    runs = [tools.run(stream, tools.small(cls))[0].answer for _ in range(2)]
    tools.demand_same("label sets from the same seeds", *runs)
    tools.demand_same("labels after learning", before, [s.y for s in stream.sessions])


@tools.learner_check
def label_sets_go_on_from_a_state(cls: type[Learner]) -> None:
    """With label sets, too, a learner with a loaded state goes on like the one that saved it.

    The footprint equals the bytes of the state.
    """
    applies_where(cls.tags.multilabel and not cls.tags.offline)
    stream = blob_streams.family_blobs(cls.tags)
    first, rest = tools.cut(stream, 2)
    old, new = tools.small(cls), tools.small(cls)
    before = dataclasses.asdict(old)
    tools.run(first, old)
    held, total = tools.state_bytes(old.state_dict()), old.footprint().total
    # the moments of a fresh optimiser are not kept, so they are not counted
    fresh = getattr(cls, "optimiser_state", "kept") == "fresh"
    fits = total <= held if fresh else total == held
    demand(fits, f"footprint of {total} bytes, the state holds {held}")
    tools.goes_on_alike(old, new, old.state_dict(), stream, rest)
    tools.demand_same("hyperparameters after learning", before, dataclasses.asdict(old))


@tools.learner_check
def whole_sessions_are_learned(cls: type[Learner]) -> None:
    """An online learner that has `learn` also learns blobs from whole sessions."""
    learner = cls()
    applies_where(cls.tags.online and learns_sessions(learner))
    stream = blob_streams.blobs(cls.tags, blob_streams.EVERY_CLASS, 96, n_val=16)
    answers = tools.teach(learner, replace(stream, observe_batch=0))
    tools.demand_right(answers, "from whole sessions")


# --- nothing matters but the sessions so far ---

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
