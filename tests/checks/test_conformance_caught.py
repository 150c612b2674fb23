"""The checks of protocols and metrics: each seen to catch its fault."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from faults import failures, must_fail, name_of

from embedbench.checks import metric_contract
from embedbench.checks.blob_streams import on_table
from embedbench.checks.check_building_blocks import CheckFailed
from embedbench.checks.metric_contract import METRIC_CHECKS
from embedbench.checks.protocol_contract import PROTOCOL_CHECKS
from embedbench.config.fields_added_later import later
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

# --- protocols: what is done to the stream of a good one, and the checks that must catch it ---


def _sessions(stream: Stream, **change: Callable[[Any], Any]) -> Stream:
    """The stream with fields of its sessions from 1 on computed anew from the session."""
    later = [replace(s, **{k: f(s) for k, f in change.items()}) for s in stream.sessions[1:]]
    return replace(stream, sessions=(stream.sessions[0], *later))


def _copied(stream: Stream) -> Stream:
    table = Table(table_of(stream.sessions[0].x).values.copy())
    return _sessions(stream, x=lambda s: on_table(s.x, table))


def _tests_on_train(stream: Stream) -> Stream:
    sets = [
        replace(e, x=s.x, y=s.y, ids=s.ids)
        for e, s in zip(stream.eval_sets, stream.sessions, strict=True)
    ]
    return replace(stream, eval_sets=tuple(sets))


def _last_twice(stream: Stream) -> Stream:
    last = stream.sessions[-1]
    twice = np.append(np.arange(len(last.x)), -1)
    last = replace(last, x=last.x.select(twice), y=last.y[twice], ids=last.ids[twice])
    return replace(stream, sessions=(*stream.sessions[:-1], last))


def _last_dropped(stream: Stream) -> Stream:
    return _sessions(
        stream,
        x=lambda s: s.x.select(np.arange(1, len(s.x))),
        y=lambda s: s.y[1:],
        ids=lambda s: s.ids[1:],
    )


def _shifted(stream: Stream) -> Stream:
    """Every label is that of the sample before."""
    return _sessions(stream, y=lambda s: np.roll(s.y, 1))


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
    """The first session introduces nothing, the second all that both do."""
    first, second, *more = s.sessions
    both = np.concatenate([first.classes, second.classes])
    sessions = (replace(first, classes=both[:0]), replace(second, classes=both), *more)
    return replace(s, sessions=sessions)


@dataclass(frozen=True)
class Fixed(Stream):
    """A stream whose digests have a hole."""

    hole: str = ""

    @property
    def digests(self) -> dict[str, str]:  # type: ignore[override]  # cached in the base
        whole = Stream(**{k: v for k, v in vars(self).items() if k in Stream.__dataclass_fields__})
        return whole.digests | {self.hole: "always the same"}


def _without(hole: str) -> Callable[[Stream], Stream]:
    names = Stream.__dataclass_fields__
    return lambda s: Fixed(**{k: v for k, v in vars(s).items() if k in names}, hole=hole)


SPOILED: dict[str, tuple[type[Any], Callable[[Stream], Stream], set[str]]] = {
    "tests on train": (
        IncrementalClass,
        _tests_on_train,
        {"train and test are disjoint", "counts are exact", "merged ignores the order"},
    ),
    "asks what was taught": (
        IIRC,
        _asks_what_was_taught,
        {"train and test are disjoint"},
    ),
    "drops a sample": (Permutation, _last_dropped, {"counts are exact"}),
    "drops samples": (
        IncrementalClass,
        _last_dropped,
        {
            "counts are exact",
            "merged ignores the order",
            "small classes are borne",
            "labels never reveal the future",
        },
    ),
    "shows a shot twice": (FSCIL, _last_twice, {"counts are exact", "merged ignores the order"}),
    "tests on few-shot train": (
        FSCIL,
        _tests_on_train,
        {"train and test are disjoint", "counts are exact", "merged ignores the order"},
    ),
    "shifts labels": (Permutation, _shifted, {"samples are the files"}),
    "copies the table": (Permutation, _copied, {"one table for all", "merged ignores the order"}),
    "reveals all classes": (IncrementalClass, _reveals, {"labels never reveal the future"}),
    "teaches a future label": (
        IncrementalClass,
        _future_label,
        {
            "samples are the files",
            "labels never reveal the future",
            "labels are introduced",
            "merged ignores the order",
        },
    ),
    "introduces too late": (Mixture, _introduces_too_late, {"labels are introduced"}),
    "hands out a hidden id": (
        IncrementalClass,
        lambda s: _sessions(s, session_id=lambda _: 1),
        {"session ids are as announced"},
    ),
    "masks the truth": (
        Permutation,
        lambda s: _sessions(s, loss_classes=lambda _: np.arange(s.spec.n_classes) > 0),
        {"labels are introduced"},
    ),
    "no train digest": (
        IncrementalClass,
        _without("train"),
        {"train digest tells streams apart"},
    ),
    "no recipe digest": (Permutation, _without("recipe"), {"recipe is the parameters"}),
}


def _spoiled(base: type[Any], spoil: Callable[[Stream], Stream]) -> type[Any]:
    @dataclass(kw_only=True)
    class Spoiled(base):  # type: ignore[misc]  # the base varies
        def build(self, files: Any, *, seed: int) -> Stream:
            return spoil(super().build(files, seed=seed))

    return Spoiled


@pytest.mark.parametrize("case", SPOILED)
def test_a_spoiled_stream_is_caught_by_its_checks(case: str) -> None:
    base, spoil, checks = SPOILED[case]
    must_fail(PROTOCOL_CHECKS, _spoiled(base, spoil), checks)


class _Dice(IncrementalClass):
    """Another stream every time."""

    def build(self, files: Any, *, seed: int) -> Stream:
        return super().build(files, seed=int(np.random.SeedSequence().generate_state(1)[0]))


class _SeededValidation(IncrementalClass):
    """Validation data move to training with the seed."""

    def build(self, files: Any, *, seed: int) -> Stream:
        self.val_fraction = 0.1 + 0.2 * seed
        return super().build(files, seed=seed)


class _ForgetsParameters(IncrementalClass):
    def recipe(self) -> str:
        return '{"protocol": "incremental-class"}'


@dataclass(kw_only=True)
class _Later(IncrementalClass):
    """An honest protocol with a parameter that came later."""

    overlap: int = later(0, earlier=0)


class _Promises(Mixture):
    """A blurry stream that promises that its labels reveal nothing of the future."""

    reveals_no_future = True


class _NamesWhatCameLater(_Later):
    """Its later parameter changes the recipe of runs that were finished without it."""

    def recipe(self) -> str:
        return json.dumps({**json.loads(super().recipe()), "overlap": self.overlap})


def test_a_later_parameter_passes_the_checks() -> None:
    assert failures(PROTOCOL_CHECKS, _Later) == {}


FAULTY: list[tuple[type[Any], set[str]]] = [
    (_Dice, {"same seed same stream"}),
    (_SeededValidation, {"recipe is the parameters"}),
    (_Promises, {"labels never reveal the future"}),
    (_NamesWhatCameLater, {"parameters survive json"}),
    (_ForgetsParameters, {"parameters survive json", "recipe is the parameters"}),
]


@pytest.mark.parametrize(("cls", "checks"), FAULTY, ids=[name_of(f[0]) for f in FAULTY])
def test_a_faulty_protocol_is_caught_by_its_checks(cls: type[Any], checks: set[str]) -> None:
    mine = [c for c in PROTOCOL_CHECKS if c.__name__.replace("_", " ") in checks]
    assert set(failures(mine, cls)) == checks


def _eval_sets(stream: Stream, **change: Callable[[Any], Any]) -> Stream:
    """The stream with fields of its eval sets computed anew from the set."""
    sets = [replace(e, **{k: f(e) for k, f in change.items()}) for e in stream.eval_sets]
    return replace(stream, eval_sets=tuple(sets))


def _tests_one_more(stream: Stream) -> Stream:
    """Every eval set has the first training sample, too."""
    s = stream.sessions[0]
    x, y, i = s.x.select(np.arange(1)), s.y[:1], s.ids[:1]
    return _eval_sets(
        stream,
        x=lambda e: e.x.joined(replace(x, columns=e.x.columns)),
        y=lambda e: np.append(e.y, y),
        ids=lambda e: np.append(e.ids, i),
    )


def _first_dropped(stream: Stream) -> Stream:
    """The sample with the lowest id is taught nowhere."""
    least, sessions = min(s.ids.min() for s in stream.sessions), []
    for s in stream.sessions:
        kept = np.flatnonzero(s.ids != least)
        sessions.append(replace(s, x=s.x.select(kept), y=s.y[kept], ids=s.ids[kept]))
    return replace(stream, sessions=tuple(sessions))


def _with_digests(stream: Stream, **digests: str) -> Stream:
    vars(stream)["digests"] = stream.digests | digests
    return stream


class _QuietDice(_Dice):
    """Its digests say nothing of it."""

    def build(self, files: Any, *, seed: int) -> Stream:
        stream = super().build(files, seed=seed)
        return _with_digests(stream, train="0", eval="0")


class _RestlessDigest(IncrementalClass):
    """One stream with another digest each time."""

    def build(self, files: Any, *, seed: int) -> Stream:
        stream = super().build(files, seed=0)
        return _with_digests(stream, train=str(np.random.SeedSequence().entropy))


@dataclass(kw_only=True)
class _Grows(IncrementalClass):
    """A parameter that is another one whenever it is read."""

    extra: int = 0

    def __post_init__(self) -> None:
        self.extra += 1


def _late(**change: Callable[[Any], Any]) -> Callable[[Stream], Stream]:
    return lambda stream: _sessions(stream, **change)


def _asked(**change: Callable[[Any], Any]) -> Callable[[Stream], Stream]:
    return lambda stream: _eval_sets(stream, **change)


NONE = np.arange(0)
DEMANDS: list[tuple[str, type[Any], Any, str]] = [
    ("parameters survive json", _Grows, None, "back from JSON"),
    (
        "train and test are disjoint",
        IncrementalClass,
        lambda s: _eval_sets(_tests_on_train(s), ids=lambda e: e.ids + 10**6),
        "rows .* training data",
    ),
    (
        "train and test are disjoint",
        IncrementalClass,
        lambda s: _eval_sets(s, ids=lambda e: np.resize(s.sessions[0].ids, len(e.ids))),
        "samples with ids",
    ),
    ("counts are exact", Permutation, _tests_one_more, "no test samples"),
    (
        "samples are the files",
        IncrementalClass,
        _late(x=lambda t: on_table(t.x, Table(table_of(t.x).values + 1))),
        "features are others",
    ),
    ("samples are the files", IncrementalClass, _late(ids=lambda t: 0 * t.ids), "two samples"),
    ("samples are the files", Permutation, _late(ids=lambda t: t.ids + 1000), "two ids"),
    ("same seed same stream", _QuietDice, None, "same sessions"),
    ("same seed same stream", _RestlessDigest, None, "same digests"),
    ("train digest tells streams apart", _RestlessDigest, None, "teach the same"),
    ("recipe is the parameters", _SeededValidation, None, "one recipe digest"),
    ("merged ignores the order", _SeededValidation, None, "varies with seed"),
    ("merged ignores the order", IncrementalClass, _tests_one_more, "must test every"),
    ("merged ignores the order", IncrementalClass, _first_dropped, "must teach every"),
    (
        "labels never reveal the future",
        IncrementalClass,
        _late(classes=lambda t: NONE),
        "introduces set",
    ),
    (
        "labels never reveal the future",
        IncrementalClass,
        _asked(classes=lambda e: np.ones_like(e.classes)),
        "of the future",
    ),
    (
        "labels never reveal the future",
        IncrementalClass,
        _late(val_y=lambda t: 0 * t.val_y - 1),
        "labels .* of other",
    ),
    ("labels are introduced", Permutation, _asked(classes=lambda e: e.classes & False), "of other"),
    ("labels are introduced", Permutation, _late(classes=lambda t: np.arange(1)), "once, got"),
    (
        "labels are introduced",
        Permutation,
        _asked(candidates=lambda e: e.classes & False),
        "masked",
    ),
    ("small classes are borne", Permutation, _late(x=lambda t: t.x.select(NONE)), "no training"),
    (
        "small classes are borne",
        IncrementalClass,
        _asked(x=lambda e: e.x.select(NONE), y=lambda e: NONE),
        "has no sample",
    ),
    (
        "small classes are borne",
        IncrementalClass,
        _asked(x=lambda e: e.x.select(NONE), y=lambda e: NONE, classes=lambda e: e.classes & False),
        "tests nothing",
    ),
]


@pytest.mark.parametrize(("name", "base", "spoil", "says"), DEMANDS)
def test_each_demand_catches_its_fault(name: str, base: type[Any], spoil: Any, says: str) -> None:
    (check,) = [c for c in PROTOCOL_CHECKS if c.__name__ == name.replace(" ", "_")]
    with pytest.raises(CheckFailed, match=says):
        check(_spoiled(base, spoil) if spoil else base)


def test_every_check_of_protocols_catches_something() -> None:
    caught = {name for case in (*SPOILED.values(), *FAULTY) for name in case[-1]}
    assert caught == {c.__name__.replace("_", " ") for c in PROTOCOL_CHECKS}


# --- metrics: each fault and the checks that must catch it ---


def good_metric(scores: ScoreMatrix, reference: Reference) -> float:
    """Drop of the first score.

    R[0, 0] - R[-1, 0]. **Source**: this test.
    """
    if len(scores.R) < 2:
        return float("nan")
    return float(scores.R[0, 0] - scores.R[-1, 0])


def without_source(scores: ScoreMatrix, reference: Reference) -> float:
    """Drop of the first score."""
    return good_metric(scores, reference)


def no_sentence(scores: ScoreMatrix, reference: Reference) -> float:
    """Drop

    **Source**: this test.
    """
    return good_metric(scores, reference)


def in_percent(scores: ScoreMatrix, reference: Reference) -> float:
    return 100 * good_metric(scores, reference)


def as_numpy(scores: ScoreMatrix, reference: Reference) -> float:
    return np.float32(good_metric(scores, reference))  # type: ignore[return-value]


def silent_zero(scores: ScoreMatrix, reference: Reference) -> float:
    return float(scores.R[0, 0] - scores.R[-1, 0])  # 0 of a single session


def skips_undefined(scores: ScoreMatrix, reference: Reference) -> float:
    R = scores.R
    return float(R[~np.isnan(R)].sum() / max(R.size, 1))


def warns(scores: ScoreMatrix, reference: Reference) -> float:
    return float(np.mean(scores.R[1:, 0]))  # of nothing, for a single session


def writes(scores: ScoreMatrix, reference: Reference) -> float:
    drop = good_metric(scores, reference)
    scores.values[0, 0] = 0.5
    return drop


def needs_ideal(scores: ScoreMatrix, reference: Reference) -> float:
    return float(scores.R[-1, 0]) if reference.ideal == 1 else 0.0


@pytest.mark.parametrize("value", [-1.0, 1.0, -1.01, 1.01])
def test_a_fraction_may_be_one(value: float) -> None:
    with pytest.raises(CheckFailed) if abs(value) > 1 else nullcontext():
        metric_contract.is_a_fraction(lambda *_: value)


@pytest.mark.parametrize(
    ("metric", "checks"),
    [
        (good_metric, set()),
        (no_sentence, {"says where it comes from"}),
        (without_source, {"says where it comes from"}),
        (in_percent, {"is a fraction"}),
        (as_numpy, {"is a fraction"}),
        (silent_zero, {"one session is no silent zero"}),
        (skips_undefined, {"undefined scores are nan"}),
        (warns, {"one session is no silent zero"}),
        (writes, {"scores stay untouched"}),
        (needs_ideal, {"undefined scores are nan"}),
    ],
    ids=name_of,
)
def test_a_faulty_metric_is_caught(metric: Callable[..., float], checks: set[str]) -> None:
    if metric not in (without_source, no_sentence):
        metric.__doc__ = good_metric.__doc__
    said = failures(METRIC_CHECKS, metric)
    assert set(said) >= checks
    assert bool(said) == bool(checks), said
