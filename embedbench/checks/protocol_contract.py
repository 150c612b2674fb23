"""The checks for protocols: streams of small files are compared with the files."""

import dataclasses
import itertools
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from embedbench.array_types import Bools
from embedbench.config.fields_added_later import later_fields
from embedbench.config.make_from_settings import make
from embedbench.files.sample_metadata import TEST, TRAIN, VAL
from embedbench.streams.protocol import Protocol
from embedbench.streams.stream import EvalSet, Session, Stream
from embedbench.streams.view import rows_of

from .check_building_blocks import Checks, applies_where, demand
from .protocol_cases import KINDS, SEEDS, Case, build, each_case

PROTOCOL_CHECKS = Checks[type[Protocol]]()


def flat(cls: type[Protocol]) -> Iterator[Case]:
    """Streams with one class per sample; those of label sets have checks of their own."""
    return (case for case in each_case(cls) if not case.stream.spec.multilabel)


def _multilabel(cls: type[Protocol]) -> bool:
    return build(cls, "plain", 0).stream.spec.multilabel


@PROTOCOL_CHECKS.add
def parameters_survive_json(cls: type[Protocol]) -> None:
    """Parameters survive JSON, and the recipe holds all that differ from earlier behaviour.

    A parameter that was added later is left out at the value with the earlier behaviour.
    """
    protocol = cls()
    before = dataclasses.asdict(protocol)
    again = make(cls, json.loads(json.dumps(before)), name=cls.name)
    demand(again == protocol, f"expected {protocol} back from JSON, got {again}")
    recipe, later = json.loads(protocol.recipe()), later_fields(cls)
    same = {name for name, value in later.items() if getattr(protocol, name) == value}
    missing = sorted({*before, "protocol"} - same - recipe.keys())
    demand(not missing, f"expected every parameter in the recipe, {missing} are missing")
    added = sorted(same & recipe.keys())
    demand(
        not added, f"expected no later parameter at its earlier value, {added} are in the recipe"
    )


@PROTOCOL_CHECKS.add
def train_and_test_are_disjoint(cls: type[Protocol]) -> None:
    """Training, validation and test data of a stream share no sample, by id."""
    for case in each_case(cls):
        where, stream = case.where, case.stream
        taught = {i for s in stream.sessions for i in s.ids.tolist()}
        tested = {i for e in stream.eval_sets for i in e.ids.tolist()}
        both = sorted(taught & tested)[:3]
        demand(not both, f"{where}: samples with ids {both} are in training and in test data")
        roles = {
            "training": case.rows(*(s.x for s in stream.sessions)),
            "validation": case.rows(*(s.val_x for s in stream.sessions)),
            "test": case.rows(*(e.x for e in stream.eval_sets)),
        }
        for a, b in itertools.combinations(roles, 2):
            both = np.intersect1d(roles[a], roles[b])[:3].tolist()
            demand(not both, f"{where}: rows {both} are in {a} and in {b} data")


@PROTOCOL_CHECKS.add
def counts_are_exact(cls: type[Protocol]) -> None:
    """Every sample of the file occurs in one session, or every sample in all sessions.

    Protocols may leave training samples out by design; then no training sample occurs twice.
    """
    for case in flat(cls):
        where, stream = case.where, case.stream
        brought = (case.split == VAL).any()
        roles = {
            "training": (
                [v for s in stream.sessions for v in ((s.x,) if brought else (s.x, s.val_x))],
                case.split == TRAIN,
            ),
            "validation": ([s.val_x for s in stream.sessions], case.split == VAL),
            "test": ([e.x for e in stream.eval_sets], case.split == TEST),
        }
        if not brought:
            del roles["validation"]
        for role, (views, mine) in roles.items():
            count = np.bincount(case.rows(*views), minlength=len(case.labels))
            expected = {1 if count.max() == 1 else len(stream.sessions)}
            got = set(count[mine].tolist())
            if not cls.teaches_all and role != "test":
                expected, got = {0, 1}, got | {0, 1}
            demand(
                got == expected, f"{where}: {role} samples come {got} times, expected {expected}"
            )
            strange = np.flatnonzero(count * ~mine)[:3].tolist()
            demand(not strange, f"{where}: rows {strange} are no {role} samples of the file")


