"""The contents of `record.json`, as docs/record.md describes them: the run, its cost, its results.

Fields that a record of an earlier version lacks are None, and are left out of the JSON.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from embedbench.config.json_records import ABSENT, UNWRITTEN, JsonRecord, plain
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError

from . import record_bounds
from .offline_references import References

SCHEMA = "embedbench-record/1.0"
FINAL = "final_accuracy"  # every record has this metric


@dataclass(frozen=True)
class BaseScore(JsonRecord):
    """One base score of a run.

    Parameters
    ----------
    R : tuple of tuple of float
        (T, E) score on eval set j after session i; NaN where undefined.
    pooled : tuple of float
        (T,) score over the test samples of all sessions so far.
    metrics : dict
        Name → value; NaN where undefined.
    curves : dict or None
        Name → (T,) the value after each session.
    """

    R: tuple[tuple[float, ...], ...]
    pooled: tuple[float, ...]
    metrics: dict[str, float]
    curves: dict[str, tuple[float, ...]] | None = field(default=None, metadata=ABSENT)


@dataclass(frozen=True, kw_only=True)
class UnscoredRun(JsonRecord):
    """A run before it is scored: what was run, and what it cost.

    docs/record.md describes each field. In addition, `run` is the name of the run: the name of its
    directory without `seed-`. `more` holds fields that a later version added to the record.
    """

    schema: str
    protocol: str
    protocol_params: dict[str, Any]
    learner: str
    learner_params: dict[str, Any]
    learns: bool
    session_id_at_test: bool | None = field(default=None, metadata=ABSENT)
    seed: int
    seeds: Seeds
    files: tuple[FileInfo, ...]
    unknown: FileInfo | None = field(default=None, metadata=ABSENT)
    predictions_sha256: str | None = field(default=None, metadata=ABSENT)
    answers: str | None = field(default=None, metadata=ABSENT)
    order: ClassOrder | None = None
    digests: Digests
    validation: str
    notes: tuple[str, ...]
    scale: str | None = field(default=None, metadata=ABSENT)
    n_train: tuple[int, ...]
    n_classes: tuple[int, ...] | None = field(default=None, metadata=ABSENT)
    n_candidates: tuple[int | None, ...] | None = field(default=None, metadata=ABSENT)
    n_train_by_class: tuple[int, ...] | None = field(default=None, metadata=ABSENT)
    classes: tuple[tuple[str, ...], ...]
    reference: References
    environment: dict[str, Any]
    command: str
    packages: dict[str, Package] | None = field(default=None, metadata=ABSENT)
    tuning: dict[str, Any] | None = field(default=None, metadata=ABSENT)
    imported: ImportedAnswers | None = field(default=None, metadata=ABSENT)
    sessions: tuple[SessionCosts, ...]
    seconds: Costs
    joules: Costs | None = field(default=None, metadata=ABSENT)
    resumed: int | None = field(default=None, metadata=ABSENT)
    footprint: dict[str, float]
    run: str = field(default="", metadata=UNWRITTEN)
    more: dict[str, Any] = field(default_factory=dict, metadata=UNWRITTEN)

    @classmethod
    def from_json(cls, data: Any, name: str = "the record") -> Self:
        """Read and check a record; `name` is the path to show in errors.

        Raises
        ------
        UserError
            The schema differs, a key is missing, or a value has another type or shape.
        """
        if isinstance(data, dict) and data.get("schema") != SCHEMA:
            raise UserError(f"{name} has schema {data.get('schema')!r}, expected {SCHEMA!r}")
        record = super().from_json(data, name)
        for what, length in record._lengths().items():
            if length != len(record.n_train):
                raise UserError(
                    f"{name}: {what} must have one entry for each of the {len(record.n_train)} "
                    f"sessions of n_train, got {length}"
                )
        if "total" not in record.footprint:
            raise UserError(f"{name}: the key footprint.total is missing")
        for key, expected, holds in record._bounds():
            if not holds:
                raise UserError(f"{name}: {key} must be {expected}")
        known = {f.name for f in fields(RunRecord)}
        return replace(record, more={k: v for k, v in data.items() if k not in known})

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data; a record of this version gives the JSON that was read."""
        return {**super().to_json(), **plain(self.more)}

    @property
    def all_files(self) -> tuple[FileInfo, ...]:
        """Its embedding files, and that of unknown samples."""
        return self.files if self.unknown is None else (*self.files, self.unknown)

    def _bounds(self) -> Iterator[tuple[str, str, bool]]:
        """Yield keys, what their values must be, and whether they are."""
        yield "each seed", record_bounds.SEED, min(self.seed, *vars(self.seeds).values()) >= 0
        yield (
            "predictions_sha256",
            record_bounds.SHA256,
            record_bounds.is_sha256(self.predictions_sha256),
        )
        whole = all(record_bounds.is_sha256(file.sha256) for file in self.all_files)
        yield "the sha256 of each file", record_bounds.SHA256, whole
        by_class = self.n_train_by_class or ()
        yield "each of n_train", "0 or more", min((*self.n_train, *by_class), default=0) >= 0
        total = sum(by_class) == sum(self.n_train)
        yield "n_train_by_class", "as many samples as n_train", not by_class or total
        least = min((n for n in self.n_candidates or () if n is not None), default=1)
        yield "each of n_candidates", "1 or more, or null", least > 0
        held = (self.footprint, *(s.footprint for s in self.sessions))
        sizes = [v for h in held for v in h.values()]
        if self.imported is not None:  # its bytes are unknown
            sizes = [v for v in sizes if v == v]
            whole = record_bounds.is_sha256(self.imported.sha256)
            yield "imported.sha256", record_bounds.SHA256, whole
        yield "each of footprint", record_bounds.SIZE, record_bounds.are_sizes(sizes)
        costs = [c for part in (self.seconds, self.joules) if part for c in vars(part).values()]
        for s in self.sessions:
            costs += [s.learn_seconds, s.evaluate_seconds, s.learn_joules, s.evaluate_joules]
        yield "each of seconds and joules", record_bounds.COST, record_bounds.are_costs(costs)
        yield (
            "each reference run",
            record_bounds.INSIDE,
            record_bounds.are_inside(self.reference.runs),
        )
        yield (
            "reference.ideal and chance",
            record_bounds.SCORE,
            record_bounds.are_scores(self.reference.values),
        )

    def _lengths(self) -> dict[str, int]:
        """Return, by key, each length that must equal the number of sessions."""
        lists = {"sessions": self.sessions, "n_classes": self.n_classes}
        return {key: len(values) for key, values in lists.items() if values is not None}


