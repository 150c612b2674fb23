"""The checks for protocols: streams of small files, compared with what those hold."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from embedbench import registry
from embedbench.check import demand
from embedbench.check_files import KINDS, small_file
from embedbench.file import TEST, TRAIN, VAL, EmbeddingFile
from embedbench.protocol import Protocol
from embedbench.stream import EvalSet, Ints, Session, Stream, View

ProtocolCheck = Callable[[type[Protocol]], None]
PROTOCOL_CHECKS: list[ProtocolCheck] = []
SEEDS = (0, 1, 2)


def protocol_check(check: ProtocolCheck) -> ProtocolCheck:
    """Add a check to the suite."""
    PROTOCOL_CHECKS.append(check)
    return check


def build(cls: type[Protocol], file: EmbeddingFile, seed: int, **settings: Any) -> Stream:
    """The stream of a file under default parameters, with a seeded class order if there is one."""
    if any(f.name == "order" for f in dataclasses.fields(cls)):
        settings = {"order": "random", **settings}
    return cls(**settings).build([file], seed=seed)


def each_stream(cls: type[Protocol]) -> Iterator[tuple[str, EmbeddingFile, Stream]]:
    """Streams of every small file and seed, with a name for messages."""
    for kind in KINDS:
        file = small_file(kind)
        for seed in SEEDS:
            yield f"file {kind!r}, seed {seed}", file, build(cls, file, seed)


@protocol_check
def parameters_survive_json(cls: type[Protocol]) -> None:
    """Parameters survive JSON, and all of them stand in the recipe."""
    protocol = cls()
    before = dataclasses.asdict(protocol)
    again = registry.make(cls, json.loads(json.dumps(before)), name=cls.name)
    demand(again == protocol, f"expected {protocol} back from JSON, got {again}")
    recipe = json.loads(protocol.recipe())
    missing = sorted({*before, "protocol"} - recipe.keys())
    demand(not missing, f"expected every parameter in the recipe, {missing} are missing")


@protocol_check
def train_and_test_are_disjoint(cls: type[Protocol]) -> None:
    """No sample is in two of training, validation and test data of a stream, by id."""
    for where, _, stream in each_stream(cls):
        taught = {i for s in stream.sessions for i in s.ids.tolist()}
        tested = {i for e in stream.eval_sets for i in e.ids.tolist()}
        both = sorted(taught & tested)[:3]
        demand(not both, f"{where}: samples with ids {both} are in training and in test data")
        roles = {
            "training": _rows([s.x for s in stream.sessions]),
            "validation": _rows([s.val_x for s in stream.sessions]),
            "test": _rows([e.x for e in stream.eval_sets]),
        }
        for a, b in itertools.combinations(roles, 2):
            both = sorted(roles[a] & roles[b])[:3]
            demand(not both, f"{where}: rows {both} are in {a} and in {b} data")


def _rows(views: list[View]) -> set[int]:
    return {row for v in views for row in v.rows.tolist()}


@protocol_check
def counts_are_exact(cls: type[Protocol]) -> None:
    """Every sample of the file comes, and each as often as the others: in one session or in all."""
    for where, file, stream in each_stream(cls):
        brought = (file.split == VAL).any()
        roles = {
            "training": (
                [v for s in stream.sessions for v in ((s.x,) if brought else (s.x, s.val_x))],
                file.split == TRAIN,
            ),
            "validation": ([s.val_x for s in stream.sessions], file.split == VAL),
            "test": ([e.x for e in stream.eval_sets], file.split == TEST),
        }
        if not brought:
            del roles["validation"]
        for role, (views, mine) in roles.items():
            count = _times_shown(views, len(file.labels))
            expected = {1 if count.max() == 1 else len(stream.sessions)}
            got = set(count[mine].tolist())
            demand(
                got == expected, f"{where}: {role} samples come {got} times, expected {expected}"
            )
            strange = np.flatnonzero(count * ~mine)[:3].tolist()
            demand(not strange, f"{where}: rows {strange} are no {role} samples of the file")


def _times_shown(views: list[View], n: int) -> Ints:
    """(N,) how often each row of the file is shown."""
    return np.bincount(np.concatenate([v.rows for v in views]), minlength=n)


@protocol_check
def samples_are_the_files(cls: type[Protocol]) -> None:
    """Features and labels are those of the file's rows, and every sample has one id."""
    for kind in KINDS:
        file = small_file(kind)
        stream, values = build(cls, file, 0, scale="none"), file.read()
        names: dict[int, int] = {}
        parts: list[Session | EvalSet] = [*stream.sessions, *stream.eval_sets]
        shown = [(part.x, part.y, part.ids) for part in parts]
        shown += [(s.val_x, s.val_y, s.val_x.rows) for s in stream.sessions]
        for view, y, ids in shown:
            x = values[view.rows] if view.columns is None else values[view.rows][:, view.columns]
            demand(np.array_equal(view.numpy(), x), f"file {kind!r}: the features are others")
            demand(np.array_equal(y, file.labels[view.rows]), f"file {kind!r}: wrong labels")
            for row, name in zip(view.rows.tolist(), ids.tolist(), strict=True):
                demand(names.setdefault(name, row) == row, f"id {name} names two samples")
        demand(len({*names.values()}) == len(names), f"file {kind!r}: a sample has two ids")


