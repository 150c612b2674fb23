"""The checks for protocols with label sets; they replace those for single-label streams."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from embedbench.arrays import Bools
from embedbench.files.samples import TEST
from embedbench.streams.protocol import Protocol
from embedbench.streams.view import rows_of

from .demand import applies_where, demand
from .protocol_contract import protocol_check
from .small_files import KINDS, SEEDS, Case, build, each_case


def _cases(cls: type[Protocol]) -> Iterator[Case]:
    """Streams with label sets; `NotApplicable` if the protocol makes single-label streams."""
    cases = [case for case in each_case(cls) if case.stream.spec.multilabel]
    applies_where(cases)
    return iter(cases)


def _complete(case: Case) -> Bools:
    """(N, C) all labels of the file's samples: the leaf and every class above it, by name."""
    (file,) = case.files
    number = {name: c for c, name in enumerate(case.stream.classes)}
    labels = np.zeros((len(file.labels), len(number)), dtype=np.bool_)
    for leaf in range(file.samples.n_leaves):
        node = leaf
        while node >= 0:
            if file.classes[node] in number:
                labels[file.labels == leaf, number[file.classes[node]]] = True
            node = int(file.parents[node])
    return labels


@protocol_check
def label_sets_are_the_files(cls: type[Protocol]) -> None:
    """Samples are tested for all their labels, and taught with at least one of them."""
    for case in _cases(cls):
        where, true = case.where, _complete(case)
        for part in case.stream.eval_sets:
            demand(
                np.array_equal(part.y, true[rows_of(part.x)]),
                f"{where}: the {part.split} samples are asked for other labels than they have",
            )
        for i, s in enumerate([*case.stream.sessions, *case.stream.whole]):
            for view, y in ((s.x, s.y), (s.val_x, s.val_y)):
                false = y & ~true[rows_of(view)]
                demand(not false.any(), f"{where}: session {i} teaches labels that are not true")
                demand(y.any(axis=1).all(), f"{where}: session {i} has samples without a label")


@protocol_check
def label_sets_never_reveal_the_future(cls: type[Protocol]) -> None:
    """Every class is introduced once, after the class above it.

    Labels and masks hold only classes that have been introduced. A protocol that does not promise
    it says so by `reveals_no_future`.
    """
    applies_where(cls.reveals_no_future)
    for case in _cases(cls):
        stream, where = case.stream, case.where
        assert stream.parents is not None
        seen = np.zeros(stream.spec.n_classes, dtype=np.bool_)
        for i, s in enumerate(stream.sessions):
            above = stream.parents[s.classes]
            demand(not seen[s.classes].any(), f"{where}: session {i} introduces classes again")
            demand(
                seen[above[above >= 0]].all(),
                f"{where}: session {i} introduces a class no later than the one above it",
            )
            seen[s.classes] = True
            demand(len(s.y) > 0, f"{where}: session {i} teaches nothing")
            for y in (s.y, s.val_y):
                demand(not (y & ~seen).any(), f"{where}: session {i} has labels of the future")
            demand(
                s.loss_classes is not None and np.array_equal(s.loss_classes, seen),
                f"{where}: the loss of session {i} must see the classes so far, no others",
            )
        demand(seen.all(), f"{where}: classes {np.flatnonzero(~seen)} are never introduced")


@protocol_check
def label_sets_keep_their_roles(cls: type[Protocol]) -> None:
    """Training, in-task validation, post-task validation and test data share no sample.

    Samples of the last two are each tested once, and every test sample of the file is tested.
    """
    for case in _cases(cls):
        stream, where = case.stream, case.where
        sessions = [*stream.sessions, *stream.whole]
        asked = {part.split: rows_of(part.x) for part in stream.eval_sets}
        demand(set(asked) == {"test", "val"}, f"{where}: expected test and val, got {set(asked)}")
        for split, rows in asked.items():
            demand(len(np.unique(rows)) == len(rows), f"{where}: {split} samples are asked twice")
        mine = np.flatnonzero(case.split == TEST)
        demand(np.array_equal(np.sort(asked["test"]), mine), f"{where}: test samples are missing")
        roles = {
            "training": case.rows(*(s.x for s in sessions)),
            "in-task validation": case.rows(*(s.val_x for s in sessions)),
            **asked,
        }
        for a, b in itertools.combinations(roles, 2):
            both = np.intersect1d(roles[a], roles[b])[:3].tolist()
            demand(not both, f"{where}: rows {both} are in {a} and in {b} data")


@protocol_check
def label_sets_merge_to_the_complete_ones(cls: type[Protocol]) -> None:
    """For every seed the reference stream holds each taught row once, with all its labels."""
    for kind in KINDS:
        cases = [build(cls, kind, seed, scale="none") for seed in SEEDS]
        applies_where(cases[0].stream.spec.multilabel)
        digests = {case.stream.references[0].digests["train"] for case in cases}
        demand(len(digests) == 1, f"file {kind!r}: train digest of merged() varies with seed")
        for case in cases:
            (merged,) = case.stream.references[0].sessions
            taught = np.unique(case.rows(*(s.x for s in case.stream.sessions)))
            rows = case.rows(merged.x)
            demand(
                np.array_equal(np.sort(rows), taught),
                f"{case.where}: merged() must teach what the sessions do, each sample once",
            )
            demand(
                np.array_equal(merged.y, _complete(case)[rows]),
                f"{case.where}: merged() must teach all labels of a sample",
            )