@dataclass(frozen=True, kw_only=True)
class RunRecord(UnscoredRun):
    """A finished run: what was run, what it cost, and what came out."""

    score: str
    R: tuple[tuple[float, ...], ...]
    pooled: tuple[float, ...]
    moments: Moments | None = field(default=None, metadata=ABSENT)
    metrics: dict[str, float]
    curves: dict[str, tuple[float, ...]] | None = field(default=None, metadata=ABSENT)
    by_score: dict[str, BaseScore]
    flags: tuple[str, ...]

    @classmethod
    def from_json(cls, data: Any, name: str = "the record") -> Self:
        """Read and check a record; `name` is the path to show in errors.

        Raises
        ------
        UserError
            The schema differs, a key is missing, or a value has another type or shape.
        """
        record = super().from_json(data, name)
        if record.score not in record.by_score:
            raise UserError(f"{name}: score is {record.score!r}, and by_score has no such key")
        for at, scored in record._scored().items():
            if len({len(row) for row in scored.R}) > 1:
                raise UserError(f"{name}: the rows of {at}R must be of one length")
            if FINAL not in scored.metrics:
                raise UserError(f"{name}: the key {at}metrics.{FINAL} is missing")
        moments = record.moments
        if moments is not None and len(moments.samples_seen) != len(moments.pooled):
            raise UserError(f"{name}: moments must have as many samples_seen as pooled")
        return record

    def _lengths(self) -> dict[str, int]:
        lengths = super()._lengths()
        for at, scored in self._scored().items():
            lengths |= {f"{at}R": len(scored.R), f"{at}pooled": len(scored.pooled)}
            lengths |= {f"{at}curves.{k}": len(v) for k, v in (scored.curves or {}).items()}
        return lengths

    def _scored(self) -> dict[str, BaseScore]:
        """Return what came out of the main score and of every one, by the path of their keys."""
        main = BaseScore(self.R, self.pooled, self.metrics, self.curves)
        return {"": main} | {f"by_score.{name}.": s for name, s in self.by_score.items()}

    @property
    def ideals(self) -> tuple[float, ...]:
        """The α_ideal behind Ω: one, or one per session; empty where it was not measured.

        If they are of the data so far, only the last.
        """
        value = (self.reference.ideal or {}).get(self.score, float("nan"))
        values = value if isinstance(value, tuple) else (value,)
        values = values[-1:] if self.reference.so_far else values
        return () if any(v != v for v in values) else tuple(map(float, values))