@PROTOCOL_CHECKS.add
def samples_are_the_files(cls: type[Protocol]) -> None:
    """Features and labels are those of the file's rows, and every sample has one id."""
    for kind in [] if _multilabel(cls) else KINDS:
        case = build(cls, kind, 0, scale="none")
        values = [file.read() for file in case.files]
        names: dict[int, int] = {}
        parts: list[Session | EvalSet] = [*case.stream.sessions, *case.stream.eval_sets]
        views = [(part.x, part.y, part.ids) for part in parts]
        views += [(s.val_x, s.val_y, case.rows(s.val_x)) for s in case.stream.sessions]
        for view, y, ids in views:
            rows, x = case.rows(view), values[case.file(view)][rows_of(view)]
            x = x if view.columns is None else x[:, view.columns]
            x = np.pad(x, ((0, 0), (0, view.width - x.shape[1])))
            demand(np.array_equal(view.numpy(), x), f"file {kind!r}: the features are others")
            demand(np.array_equal(y, case.labels[rows]), f"file {kind!r}: wrong labels")
            for row, name in zip(rows.tolist(), ids.tolist(), strict=True):
                demand(names.setdefault(name, row) == row, f"id {name} names two samples")
        demand(len({*names.values()}) == len(names), f"file {kind!r}: a sample has two ids")


@PROTOCOL_CHECKS.add
def same_seed_same_stream(cls: type[Protocol]) -> None:
    """The same file, parameters and seed give the same stream with the same digests."""
    for kind in KINDS:
        a, b = build(cls, kind, 3).stream, build(cls, kind, 3).stream
        demand(a.digests == b.digests, f"file {kind!r}: expected the same digests, got others")
        demand(_taught(a) == _taught(b), f"file {kind!r}: expected the same sessions, got others")


@PROTOCOL_CHECKS.add
def train_digest_tells_streams_apart(cls: type[Protocol]) -> None:
    """With another seed the train digest changes if and only if the taught data change."""
    streams = [build(cls, "plain", seed).stream for seed in range(6)]
    for a in streams:
        for b in streams:
            alike, agree = _taught(a) == _taught(b), a.digests["train"] == b.digests["train"]
            demand(
                alike == agree,
                f"streams that teach {'the same' if alike else 'different things'} have "
                f"{'the same' if agree else 'different'} train digests",
            )


def _taught(stream: Stream) -> list[list[Any]]:
    """All training data of a learner, as plain lists."""
    return [
        [a.tolist() for a in (rows_of(s.x), s.y, s.val_ids, s.val_y, s.classes)]
        + [None if s.x.columns is None else s.x.columns.tolist(), s.session_id]
        for s in stream.sessions
    ]


@PROTOCOL_CHECKS.add
def recipe_is_the_parameters(cls: type[Protocol]) -> None:
    """Recipe and features digests depend on the parameters and not on the seed."""
    first, *others = [build(cls, "plain", seed).stream.digests for seed in SEEDS]
    for digests in others:
        for key in ("recipe", "features"):
            demand(digests[key] == first[key], f"expected one {key} digest for all seeds")
    other = build(cls, "plain", 0, val_fraction=0.3).stream.digests["recipe"]
    demand(other != first["recipe"], "expected another recipe digest for another val_fraction")
    other = build(cls, "plain", 0, scale="l2").stream.digests["features"]
    demand(other != first["features"], "expected another features digest for another scale")


@PROTOCOL_CHECKS.add
def one_table_for_all(cls: type[Protocol]) -> None:
    """All views of a file share one table: nothing is copied."""
    for case in each_case(cls):
        shapes, expected = [t.values.shape for t in case.tables], [f.shape for f in case.files]
        demand(
            shapes == expected, f"{case.where}: expected tables of shapes {expected}, got {shapes}"
        )


