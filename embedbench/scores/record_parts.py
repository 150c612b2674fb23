"""Parts of a record that are values of their own; docs/record.md describes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from embedbench.typed import ABSENT, JsonRecord


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


@dataclass(frozen=True)
class Moments(JsonRecord):
    """(M,) The main score at every evaluation moment, and the training samples seen by then."""

    samples_seen: tuple[int, ...]
    pooled: tuple[float, ...]