# --- parts of a record ---


@dataclass(frozen=True)
class Package(JsonRecord):
    """The package that code from outside came from: its name and version."""

    name: str
    version: str


@dataclass(frozen=True, kw_only=True)
class ImportedAnswers(JsonRecord):
    """The tool that gave the answers of an imported run, and the SHA-256 of its file of answers.

    `gave` is "scores" or "answers".
    """

    tool: Package
    gave: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class FileInfo(JsonRecord):
    """A file of a run: its name, its kind (`embedding` or `pixels`) and its digests.

    Of a file that was fetched also its URL, the commit on the hub, and the SHA-256 of its bytes.
    """

    name: str
    kind: str | None = field(default=None, metadata=ABSENT)
    digests: dict[str, str]
    url: str | None = field(default=None, metadata=ABSENT)
    commit: str | None = field(default=None, metadata=ABSENT)
    sha256: str | None = field(default=None, metadata=ABSENT)


@dataclass(frozen=True)
class ClassOrder(JsonRecord):
    """A class order: its kind, and the name and the SHA-256 of the file that holds it, if any."""

    kind: Any  # any JSON value from an order file
    name: str | None = None
    digest: str | None = None


@dataclass(frozen=True)
class Digests(JsonRecord):
    """The four digests of a stream."""

    recipe: str
    train: str
    eval: str
    features: str


@dataclass(frozen=True)
class Costs(JsonRecord):
    """Seconds or joules of learning and of evaluation; NaN where they were not measured."""

    learn: float
    evaluate: float


@dataclass(frozen=True)
class SessionCosts(JsonRecord):
    """The cost of one session, and the learner's log of it.

    Parameters
    ----------
    learn_seconds, evaluate_seconds : float
        Time spent.
    footprint : dict
        Bytes after the session, by kind.
    log : dict
        What the learner's `learn` returned.
    learn_joules, evaluate_joules : float or None
        Energy used; NaN where it was not measured.
    """

    learn_seconds: float
    evaluate_seconds: float
    footprint: dict[str, float]
    log: dict[str, Any]
    learn_joules: float | None = field(default=None, metadata=ABSENT)
    evaluate_joules: float | None = field(default=None, metadata=ABSENT)


def totals(sessions: Sequence[SessionCosts]) -> dict[str, Any]:
    """The `seconds`, `joules` and `footprint` of a run that had these sessions."""

    def add(costs: Iterable[float | None]) -> float:
        return sum(math.nan if cost is None else cost for cost in costs)

    held = sessions[-1].footprint
    return {
        "seconds": Costs(
            add(s.learn_seconds for s in sessions), add(s.evaluate_seconds for s in sessions)
        ),
        "joules": Costs(
            add(s.learn_joules for s in sessions), add(s.evaluate_joules for s in sessions)
        ),
        "footprint": {**held, "total": sum(held.values())},
    }


@dataclass(frozen=True)
class Moments(JsonRecord):
    """(M,) The main score at every evaluation moment, and the training samples seen by then."""

    samples_seen: tuple[int, ...]
    pooled: tuple[float, ...]