@PROTOCOL_CHECKS.add
def merged_ignores_the_order(cls: type[Protocol]) -> None:
    """The reference streams are the same for every seed, and together hold every sample once.

    Those of the data so far depend on the order; of them only the last is held to it.
    If the seed draws the training samples, the train digests may differ; no sample occurs twice.
    """
    for kind in [] if _multilabel(cls) else KINDS:
        # unscaled, because a scaling that is fitted to session 0 rightly depends on the order
        cases = [build(cls, kind, seed, scale="none") for seed in SEEDS]
        last = slice(-1, None) if cases[0].stream.so_far else slice(None)
        for references in zip(*(case.stream.references[last] for case in cases), strict=True):
            for key in ("recipe", "eval", "features", *(["train"] if cls.teaches_all else [])):
                digests = {r.digests[key] for r in references}
                demand(
                    len(digests) == 1, f"file {kind!r}: {key} digest of merged() varies with seed"
                )
        case = cases[0]
        streams = case.stream.references[last]
        taught = case.rows(*(v for r in streams for s in r.sessions for v in (s.x, s.val_x)))
        mine = np.flatnonzero(case.split != TEST)
        if not cls.teaches_all:
            mine = np.intersect1d(mine, taught)
        demand(
            np.array_equal(np.sort(taught), mine),
            f"file {kind!r}: merged() must teach every sample once",
        )
        tested = case.rows(*(e.x for r in streams for e in r.eval_sets))
        mine = np.flatnonzero(case.split == TEST)
        demand(np.array_equal(tested, mine), f"file {kind!r}: merged() must test every sample")


@PROTOCOL_CHECKS.add
def validation_is_carved_per_class(cls: type[Protocol]) -> None:
    """Each class of two or more samples gives validation samples, the same for every seed.

    If not all training samples are taught, this holds for the classes of the base session, and for
    others that give any.
    """
    given: dict[int, set[int]] = {}
    for seed in SEEDS:
        case = build(cls, "uneven", seed)
        sessions = case.stream.sessions
        held = {*case.rows(*(s.val_x for s in sessions)).tolist()}
        kept = {*case.rows(*(s.x for s in sessions)).tolist()}
        classes = np.unique(case.labels)
        if not cls.teaches_all:
            classes = np.union1d(sessions[0].classes, case.labels[sorted(held)])
        for c in classes.tolist():
            mine = {*np.flatnonzero((case.labels == c) & (case.split == TRAIN)).tolist()}
            demand(mine & kept, f"class {c} with {len(mine)} samples keeps none for training")
            gives = mine & held
            demand(
                gives or len(mine) < 2,
                f"class {c} gives no validation sample of {len(mine)}",
            )
            demand(
                given.setdefault(c, gives) == gives,
                "expected the same validation data for every seed",
            )
            held -= gives
        demand(not held, f"rows {sorted(held)[:3]} are validation data, of no class that gives any")


# --- sessions: what each teaches, introduces and tests ---


@PROTOCOL_CHECKS.add
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


@PROTOCOL_CHECKS.add
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


@PROTOCOL_CHECKS.add
def masks_admit_the_labels(cls: type[Protocol]) -> None:
    """The class masks of losses and of answers include all labels of the data."""
    for case in flat(cls):
        parts = [(s.loss_classes, {*s.y.tolist(), *s.val_y.tolist()}) for s in case.stream.sessions]
        parts += [(e.candidates, {*e.y.tolist()}) for e in case.stream.eval_sets]
        for mask, labels in parts:
            shut = set() if mask is None else labels - {*np.flatnonzero(mask).tolist()}
            demand(not shut, f"{case.where}: labels {shut} are masked where they are the truth")


@PROTOCOL_CHECKS.add
def session_ids_are_as_announced(cls: type[Protocol]) -> None:
    """Session ids are the sessions' numbers if the spec reveals them, and None otherwise."""
    for case in each_case(cls):
        where, stream = case.where, case.stream
        for i, session in enumerate(stream.sessions):
            expected = i if stream.spec.reveals_session_id else None
            got = session.session_id
            demand(got == expected, f"{where}: expected session id {expected}, got {got}")


@PROTOCOL_CHECKS.add
def small_classes_are_borne(cls: type[Protocol]) -> None:
    """Classes of one to five samples or without test samples leave no session empty."""
    for case in flat(cls):
        where, stream = case.where, case.stream
        for i, (session, test) in enumerate(zip(stream.sessions, stream.eval_sets, strict=True)):
            demand(len(session.x), f"{where}: session {i} has no training sample")
            tested = len(test.x) or not test.classes.any()
            demand(tested, f"{where}: eval set {i} has no sample, its scores are undefined")
        demand(len(stream.eval_sets[0].x), f"{where}: the first session tests nothing")


# --- label sets; these replace the checks for single-label streams ---


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


@PROTOCOL_CHECKS.add
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


@PROTOCOL_CHECKS.add
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


@PROTOCOL_CHECKS.add
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


@PROTOCOL_CHECKS.add
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
