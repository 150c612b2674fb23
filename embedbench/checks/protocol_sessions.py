"""The checks for protocols: what each session teaches, introduces and tests."""

from __future__ import annotations

import numpy as np

from embedbench.streams.protocol import Protocol

from .demand import applies_where, demand
from .protocol_contract import flat, protocol_check
from .small_files import each_case


@protocol_check
def labels_never_reveal_the_future(cls: type[Protocol]) -> None:
    """A session introduces exactly the new classes it teaches, and has only its own labels.

    A protocol that does not promise it says so by `reveals_no_future`.
    """
    applies_where(cls.reveals_no_future)
    for case in flat(cls):
        where, stream = case.where, case.stream
        seen: set[int] = set()
        for i, (session, test) in enumerate(zip(stream.sessions, stream.eval_sets, strict=True)):
            new, got = set(session.y.tolist()) - seen, set(session.classes.tolist())
            demand(new == got, f"{where}: session {i} introduces {got}, and teaches {new} anew")
            seen |= new
            classes = set(np.flatnonzero(test.classes).tolist())
            demand(
                classes <= seen, f"{where}: eval set {i} has classes {classes - seen} of the future"
            )
            labels = {*session.y.tolist(), *session.val_y.tolist(), *test.y.tolist()}
            demand(
                labels <= classes,
                f"{where}: session {i} has labels {labels - classes} of other classes",
            )


@protocol_check
def labels_are_introduced(cls: type[Protocol]) -> None:
    """Every class is introduced once, in the first session with its label or before."""
    for case in flat(cls):
        where, stream = case.where, case.stream
        seen: list[int] = []
        for i, (session, test) in enumerate(zip(stream.sessions, stream.eval_sets, strict=True)):
            seen += session.classes.tolist()
            labels = {*session.y.tolist(), *session.val_y.tolist(), *test.y.tolist()} - {*seen}
            demand(not labels, f"{where}: session {i} has labels {labels}, not introduced so far")
            others = {*test.y.tolist()} - {*np.flatnonzero(test.classes).tolist()}
            demand(not others, f"{where}: eval set {i} has labels {others} of other classes")
        expected = list(range(sum(f.samples.n_leaves for f in case.files)))
        demand(
            sorted(seen) == expected,
            f"{where}: expected each of the classes {expected} once, got {sorted(seen)}",
        )


@protocol_check
def masks_admit_the_labels(cls: type[Protocol]) -> None:
    """The class masks of losses and of answers include all labels of the data."""
    for case in flat(cls):
        parts = [(s.loss_classes, {*s.y.tolist(), *s.val_y.tolist()}) for s in case.stream.sessions]
        parts += [(e.candidates, {*e.y.tolist()}) for e in case.stream.eval_sets]
        for mask, labels in parts:
            shut = set() if mask is None else labels - {*np.flatnonzero(mask).tolist()}
            demand(not shut, f"{case.where}: labels {shut} are masked where they are the truth")


@protocol_check
def session_ids_are_as_announced(cls: type[Protocol]) -> None:
    """Session ids are the sessions' numbers if the spec reveals them, and None otherwise."""
    for case in each_case(cls):
        where, stream = case.where, case.stream
        for i, session in enumerate(stream.sessions):
            expected = i if stream.spec.reveals_session_id else None
            got = session.session_id
            demand(got == expected, f"{where}: expected session id {expected}, got {got}")


@protocol_check
def small_classes_are_borne(cls: type[Protocol]) -> None:
    """Classes of one to five samples or without test samples leave no session empty."""
    for case in flat(cls):
        where, stream = case.where, case.stream
        for i, (session, test) in enumerate(zip(stream.sessions, stream.eval_sets, strict=True)):
            demand(len(session.x), f"{where}: session {i} has no training sample")
            tested = len(test.x) or not test.classes.any()
            demand(tested, f"{where}: eval set {i} has no sample, its scores are undefined")
        demand(len(stream.eval_sets[0].x), f"{where}: the first session tests nothing")