@protocol_check
def same_seed_same_stream(cls: type[Protocol]) -> None:
    """The same file, parameters and seed give the same stream, digests and all."""
    for kind in KINDS:
        file = small_file(kind)
        a, b = build(cls, file, 3), build(cls, file, 3)
        demand(a.digests == b.digests, f"file {kind!r}: expected the same digests, got others")
        demand(_taught(a) == _taught(b), f"file {kind!r}: expected the same sessions, got others")


@protocol_check
def train_digest_tells_streams_apart(cls: type[Protocol]) -> None:
    """Under other seeds the train digest changes exactly when what is taught changes."""
    file = small_file("plain")
    streams = [build(cls, file, seed) for seed in range(6)]
    for a in streams:
        for b in streams:
            alike, told = _taught(a) == _taught(b), a.digests["train"] == b.digests["train"]
            demand(
                alike == told,
                f"streams that teach {'the same' if alike else 'different things'} have "
                f"{'the same' if told else 'different'} train digests",
            )


def _taught(stream: Stream) -> list[list[Any]]:
    """All that a learner is shown, as plain lists."""
    return [
        [a.tolist() for a in (s.x.rows, s.y, s.val_x.rows, s.val_y, s.classes)]
        + [None if s.x.columns is None else s.x.columns.tolist(), s.session_id]
        for s in stream.sessions
    ]


@protocol_check
def recipe_is_the_parameters(cls: type[Protocol]) -> None:
    """Recipe and features digests do not depend on the seed; other parameters, another recipe."""
    file = small_file("plain")
    first, *others = [build(cls, file, seed).digests for seed in SEEDS]
    for digests in others:
        for key in ("recipe", "features"):
            demand(digests[key] == first[key], f"expected one {key} digest for all seeds")
    other = build(cls, file, 0, val_fraction=0.3).digests["recipe"]
    demand(other != first["recipe"], "expected another recipe digest for another val_fraction")
    other = build(cls, file, 0, scale="l2").digests["features"]
    demand(other != first["features"], "expected another features digest for another scale")


