"""The contents of `record.json`: what was run, what it cost, what came out.

Fields that a record of an earlier version lacks are None, and are left out of the JSON.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import PurePath
from typing import Any, NamedTuple, Self, TypeVar

from embedbench.config.format_versions import check_schema
from embedbench.config.json_records import ABSENT, UNWRITTEN, JsonRecord, plain
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError

from .offline_references import References

SCHEMA = "embedbench-record/1.0"
FINAL = "final_accuracy"  # every record has this metric
COSTS = 1e15  # seconds
NEAR = 1e-9  # a mean of scores may be above 1 by as much
Extended = TypeVar("Extended", bound="DescribedStream")


class _Bound(NamedTuple):
    """What each of some values of a record must be."""

    key: str
    expected: str
    values: Iterable[Any]
    holds: Callable[[Any], bool]


def _is_natural(n: int) -> bool:
    return n >= 0


def _is_sha256(text: str | None) -> bool:
    return text is None or re.fullmatch("[0-9a-f]{64}", text) is not None


def _is_a_choice(candidates: int | None) -> bool:
    return candidates is None or candidates > 0


def _is_size(size: float) -> bool:
    return 0 <= size < math.inf


def _is_cost(seconds: float) -> bool:
    return math.isnan(seconds) or 0 <= seconds <= COSTS


def _is_score(score: float) -> bool:
    return math.isnan(score) or 0 <= score <= 1 + NEAR


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

    def curve(self, name: str) -> tuple[float, ...]:
        """(T,) a curve of its `curves`; empty where it has none of the name."""
        return () if self.curves is None else self.curves.get(name, ())


@dataclass(frozen=True, kw_only=True)
class DescribedStream(JsonRecord):
    """What is said of a stream, in the record of a run and in an exported `stream.json`.

    T sessions, E eval sets; the `offline` reference has one of each.

    Parameters
    ----------
    schema : str
        `embedbench-record/1.0`; a reader refuses what it does not know.
    protocol : str
        Its name, or `package.module:Class`.
    protocol_params : dict
        All its settings.
    session_id_at_test : bool or None
        Whether the learner was given the session id of each test sample.
    seed : int
        The one seed that the four are drawn from.
    seeds : Seeds
        The four seeds in use: `order` (the stream), `init` (weights), `batches`, `memory`.
    files : tuple of FileInfo
        The embedding files.
    order : ClassOrder or None
        The class order; None where the protocol orders no classes.
    digests : Digests
        They say which runs may be averaged or compared.
    validation : str
        `train`: of training data; `none`: there was none; `test`: test data could stop it.
    notes : tuple of str
        What the protocol decided for this file because its parameters left it open.
    scale : str or None
        How the features were scaled: what `protocol.scale`, or its `auto`, came to.
    n_train : tuple of int
        (T,) training samples, validation data not counted.
    n_classes : tuple of int or None
        (T,) classes that each session introduces.
    n_candidates : tuple of int or None
        (E,) classes that an answer is chosen from; None where these are all classes seen.
    n_train_by_class : tuple of int or None
        (C,) training samples of each class over all sessions; not for label sets.
    classes : tuple of tuple of str
        Names of the leaf classes, one list a file, in the order of the labels.
    reference : References
        What the metrics are relative to.
    packages : dict or None
        `learner`, `protocol` → the installed package where they are of another one.
    """

    schema: str
    protocol: str
    protocol_params: dict[str, Any]
    session_id_at_test: bool | None = field(default=None, metadata=ABSENT)
    seed: int
    seeds: Seeds
    files: tuple[FileInfo, ...]
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
    packages: dict[str, Package] | None = field(default=None, metadata=ABSENT)

    def extend(self, cls: type[Extended], **more: Any) -> Extended:
        """A record of a class with further fields; `more` are these, and fields to say anew."""
        said = {f.name: getattr(self, f.name) for f in fields(DescribedStream)}
        return cls(**said | more)


@dataclass(frozen=True, kw_only=True)
class UnscoredRun(DescribedStream):
    """A run before it is scored: what was run, and what it cost.

    Of the fields, `run` is the name of the run's directory without `seed-`, and `more` holds what a
    later version added.

    Parameters
    ----------
    learner : str
        Its name, or `package.module:Class`.
    learner_params : dict
        All its settings; one that is a group (such as `stop`) is an object.
    learns : bool
        False for references that ignore the data (`chance`); they are never flagged.
    unknown : FileInfo or None
        The file of `--unknown`.
    predictions_sha256 : str or None
        SHA-256 of `predictions.h5`, in hexadecimal.
    answers : str or None
        `full` where `predictions.h5` says how sure the learner was.
    code : dict or None
        `learner`, `protocol` → SHA-256 of the code, where it is not ours.
    environment : dict
        `embedbench`, `python`, `torch` (versions), `device`, `machine` (processor family) and
        `threads` (of the run's arithmetic; its last bits depend on them).
    command : str
        What makes this run, or the run that needed this reference; empty if made from Python.
    tuning : dict or None
        Where settings were tuned, the log of the search: `grid`, `sessions` (of a trial), `tried`
        (settings and average incremental accuracy on validation data), `chosen`, and `seed`; of a
        search on several `seeds` also `default` (what the learner has without a search), `gain` and
        `standard_error` (of the best over it, paired by seed; null where the default is best),
        `edge` (settings whose chosen value lies at the edge of those tried) and in each of `tried`
        the scores `by_seed`.
    budget_mb : float or None
        The `--budget-mb` of the run.
    metric : str or None
        The base score of its tables where none is named: `run --metric`, or that of its preset.
    imported : ImportedAnswers or None
        Where another tool gave the answers. What it cost is then null.
    sessions : tuple of SessionCosts
        (T,) what each session cost.
    seconds : Costs
        Sums over the sessions.
    resumed : int or None
        How often the run was resumed from a checkpoint. Seconds add up over the parts; work that
        was lost after the last checkpoint is not counted, and counts once when it is done again.
    footprint : dict
        The last session's, and `total`, the sum of the kinds.
    """

    learner: str
    learner_params: dict[str, Any]
    learns: bool
    unknown: FileInfo | None = field(default=None, metadata=ABSENT)
    predictions_sha256: str | None = field(default=None, metadata=ABSENT)
    answers: str | None = field(default=None, metadata=ABSENT)
    code: dict[str, str] | None = field(default=None, metadata=ABSENT)
    environment: dict[str, Any]
    command: str
    tuning: dict[str, Any] | None = field(default=None, metadata=ABSENT)
    budget_mb: float | None = field(default=None, metadata=ABSENT)
    metric: str | None = field(default=None, metadata=ABSENT)
    imported: ImportedAnswers | None = field(default=None, metadata=ABSENT)
    sessions: tuple[SessionCosts, ...]
    seconds: Costs
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
        if isinstance(data, dict):
            check_schema(name, data.get("schema"), SCHEMA, "restore it, or make that run again")
        record = super().from_json(data, name)
        for what, length in record._lengths().items():
            if length != len(record.n_train):
                raise UserError(
                    f"{name}: the number of entries of {what}",
                    expected=f"{len(record.n_train)}, that of sessions in n_train",
                    got=length,
                )
        if "total" not in record.footprint:
            raise UserError(f"{name}: the key footprint.total is missing")
        for bound in record._bounds():
            if not all(map(bound.holds, bound.values)):
                raise UserError(f"{name}: {bound.key}", expected=bound.expected)
        known = {f.name for f in fields(RunRecord)}
        return replace(record, more={k: v for k, v in data.items() if k not in known})

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data; a record of this version gives the JSON that was read."""
        return {**super().to_json(), **plain(self.more)}

    @property
    def all_files(self) -> tuple[FileInfo, ...]:
        """Its embedding files, and that of unknown samples."""
        return self.files if self.unknown is None else (*self.files, self.unknown)

    def _bounds(self) -> list[_Bound]:
        """What the numbers and texts of a record must be, in the order of the checks."""
        seeds = [self.seed, *vars(self.seeds).values()]
        digests = [self.predictions_sha256, *(file.sha256 for file in self.all_files)]
        if self.imported is not None:
            digests.append(self.imported.sha256)
        by_class = [] if self.n_train_by_class is None else [*self.n_train_by_class]
        sums = [sum(by_class)] if by_class else []
        candidates = [] if self.n_candidates is None else [*self.n_candidates]
        sizes = [*self.footprint.values()]
        costs = [*vars(self.seconds).values()]
        for session in self.sessions:
            sizes += session.footprint.values()
            costs += [session.learn_seconds, session.evaluate_seconds]
        if self.imported is not None:  # other tools may say no sizes
            sizes = [size for size in sizes if not math.isnan(size)]
        budgets = [] if self.budget_mb is None else [self.budget_mb]
        n = sum(self.n_train)

        def is_all(total: int) -> bool:
            return total == n

        return [
            _Bound("each seed", "a seed: 0 or more, below 2**63", seeds, _is_natural),
            _Bound("each SHA-256", "64 hexadecimal digits", digests, _is_sha256),
            _Bound("each of n_train", "0 or more", [*self.n_train, *by_class], _is_natural),
            _Bound("n_train_by_class", "as many samples as n_train", sums, is_all),
            _Bound("each of n_candidates", "1 or more, or null", candidates, _is_a_choice),
            _Bound("each of footprint", "a number of bytes: finite, 0 or more", sizes, _is_size),
            _Bound("budget_mb", "megabytes: finite, 0 or more", budgets, _is_size),
            _Bound("each of seconds", f"0 to {COSTS:g}, or null", costs, _is_cost),
            _Bound(
                "each reference run",
                "a path inside the directory of runs",
                self.reference.runs,
                is_inside,
            ),
            _Bound(
                "reference.ideal and chance",
                "a score, in 0 to 1, or null",
                self.reference.values,
                _is_score,
            ),
        ]

    def _lengths(self) -> dict[str, int]:
        """Return, by key, each length that must equal the number of sessions."""
        lists = {"sessions": self.sessions, "n_classes": self.n_classes}
        return {key: len(values) for key, values in lists.items() if values is not None}


@dataclass(frozen=True, kw_only=True)
class RunRecord(BaseScore, UnscoredRun):
    """A finished run: what was run, what it cost, and what came out.

    Parameters
    ----------
    score : str
        Base score of `R`, `pooled` and `metrics`: `class_accuracy`; of label sets `pw_js`.
    R : tuple of tuple of float
        (T, E) score on eval set j after session i; null until all its classes were seen.
    pooled : tuple of float
        (T,) score after session i over the test samples of sessions 0…i together.
    moments : Moments or None
        The same at every evaluation moment, also inside a session.
    metrics : dict
        Name → value; null where undefined.
    curves : dict or None
        Name → (T,) the value after each session.
    by_score : dict
        Base score → its own `R`, `pooled`, `metrics` and `curves`.
    flags : tuple of str
        What tables print beside the run.
    """

    score: str
    moments: Moments | None = field(default=None, metadata=ABSENT)
    by_score: dict[str, BaseScore]
    flags: tuple[str, ...]

    @classmethod
    def from_json(cls, data: Any, name: str = "the record") -> Self:
        """Read and check a record, as `UnscoredRun` does."""
        record = super().from_json(data, name)
        if record.score not in record.by_score:
            raise UserError(f"{name}: score is {record.score!r}, and by_score has no such key")
        for path, scored in record.scored.items():
            at = ".".join((*path, ""))
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
        for path, scored in self.scored.items():
            at = ".".join((*path, ""))
            lengths |= {f"{at}R": len(scored.R), f"{at}pooled": len(scored.pooled)}
            lengths |= {f"{at}curves.{k}": len(v) for k, v in (scored.curves or {}).items()}
        return lengths

    @property
    def scored(self) -> dict[tuple[str, ...], BaseScore]:
        """What came out of the main score and of every one, by the path of their keys."""
        return {(): self} | {("by_score", name): s for name, s in self.by_score.items()}

    @property
    def ideals(self) -> tuple[float, ...]:
        """The α_ideal behind Ω: one (of data so far, the last), or one per session; or empty."""
        value = (self.reference.ideal or {}).get(self.score, math.nan)
        values = value if isinstance(value, tuple) else (value,)
        if self.reference.so_far:
            values = values[-1:]
        if any(math.isnan(value) for value in values):
            return ()
        return tuple(map(float, values))


# --- parts of a record ---


@dataclass(frozen=True)
class Package(JsonRecord):
    """A package: its name and version.

    Parameters
    ----------
    name, version : str
        As it is installed, or as the user said.
    """

    name: str
    version: str


@dataclass(frozen=True, kw_only=True)
class ImportedAnswers(JsonRecord):
    """The tool that gave the answers of an imported run.

    Parameters
    ----------
    tool : Package
        The tool, as the user said.
    gave : str
        `scores` or `answers`.
    sha256 : str
        Of its npz file.
    """

    tool: Package
    gave: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class FileInfo(JsonRecord):
    """A file of a run.

    Parameters
    ----------
    name : str
        Its name, without directories.
    kind : str or None
        `embedding` or `pixels`.
    digests : dict
        `samples`, `recipe`, `content`.
    url, commit, sha256 : str or None
        Of a file named by a URL: that, its commit on the hub, and the SHA-256 of its bytes. A pack
        may also give a URL for others (`runs pack --url`).
    """

    name: str
    kind: str | None = field(default=None, metadata=ABSENT)
    digests: dict[str, str]
    url: str | None = field(default=None, metadata=ABSENT)
    commit: str | None = field(default=None, metadata=ABSENT)
    sha256: str | None = field(default=None, metadata=ABSENT)


@dataclass(frozen=True)
class ClassOrder(JsonRecord):
    """A class order.

    Parameters
    ----------
    kind : any JSON
        `natural`, `random`, `size` or `icarl1993`; of an order file the kind that it states, or
        `file` if it states none.
    name, digest : str or None
        Of an order file: its name, and the SHA-256 of its bytes.
    """

    kind: Any  # any JSON value from an order file
    name: str | None = None
    digest: str | None = None


@dataclass(frozen=True)
class Digests(JsonRecord):
    """The four digests of a stream: SHA-256 in hexadecimal.

    Parameters
    ----------
    recipe : str
        The protocol and its parameters, no seed.
    train : str
        Training and validation data: ids, labels, sessions in order, column permutations.
    eval : str
        Test data, likewise.
    features : str
        The bytes of the features and how they are scaled.
    """

    recipe: str
    train: str
    eval: str
    features: str


@dataclass(frozen=True)
class Costs(JsonRecord):
    """Seconds.

    Parameters
    ----------
    learn, evaluate : float
        Of learning and of evaluation; null where they were not measured.
    """

    learn: float
    evaluate: float


@dataclass(frozen=True)
class SessionCosts(JsonRecord):
    """The cost of one session, and the learner's log of it.

    Parameters
    ----------
    learn_seconds, evaluate_seconds : float
        Learning, `prepare` included; and answering all test samples once.
    footprint : dict
        Bytes that the learner holds after the session, by kind (`parameters`, `means`, …); under
        `samples` a value counts four bytes, a value of an image one.
    log : dict
        What the learner returned for the session. Training has `steps` (of the optimiser),
        `epochs`, `stopped` (the rule that ended it; `diverged` where the loss was not finite) and
        `train_loss`; online training has `steps` and `epochs`, the steps on each batch, and with
        `passes` also `presented` (samples, those from memory included); a closed form that sees
        batches has their number, `batches`. A setting chosen on validation data is here. Where that
        is test data, `test_data_unread` says that the learner has read none of it so far.
    """

    learn_seconds: float
    evaluate_seconds: float
    footprint: dict[str, float]
    log: dict[str, Any]


def is_inside(path: str) -> bool:
    """Whether a path leads downwards, and is a path."""
    parts = PurePath(path)
    return not ("\0" in path or parts.is_absolute() or ".." in parts.parts)


def totals(sessions: Sequence[SessionCosts]) -> dict[str, Any]:
    """The `seconds` and `footprint` of a run that had these sessions."""
    held = sessions[-1].footprint
    seconds = Costs(
        learn=sum(session.learn_seconds for session in sessions),
        evaluate=sum(session.evaluate_seconds for session in sessions),
    )
    return {"seconds": seconds, "footprint": {**held, "total": sum(held.values())}}


@dataclass(frozen=True)
class Moments(JsonRecord):
    """The main score at every evaluation moment.

    Parameters
    ----------
    samples_seen : tuple of int
        (M,) training samples seen by then.
    pooled : tuple of float
        (M,) the score.
    """

    samples_seen: tuple[int, ...]
    pooled: tuple[float, ...]
