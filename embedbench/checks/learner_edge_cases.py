"""The checks for learners: unusual sessions and bad input."""

import dataclasses
from dataclasses import replace
from typing import Any

import numpy as np

from embedbench.errors import UserError
from embedbench.learning.learner import Learner, learns_sessions
from embedbench.scores.label_set_predictions import LabelSets, pw_js
from embedbench.streams.feature_tables import Table
from embedbench.streams.stream import Stream
from embedbench.streams.view import rows_of, table_of

from . import blob_streams
from . import learner_check_tools as tools
from .check_building_blocks import CheckFailed, applies_where, demand


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
        tools.teach(
            tools.small(cls), blob_streams.blobs(cls.tags, blob_streams.SESSIONS, sizes, n_val=0)
        )


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
    demand(tools.same(*runs), "expected the same label sets from the same seeds, got others")
    demand(
        tools.same(before, [s.y for s in stream.sessions]), "expected the labels to be left alone"
    )


@tools.learner_check
def label_sets_go_on_from_a_state(cls: type[Learner]) -> None:
    """With label sets, too, a learner with a loaded state goes on like the one that saved it.

    The footprint equals the bytes of the state.
    """
    applies_where(cls.tags.multilabel and not cls.tags.offline)
    stream = blob_streams.family_blobs(cls.tags)
    first, rest = (replace(stream, sessions=s) for s in (stream.sessions[:2], stream.sessions[2:]))
    old, new = tools.small(cls), tools.small(cls)
    before = tools.settings_of(old)
    tools.run(first, old)
    held, total = tools.state_bytes(old.state_dict()), old.footprint().total
    if (
        getattr(cls, "optimiser_state", "kept") == "fresh"
    ):  # its moments are not kept, so they are not counted
        demand(total <= held, f"footprint of {total} bytes, more than the {held} of the state")
    else:
        demand(total == held, f"footprint of {total} bytes, the state holds {held}")
    tools.goes_on_alike(old, new, old.state_dict(), stream, rest)
    demand(
        tools.settings_of(old) == before, "expected the hyperparameters as they were, they changed"
    )


@tools.learner_check
def whole_sessions_are_learned(cls: type[Learner]) -> None:
    """An online learner that has `learn` also learns blobs from whole sessions."""
    learner = cls()
    applies_where(cls.tags.online and learns_sessions(learner))
    stream = replace(
        blob_streams.blobs(cls.tags, blob_streams.EVERY_CLASS, 96, n_val=16), observe_batch=0
    )
    tools.demand_right(tools.teach(learner, stream), "from whole sessions")