@protocol_check
def labels_never_reveal_the_future(cls: type[Protocol]) -> None:
    """A session introduces just the new classes that it teaches, and has labels of its own only."""
    for where, file, stream in each_stream(cls):
        seen: set[int] = set()
        for i, (session, test) in enumerate(zip(stream.sessions, stream.eval_sets, strict=True)):
            new, got = set(session.y.tolist()) - seen, set(session.classes.tolist())
            demand(new == got, f"{where}: session {i} introduces {got}, and teaches {new} anew")
            seen |= new
            own = set(np.flatnonzero(test.classes).tolist())
            demand(own <= seen, f"{where}: eval set {i} has classes {own - seen} of the future")
            labels = {*session.y.tolist(), *session.val_y.tolist(), *test.y.tolist()}
            demand(
                labels <= own, f"{where}: session {i} has labels {labels - own} of other classes"
            )
        missing = set(range(file.samples.n_leaves)) - seen
        demand(not missing, f"{where}: classes {missing} are never introduced")


@protocol_check
def session_ids_are_as_announced(cls: type[Protocol]) -> None:
    """Session ids are the sessions' numbers where the spec reveals them, and None elsewhere."""
    for where, _, stream in each_stream(cls):
        for i, session in enumerate(stream.sessions):
            expected = i if stream.spec.reveals_session_id else None
            got = session.session_id
            demand(got == expected, f"{where}: expected session id {expected}, got {got}")


@protocol_check
def one_table_for_all(cls: type[Protocol]) -> None:
    """All views share one table: nothing is copied."""
    for where, file, stream in each_stream(cls):
        views = [v for s in stream.sessions for v in (s.x, s.val_x)]
        views += [e.x for e in stream.eval_sets]
        tables = {id(v.table) for v in views}
        demand(len(tables) == 1, f"{where}: expected one table, got {len(tables)}")
        shape = views[0].table.values.shape
        demand(shape == file.shape, f"{where}: expected a table of {file.shape}, got {shape}")


@protocol_check
def merged_ignores_the_order(cls: type[Protocol]) -> None:
    """The reference stream `merged()` is the same for every seed and holds every sample once."""
    for kind in KINDS:
        file = small_file(kind)
        # unscaled: a scaling that is fitted to session 0 depends on the order by right
        merged = [build(cls, file, seed, scale="none").merged() for seed in SEEDS]
        for key in ("recipe", "train", "eval", "features"):
            found = {m.digests[key] for m in merged}
            demand(len(found) == 1, f"file {kind!r}: {key} digest of merged() varies with the seed")
        session, test = merged[0].sessions[0], merged[0].eval_sets[0]
        shown = np.sort(np.concatenate([session.x.rows, session.val_x.rows]))
        mine = np.flatnonzero(file.split != TEST)
        demand(np.array_equal(shown, mine), f"file {kind!r}: merged() must teach every sample once")
        mine = np.flatnonzero(file.split == TEST)
        demand(np.array_equal(test.x.rows, mine), f"file {kind!r}: merged() must test every sample")


@protocol_check
def validation_is_carved_per_class(cls: type[Protocol]) -> None:
    """Each class of two or more samples gives validation samples, the same for every seed."""
    file = small_file("uneven")
    held = []
    for seed in SEEDS:
        sessions = build(cls, file, seed).sessions
        held.append({r for s in sessions for r in s.val_x.rows.tolist()})
        kept = {r for s in sessions for r in s.x.rows.tolist()}
        for c in range(file.samples.n_leaves):
            mine = set(np.flatnonzero((file.labels == c) & (file.split == TRAIN)).tolist())
            demand(mine & kept, f"class {c} with {len(mine)} samples keeps none for training")
            gives = len(mine & held[-1])
            demand(
                gives > 0 or len(mine) < 2,
                f"class {c} gives no validation sample of {len(mine)}",
            )
    demand(all(h == held[0] for h in held), "expected the same validation data for every seed")


@protocol_check
def small_classes_are_borne(cls: type[Protocol]) -> None:
    """Classes of one to five samples, and classes without test samples, leave no session empty."""
    for where, _, stream in each_stream(cls):
        for i, (session, test) in enumerate(zip(stream.sessions, stream.eval_sets, strict=True)):
            demand(len(session.x), f"{where}: session {i} has no training sample")
            demand(len(test.x), f"{where}: eval set {i} has no sample, its scores are undefined")
