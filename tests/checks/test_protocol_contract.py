"""The checks of protocols and metrics: each seen to catch its fault."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from faults import failures, must_fail

from embedbench.checks import metric_contract
from embedbench.checks.blob_streams import on_table
from embedbench.checks.check_building_blocks import CheckFailed
from embedbench.checks.metric_contract import METRIC_CHECKS
from embedbench.checks.protocol_contract import PROTOCOL_CHECKS
from embedbench.config.fields_added_later import later
from embedbench.files.sample_metadata import TEST, TRAIN, VAL
from embedbench.protocols.fscil import FSCIL
from embedbench.protocols.iirc import IIRC
from embedbench.protocols.incremental_class import IncrementalClass
from embedbench.protocols.mixture import Mixture
from embedbench.protocols.permutation import Permutation
from embedbench.scores.metrics import Reference
from embedbench.scores.score_matrix import ScoreMatrix
from embedbench.streams.feature_tables import Table
from embedbench.streams.stream import Stream
from embedbench.streams.view import table_of

Spoil = Callable[[Stream], Stream]
Change = Callable[[Any], Any]


def _late(**change: Change) -> Spoil:
    """Fields of the sessions from 1 on are computed anew from the session."""

    def spoil(stream: Stream) -> Stream:
        first, *later = stream.sessions
        later = [replace(s, **{k: f(s) for k, f in change.items()}) for s in later]
        return replace(stream, sessions=(first, *later))

    return spoil


def _asked(**change: Change) -> Spoil:
    """Fields of the eval sets are computed anew from the set."""

    def spoil(stream: Stream) -> Stream:
        sets = [replace(e, **{k: f(e) for k, f in change.items()}) for e in stream.eval_sets]
        return replace(stream, eval_sets=tuple(sets))

    return spoil


def _copies(stream: Stream) -> Stream:
    table = Table(table_of(stream.sessions[0].x).values.copy())
    return _late(x=lambda s: on_table(s.x, table))(stream)


def _tests_on_train(stream: Stream) -> Stream:
    pairs = zip(stream.eval_sets, stream.sessions, strict=True)
    return replace(stream, eval_sets=tuple(replace(e, x=s.x, y=s.y, ids=s.ids) for e, s in pairs))


def _last_twice(stream: Stream) -> Stream:
    last = stream.sessions[-1]
    twice = np.append(np.arange(len(last.x)), -1)
    last = replace(last, x=last.x.select(twice), y=last.y[twice], ids=last.ids[twice])
    return replace(stream, sessions=(*stream.sessions[:-1], last))


def _reveals(stream: Stream) -> Stream:
    everything = np.arange(stream.spec.n_classes)
    first = replace(stream.sessions[0], classes=everything)
    later = [replace(s, classes=everything[:0]) for s in stream.sessions[1:]]
    sets = [replace(e, classes=np.ones_like(e.classes)) for e in stream.eval_sets]
    return replace(stream, sessions=(first, *later), eval_sets=tuple(sets))


def _future_label(stream: Stream) -> Stream:
    first = stream.sessions[0]
    y = first.y.copy()
    y[0] = stream.sessions[-1].classes[0]
    return replace(stream, sessions=(replace(first, y=y), *stream.sessions[1:]))


def _asks_what_was_taught(stream: Stream) -> Stream:
    test, _ = stream.eval_sets
    s = stream.whole[0]
    return replace(stream, eval_sets=(test, replace(test, x=s.x, y=s.y, ids=s.ids, split="val")))


def _introduces_too_late(s: Stream) -> Stream:
    first, second, *more = s.sessions
    both = np.concatenate([first.classes, second.classes])
    sessions = (replace(first, classes=both[:0]), replace(second, classes=both), *more)
    return replace(s, sessions=sessions)


def _tests_one_more(stream: Stream) -> Stream:
    s = stream.sessions[0]
    x, y, i = s.x.select(np.arange(1)), s.y[:1], s.ids[:1]
    return _asked(
        x=lambda e: e.x.joined(replace(x, columns=e.x.columns)),
        y=lambda e: np.append(e.y, y),
        ids=lambda e: np.append(e.ids, i),
    )(stream)


def _first_dropped(stream: Stream) -> Stream:
    least, sessions = min(s.ids.min() for s in stream.sessions), []
    for s in stream.sessions:
        kept = np.flatnonzero(s.ids != least)
        sessions.append(replace(s, x=s.x.select(kept), y=s.y[kept], ids=s.ids[kept]))
    return replace(stream, sessions=tuple(sessions))


def _with_digests(stream: Stream, **digests: str) -> Stream:
    vars(stream)["digests"] = stream.digests | digests
    return stream


class _Dice(IncrementalClass):
    def build(self, files: Any, *, seed: int) -> Stream:
        return super().build(files, seed=int(np.random.SeedSequence().generate_state(1)[0]))


class _QuietDice(_Dice):
    def build(self, files: Any, *, seed: int) -> Stream:
        return _with_digests(super().build(files, seed=seed), train="0", eval="0")


class _RestlessDigest(IncrementalClass):
    def build(self, files: Any, *, seed: int) -> Stream:
        stream = super().build(files, seed=0)
        return _with_digests(stream, train=str(np.random.SeedSequence().entropy))


class _SeededValidation(IncrementalClass):
    def build(self, files: Any, *, seed: int) -> Stream:
        self.val_fraction = 0.1 + 0.1 * seed
        return super().build(files, seed=seed)


class _HoldsOut(IncrementalClass):  # where it says that nothing is held out
    def build(self, files: Any, *, seed: int) -> Stream:
        asked = self.validation
        self.validation = "train"
        stream = super().build(files, seed=seed)
        self.validation = asked
        return stream


class _ForgetsParameters(IncrementalClass):
    def recipe(self) -> str:
        return '{"protocol": "incremental-class"}'


@dataclass(kw_only=True)
class _Grows(IncrementalClass):  # a parameter that is another one whenever it is read
    extra: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.extra += 1


@dataclass(kw_only=True)
class _Later(IncrementalClass):  # honest, with a parameter that came later
    overlap: int = later(0, earlier=0)


class _NamesWhatCameLater(_Later):  # changes the recipe of runs that were finished without it
    def recipe(self) -> str:
        return json.dumps({**json.loads(super().recipe()), "overlap": self.overlap})


# blurry, and promises that labels reveal nothing of the future
_Promises = type("_Promises", (Mixture,), {"reveals_no_future": True})


def _spoiled(base: type[Any], spoil: Spoil) -> type[Any]:
    @dataclass(kw_only=True)
    class Spoiled(base):  # type: ignore[misc]  # the base varies
        def build(self, files: Any, *, seed: int) -> Stream:
            return spoil(super().build(files, seed=seed))

    return Spoiled


def _late_ids(stream: Stream) -> Stream:
    ids = stream.sessions[0].ids
    return _asked(ids=lambda e: np.resize(ids, len(e.ids)))(stream)


def _digest(name: str) -> Spoil:
    return lambda stream: _with_digests(stream, **{name: "always the same"})


JSON, APART = "parameters survive json", "train and test are disjoint"
COUNTS, FILES = "counts are exact", "samples are the files"
SAME, TOLD = "same seed same stream", "train digest tells streams apart"
RECIPE, MERGED = "recipe is the parameters", "merged ignores the order"
FUTURE, NEW = "labels never reveal the future", "labels are introduced"
SMALL, TABLE, IDS = "small classes are borne", "one table for all", "session ids are as announced"
ANOTHER = _late(x=lambda s: on_table(s.x, Table(table_of(s.x).values + 1)))
DROPS = _late(
    x=lambda s: s.x.select(np.arange(1, len(s.x))), y=lambda s: s.y[1:], ids=lambda s: s.ids[1:]
)
FEWER = _late(classes=lambda s: np.arange(1))
MASKS = _late(loss_classes=lambda s: np.arange(6) > 0)
EMPTY: dict[str, Change] = {"x": lambda e: e.x.select(np.arange(0)), "y": lambda e: np.arange(0)}
SHUT: dict[str, Change] = {"classes": lambda e: e.classes & False}
UNTESTED = _asked(**EMPTY, **SHUT)
OPEN = _asked(classes=lambda e: np.ones_like(e.classes))
UNPAIRED = dict.fromkeys((FUTURE, NEW, SMALL), "zip() argument 2 is shorter")
IC, P = IncrementalClass, Permutation
# A good protocol, what is done to its streams, and what is said by the checks that catch it.
FAULTS: list[tuple[type[Any], Spoil | None, dict[str, str]]] = [
    (_Grows, None, {JSON: "back from JSON"}),
    (_NamesWhatCameLater, None, {JSON: "earlier values are in the recipe: ['overlap']"}),
    (_HoldsOut, None, {COUNTS: "there is validation data under validation=none"}),
    (_ForgetsParameters, None, {JSON: "['base', 'evaluate_every', 'ob", RECIPE: "another recipe"}),
    (IC, _tests_on_train, {APART: "[0, 1, 2] are in test", COUNTS: "{0} times", MERGED: "every"}),
    (FSCIL, _tests_on_train, {APART: "[0, 2, 3] are", COUNTS: "test samples", MERGED: "varies"}),
    (IIRC, _asks_what_was_taught, {APART: "rows [7, 13, 15] are in val and in training data"}),
    (IC, _late_ids, {APART: "ids [0, 6, 8] are", FILES: "id 0 names two samples", MERGED: "eval"}),
    (P, DROPS, {COUNTS: "training samples come {1, 10} times, expected {10}"}),
    (IC, DROPS, {COUNTS: "{0, 1}", MERGED: "train", FUTURE: "set() anew", SMALL: "2 has no train"}),
    (FSCIL, _last_twice, {COUNTS: "{0, 1, 2} times, expected {0, 1}", MERGED: "must teach every"}),
    (P, _tests_one_more, {APART: "[0]", COUNTS: "[0] are no test samples", MERGED: "test every"}),
    (IC, _first_dropped, {COUNTS: "{0, 1} times, expected {1}", MERGED: "must teach every"}),
    (P, _late(y=lambda s: np.roll(s.y, 1)), {FILES: "wrong labels"}),
    (P, _late(val_y=lambda s: 0 * s.val_y - 1), {FILES: "wrong", FUTURE: "{-1}", NEW: "{-1}"}),
    (IC, ANOTHER, {FILES: "the features are others", TABLE: "[(84, 6)], got", MERGED: "one table"}),
    (P, _late(ids=lambda s: s.ids + 1000), {FILES: "a sample has two ids", MERGED: "raised"}),
    (P, _copies, {TABLE: "got [(84, 6), (84, 6)]", MERGED: "one table only"}),
    (_Dice, None, {SAME: "expected the same digests"}),
    (_QuietDice, None, {SAME: "expected the same sessions", TOLD: "teach different things"}),
    (_RestlessDigest, None, {SAME: "expected the same digests", TOLD: "that teach the same"}),
    (IC, _digest("train"), {TOLD: "teach different things"}),
    (P, _digest("recipe"), {RECIPE: "another recipe digest for another val_fraction"}),
    (_SeededValidation, None, {RECIPE: "one recipe digest for all", MERGED: "train digest of"}),
    (IC, _reveals, {FUTURE: "session 0 introduces {0, 1, 2, 3, 4, 5}"}),
    (_Promises, None, {FUTURE: "setting=si-blurry: session 4 has labels {1} of other classes"}),
    (IC, _future_label, {FILES: "wrong", MERGED: "train", FUTURE: "{1, 2, 3, 5}", NEW: "{1}, not"}),
    (IC, OPEN, {FUTURE: "eval set 0 has classes {0, 1, 4} of the future"}),
    (Mixture, _introduces_too_late, {NEW: "setting=i-blurry: session 0 has labels {3}, not"}),
    (P, _asked(**SHUT), {FUTURE: "of other", NEW: "eval set 0 has labels {0, 1, 2, 3, 4, 5}"}),
    (P, FEWER, {FUTURE: "1 introduces {0}", NEW: "[0, 1, 2, 3, 4, 5] once, got [0, 0"}),
    (P, MASKS, {NEW: "labels {0} are masked where they are the truth"}),
    (P, _asked(candidates=SHUT["classes"]), {NEW: "{0, 1, 2, 3, 4, 5} are masked"}),
    (P, lambda s: replace(s, eval_sets=s.eval_sets[:-1]), UNPAIRED | {COUNTS: "{9}"}),
    (IC, _late(session_id=lambda _: 1), {IDS: "expected session id None, got 1"}),
    (IC, _asked(**EMPTY), {COUNTS: "{4}", FILES: "", MERGED: "", SMALL: "0 has no sample"}),
    (IC, UNTESTED, {COUNTS: "", FILES: "", MERGED: "", FUTURE: "", SMALL: "first session tests"}),
]


@pytest.mark.parametrize("turn", range(len(FAULTS)))
def test_a_fault_is_seen(turn: int) -> None:
    base, spoil, says = FAULTS[turn]
    subject = _spoiled(base, spoil) if spoil else base
    said = must_fail(PROTOCOL_CHECKS, subject, {*says}, turn)
    assert [words for name, words in says.items() if words not in said[name]] == []


@pytest.mark.parametrize("few", range(6))  # training samples; 0: no test sample
def test_classes_of_few_samples_are_tried(few: int) -> None:
    class Shy(IncrementalClass):
        def build(self, files: Any, *, seed: int) -> Stream:
            (file,) = files
            sizes = np.bincount(file.labels[file.split == (TRAIN if few else TEST)], minlength=6)
            assert few not in sizes or VAL in file.split, "few samples"
            return super().build(files, seed=seed)

    (check,) = (c for c in PROTOCOL_CHECKS if c.__name__ == SMALL.replace(" ", "_"))
    assert "few samples" in failures([check], Shy)[SMALL]


def test_a_later_parameter_passes_and_every_check_catches_something() -> None:
    assert failures(PROTOCOL_CHECKS, _Later) == {}
    caught = {name.replace(" ", "_") for *_, says in FAULTS for name in says}
    assert caught == {c.__name__ for c in PROTOCOL_CHECKS}


def _drop(scores: ScoreMatrix, reference: Reference) -> float:
    return float(scores.R[0, 0] - scores.R[-1, 0]) if len(scores.R) > 1 else float("nan")


def _writes(scores: ScoreMatrix, reference: Reference) -> float:
    drop = _drop(scores, reference)
    scores.values[0, 0] = 0.5
    return drop


@pytest.mark.parametrize("value", [-1.0, 1.0, -1.01, 1.01])
def test_a_fraction_may_be_one(value: float) -> None:
    with pytest.raises(CheckFailed) if abs(value) > 1 else nullcontext():
        metric_contract.is_a_fraction(lambda *_: value)


DOC = "Drop of the first score.\n\n**Source**: this test."
SOURCE, FRACTION = "says where it comes from", "is a fraction"
ONE, UNDEFINED = "one session is no silent zero", "undefined scores are nan"


@pytest.mark.parametrize(
    ("metric", "doc", "caught"),
    [
        (_drop, DOC, None),
        (_drop, DOC.replace(".\n", "\n"), SOURCE),
        (_drop, DOC.partition("\n")[0], SOURCE),
        (lambda scores, _: 100 * _drop(scores, _), DOC, FRACTION),
        (lambda scores, _: np.float32(_drop(scores, _)), DOC, FRACTION),
        (lambda scores, _: float(scores.R[0, 0] - scores.R[-1, 0]), DOC, ONE),
        (lambda scores, _: float(np.mean(scores.R[1:, 0])), DOC, ONE),  # a warning: of nothing
        (lambda scores, _: float(np.nansum(scores.R) / scores.R.size), DOC, UNDEFINED),
        (lambda scores, r: float(scores.R[-1, 0]) if r.ideal == 1 else 0.0, DOC, UNDEFINED),
        (_writes, DOC, "scores stay untouched"),
    ],
)
def test_a_faulty_metric_is_caught(metric: Any, doc: str, caught: str | None) -> None:
    metric.__doc__ = doc
    said = failures(METRIC_CHECKS, metric)
    assert (caught in said) if caught else not said
