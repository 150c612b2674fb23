"""The checks for protocols: streams of small files are compared with the files.

Of label sets only digests, parameters and the parts of the data are checked.
"""

import dataclasses
import functools
import itertools
import json
from collections.abc import Callable
from typing import Any

import numpy as np

from embedbench.array_types import Array, Ints
from embedbench.config.fields_added_later import later_fields
from embedbench.config.make_from_settings import make
from embedbench.files.sample_metadata import TEST, TRAIN, VAL
from embedbench.streams.protocol import Protocol
from embedbench.streams.stream import EvalSet, Session, Stream
from embedbench.streams.view import BLACK, rows_of

from .check_building_blocks import CheckFailed, Checks, applies_where, demand
from .protocol_cases import KINDS, SEEDS, Case, all_cases, build

ProtocolCheck = Callable[[type[Protocol]], None]
PROTOCOL_CHECKS = Checks[type[Protocol]]()


def stream_check(check: Callable[[Case], None]) -> ProtocolCheck:
    """Make a check of one stream a check of all streams of a protocol."""

    @functools.wraps(check)
    def check_streams(cls: type[Protocol]) -> None:
        for case in all_cases(cls):
            try:
                check(case)
            except CheckFailed as failure:
                raise CheckFailed(f"{case.where}: {failure}") from None

    return PROTOCOL_CHECKS.add(check_streams)


def _labels(*arrays: Array) -> set[int]:
    return {*np.concatenate(arrays).tolist()}


@PROTOCOL_CHECKS.add
def parameters_survive_json(cls: type[Protocol]) -> None:
    """Parameters survive JSON, and the recipe holds all that differ from earlier behaviour.

    A parameter that was added later is left out at the value with the earlier behaviour.
    """
    protocol = cls()
    before = dataclasses.asdict(protocol)
    again = make(cls, json.loads(json.dumps(before)), name=cls.name)
    demand(again == protocol, f"expected {protocol} back from JSON, got {again}")
    recipe = json.loads(protocol.recipe())
    later = later_fields(cls)
    same = {name for name, value in later.items() if getattr(protocol, name) == value}
    missing = sorted({*before, "protocol"} - same - recipe.keys())
    demand(not missing, f"expected every parameter in the recipe, {missing} are missing")
    added = sorted(same & recipe.keys())
    demand(not added, f"later parameters at their earlier values are in the recipe: {added}")


@stream_check
def train_and_test_are_disjoint(case: Case) -> None:
    """Training, validation and test data share no sample, test data of both kinds neither.

    The first and the last share no id either.
    """
    stream = case.stream
    sessions = [*stream.sessions, *stream.whole]
    roles: dict[str, Ints] = {}
    for split in dict.fromkeys(test.split for test in stream.eval_sets):
        roles[split] = case.rows(*[test.x for test in stream.eval_sets if test.split == split])
    roles["training"] = case.rows(*[session.x for session in sessions])
    roles["validation"] = case.rows(*[session.val_x for session in sessions])
    for one, other in itertools.combinations(roles, 2):
        both = np.intersect1d(roles[one], roles[other])[:3].tolist()
        demand(not both, f"rows {both} are in {one} and in {other} data")
    taught = set[int]().union(*[session.ids.tolist() for session in stream.sessions])
    tested = set[int]().union(*[test.ids.tolist() for test in stream.eval_sets])
    both = sorted(taught & tested)[:3]
    demand(not both, f"samples with ids {both} are in training and in test data")


