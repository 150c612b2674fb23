"""The checks for learners of label sets, and for online learners that also learn sessions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from embedbench.learning.learner import Learner, learns_sessions
from embedbench.scores.label_sets import LabelSets, pw_js

from .demand import applies_where, demand
from .small_streams import EVERY_CLASS, blobs, family_blobs, multilabel_blobs
from .tools import (
    goes_on_alike,
    learner_check,
    run,
    same,
    settings_of,
    small,
    state_bytes,
    teach,
)


@learner_check
def label_sets_are_learned(cls: type[Learner]) -> None:
    """Sums of one or two blobs get their label sets: scores above 0 for these labels only."""
    applies_where(cls.tags.multilabel and cls.tags.learns)
    answers, _ = run(multilabel_blobs(cls.tags), cls())
    assert isinstance(answers, LabelSets)
    value = float(pw_js(answers.true(), answers.answered(-1)).mean())
    demand(value >= 0.9, f"expected a pw-JS of at least 0.9 on sums of blobs, got {value:.2f}")


@learner_check
def label_sets_follow_the_seeds(cls: type[Learner]) -> None:
    """With label sets, too, only the four seeds matter, and inputs are not changed."""
    applies_where(cls.tags.multilabel and cls.tags.deterministic)
    stream = family_blobs(cls.tags)
    before = [s.y.copy() for s in stream.sessions]
    runs = [run(stream, small(cls))[0].answer for _ in range(2)]
    demand(same(*runs), "expected the same label sets from the same seeds, got others")
    demand(same(before, [s.y for s in stream.sessions]), "expected the labels to be left alone")


@learner_check
def label_sets_go_on_from_a_state(cls: type[Learner]) -> None:
    """With label sets, too, a learner with a loaded state goes on like the one that saved it.

    The footprint equals the bytes of the state.
    """
    applies_where(cls.tags.multilabel and not cls.tags.offline)
    stream = family_blobs(cls.tags)
    first, rest = (replace(stream, sessions=s) for s in (stream.sessions[:2], stream.sessions[2:]))
    old, new = small(cls), small(cls)
    before = settings_of(old)
    run(first, old)
    held, total = state_bytes(old.state_dict()), old.footprint().total
    if (
        getattr(cls, "optimiser_state", "kept") == "fresh"
    ):  # its moments are not kept, so they are not counted
        demand(total <= held, f"footprint of {total} bytes, more than the {held} of the state")
    else:
        demand(total == held, f"footprint of {total} bytes, the state holds {held}")
    goes_on_alike(old, new, old.state_dict(), stream, rest)
    demand(settings_of(old) == before, "expected the hyperparameters as they were, they changed")


@learner_check
def whole_sessions_are_learned(cls: type[Learner]) -> None:
    """An online learner that has `learn` also learns blobs from whole sessions."""
    learner = cls()
    applies_where(cls.tags.online and learns_sessions(learner))
    stream = replace(blobs(cls.tags, EVERY_CLASS, 96, n_val=16), observe_batch=0)
    p = teach(learner, stream)
    right = float(np.mean(p.answer[-1] == p.y))
    demand(right >= 0.9, f"expected at least 90 % right from whole sessions, got {right:.0%}")
