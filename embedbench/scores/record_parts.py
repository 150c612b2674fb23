"""Parts of a record that are values of their own; docs/record.md describes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from embedbench.typed import ABSENT, Typed


@dataclass(frozen=True)
class Package(Typed):
    """The package that code from outside came from: its name and version."""

    name: str
    version: str


@dataclass(frozen=True, kw_only=True)
class FileInfo(Typed):
    """A file of a run: its name, its kind (`embedding` or `pixels`) and its digests."""

    name: str
    kind: str | None = field(default=None, metadata=ABSENT)
    digests: dict[str, str]


@dataclass(frozen=True)
class ClassOrder(Typed):
    """A class order: its kind, and the name and the SHA-256 of the file that holds it, if any."""

    kind: Any  # any JSON value from an order file
    name: str | None = None
    digest: str | None = None


@dataclass(frozen=True)
class Digests(Typed):
    """The four digests of a stream."""

    recipe: str
    train: str
    eval: str
    features: str


@dataclass(frozen=True)
class References(Typed):
    """The reference values that the metrics are compared with.

    Parameters
    ----------
    preset : str
        How Ω is normalised.
    normalise_new : bool
        Whether Ω_new is divided by α_ideal too.
    offline_runs : tuple of str, or tuple of such tuples
        Directories of the runs behind α_ideal, relative to the root. If every session has its own
        α_ideal, one tuple per session.
    chance_run : str or None
        Directory of the chance run on the same stream, relative to the root.
    source : str
        `runs`, `record` or `missing`: where the values below come from.
    ideal : dict or None
        Base score → α_ideal, or a tuple with the α_ideal of each session.
    chance : dict or None
        Base score → (T,) the score of the chance run on session j just before session j.
    """

    preset: str
    normalise_new: bool
    offline_runs: tuple[str, ...] | tuple[tuple[str, ...], ...]
    chance_run: str | None
    source: str = "missing"
    ideal: dict[str, float | tuple[float, ...]] | None = field(default=None, metadata=ABSENT)
    chance: dict[str, tuple[float, ...]] | None = field(default=None, metadata=ABSENT)

    @property
    def runs(self) -> list[str]:
        """Directories of all reference runs; each once."""
        offline = [runs if isinstance(runs, tuple) else (runs,) for runs in self.offline_runs]
        chance = () if self.chance_run is None else (self.chance_run,)
        return list(dict.fromkeys(run for runs in (*offline, chance) for run in runs))

    @property
    def values(self) -> list[float | tuple[float, ...]]:
        """Every reference value."""
        return [*(self.ideal or {}).values(), *(self.chance or {}).values()]


@dataclass(frozen=True)
class Costs(Typed):
    """Seconds or joules of learning and of evaluation; NaN where they were not measured."""

    learn: float
    evaluate: float


@dataclass(frozen=True)
class SessionCosts(Typed):
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
class Moments(Typed):
    """(M,) The main score at every evaluation moment, and the training samples seen by then."""

    samples_seen: tuple[int, ...]
    pooled: tuple[float, ...]