@stream_check
def counts_are_exact(case: Case) -> None:
    """Every sample of the file occurs in one session, or every sample in all sessions.

    Protocols may leave training samples out by design; then no training sample occurs twice.
    """
    stream = case.stream
    all_taught = case.protocol.teaches_all
    applies_where(not stream.spec.multilabel)
    held_out = case.validation != "none"
    brought = held_out and (case.split == VAL).any()
    val = [s.val_x for s in stream.sessions]
    none_held = held_out or not any(map(len, val))
    demand(none_held, "there is validation data under validation=none")
    roles = {
        "training": ([s.x for s in stream.sessions] + ([] if brought else val), TRAIN),
        **({"validation": (val, VAL)} if brought else {}),
        "test": ([e.x for e in stream.eval_sets], TEST),
    }
    for role, (views, split) in roles.items():
        mine = case.split == split
        if role == "training" and not held_out:
            mine = mine | (case.split == VAL)
        count = np.bincount(case.rows(*views), minlength=len(case.labels))
        expected = {1 if count.max() == 1 else len(stream.sessions)}
        got = set(count[mine].tolist())
        if not all_taught and role != "test":
            expected = {0, 1}
            got = got | {0, 1}
        demand(got == expected, f"{role} samples come {got} times, expected {expected}")
        strange = np.flatnonzero(count * ~mine)[:3].tolist()
        demand(not strange, f"rows {strange} are no {role} samples of the file")


@PROTOCOL_CHECKS.add
def samples_are_the_files(cls: type[Protocol]) -> None:
    """Features and labels are those of the file's rows, and every sample has one id."""
    for kind in KINDS:
        case = build(cls, kind, 0, scale="none")
        applies_where(not case.stream.spec.multilabel)
        values = [file.read() for file in case.files]
        names: dict[int, int] = {}
        parts: list[Session | EvalSet] = [*case.stream.sessions, *case.stream.eval_sets]
        views = [(part.x, part.y, part.ids) for part in parts]
        views += [(s.val_x, s.val_y, case.rows(s.val_x)) for s in case.stream.sessions]
        for view, y, ids in views:
            rows = case.rows(view)
            x = values[case.file(view)][rows_of(view)]
            if view.columns is not None:
                x = x[:, view.columns]  # a copy, in which -1 took the last column
                x[:, view.columns == BLACK] = 0
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
        a = build(cls, kind, 3).stream
        b = build(cls, kind, 3).stream
        demand(a.digests == b.digests, f"file {kind!r}: expected the same digests, got others")
        demand(_taught(a) == _taught(b), f"file {kind!r}: expected the same sessions, got others")


@PROTOCOL_CHECKS.add
def train_digest_tells_streams_apart(cls: type[Protocol]) -> None:
    """With another seed the train digest changes if and only if the taught data change."""
    streams = [build(cls, "plain", seed).stream for seed in range(6)]
    for a, b in itertools.combinations(streams, 2):
        alike = _taught(a) == _taught(b)
        agree = a.digests["train"] == b.digests["train"]
        demand(alike or not agree, "streams that teach different things have the same train digest")
        demand(agree or not alike, "streams that teach the same have different train digests")


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
    for key, parameter, other in (("recipe", "val_fraction", 0.3), ("features", "scale", "l2")):
        same = all(digests[key] == first[key] for digests in others)
        demand(same, f"expected one {key} digest for all seeds")
        changed = build(cls, "plain", 0, **{parameter: other}).stream.digests[key]
        demand(changed != first[key], f"expected another {key} digest for another {parameter}")


@stream_check
def one_table_for_all(case: Case) -> None:
    """All views of a file share one table: nothing is copied."""
    shapes = [t.values.shape for t in case.tables]
    expected = [f.shape for f in case.files]
    demand(shapes == expected, f"expected tables of shapes {expected}, got {shapes}")


@PROTOCOL_CHECKS.add
def merged_ignores_the_order(cls: type[Protocol]) -> None:
    """The reference streams are the same for every seed, and together hold every sample once.

    Those of the data so far depend on the order; of them only the last is held to it.
    If the seed draws the training samples, the train digests may differ; no sample occurs twice.
    """
    for kind in KINDS:
        # unscaled, because a scaling that is fitted to session 0 rightly depends on the order
        cases = [build(cls, kind, seed, scale="none") for seed in SEEDS]
        applies_where(not cases[0].stream.spec.multilabel)
        last = slice(-1, None) if cases[0].stream.so_far else slice(None)
        for references in zip(*(case.stream.references[last] for case in cases), strict=True):
            for key in ("recipe", "eval", "features", *(["train"] if cls.teaches_all else [])):
                one = len({r.digests[key] for r in references}) == 1
                demand(one, f"file {kind!r}: {key} digest of merged() varies with seed")
        case = cases[0]
        streams = case.stream.references[last]
        sessions = list(itertools.chain(*[stream.sessions for stream in streams]))
        taught = case.rows(*[s.x for s in sessions], *[s.val_x for s in sessions])
        mine = np.flatnonzero(np.isin(case.split, (TRAIN, VAL)))
        if not cls.teaches_all:
            mine = np.intersect1d(mine, taught)
        once = np.array_equal(np.sort(taught), mine)
        demand(once, f"file {kind!r}: merged() must teach every sample once")
        tests = itertools.chain(*[stream.eval_sets for stream in streams])
        tested = case.rows(*[test.x for test in tests])
        every = np.array_equal(tested, np.flatnonzero(case.split == TEST))
        demand(every, f"file {kind!r}: merged() must test every sample")


# --- sessions: what each teaches, introduces and tests ---


@stream_check
def labels_never_reveal_the_future(case: Case) -> None:
    """A session introduces exactly the new classes it teaches, and has only its own labels.

    A protocol that does not promise it says so by `reveals_no_future`.
    """
    applies_where(case.protocol.reveals_no_future and not case.stream.spec.multilabel)
    seen: set[int] = set()
    for i, (session, test) in enumerate(case.pairs):
        new = _labels(session.y) - seen
        got = _labels(session.classes)
        demand(new == got, f"session {i} introduces {got}, and teaches {new} anew")
        seen |= new
        classes = _labels(np.flatnonzero(test.classes))
        demand(classes <= seen, f"eval set {i} has classes {classes - seen} of the future")
        strange = _labels(session.y, session.val_y, test.y) - classes
        demand(not strange, f"session {i} has labels {strange} of other classes")


@stream_check
def labels_are_introduced(case: Case) -> None:
    """Every class is introduced once, in the first session with its label or before.

    The class masks of losses and of answers include all labels of the data.
    """
    applies_where(not case.stream.spec.multilabel)
    seen: list[int] = []
    for i, (session, test) in enumerate(case.pairs):
        seen += session.classes.tolist()
        labels = _labels(session.y, session.val_y, test.y) - {*seen}
        demand(not labels, f"session {i} has labels {labels}, not introduced so far")
        others = _labels(test.y) - _labels(np.flatnonzero(test.classes))
        demand(not others, f"eval set {i} has labels {others} of other classes")
    expected = list(range(sum(f.samples.n_leaves for f in case.files)))
    got = sorted(seen)
    demand(got == expected, f"expected each of the classes {expected} once, got {got}")
    parts = [(s.loss_classes, _labels(s.y, s.val_y)) for s in case.stream.sessions]
    parts += [(e.candidates, _labels(e.y)) for e in case.stream.eval_sets]
    for mask, labels in parts:
        shut = set() if mask is None else labels - _labels(np.flatnonzero(mask))
        demand(not shut, f"labels {shut} are masked where they are the truth")


@stream_check
def session_ids_are_as_announced(case: Case) -> None:
    """Session ids are the sessions' numbers if the spec reveals them, and None otherwise."""
    for i, session in enumerate(case.stream.sessions):
        expected = i if case.stream.spec.reveals_session_id else None
        got = session.session_id
        demand(got == expected, f"expected session id {expected}, got {got}")


@stream_check
def small_classes_are_borne(case: Case) -> None:
    """Classes of one to five samples or without test samples leave no session empty."""
    applies_where(not case.stream.spec.multilabel)
    for i, (session, test) in enumerate(case.pairs):
        demand(len(session.x), f"session {i} has no training sample")
        tested = len(test.x) or not test.classes.any()
        demand(tested, f"eval set {i} has no sample, its scores are undefined")
    demand(len(case.stream.eval_sets[0].x), "the first session tests nothing")
