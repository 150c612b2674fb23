"""What a board holds: streams with their ranked entries, and what became of every pack.

It is written as `board.json`, and the pages are made from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from embedbench.reports.comparison import Ranking
from embedbench.scores.run_record import FileInfo
from embedbench.scores.stats import Stat
from embedbench.typed import Typed

from .verify import Submission

SCHEMA = "embedbench-board/1.0"
STATEMENT = "recomputed, not re-run"


@dataclass(frozen=True)
class Entry(Typed):
    """One learner with one setting, from one pack, on one stream.

    Parameters
    ----------
    label, learner : str
        Its name on this page, unique; and its name in the records.
    params : dict
        Its hyperparameters.
    learns : bool
        False for what ignores the data (`chance`), which is not ranked.
    pack : str
        SHA-256 of the pack.
    by, date : str or None
        Who submitted it and when; None: not stated.
    n : int
        Runs in the means; runs flagged `nan` or `diverged` are not.
    left_out : int
        Runs with these flags.
    versions : tuple of str
        Versions of embedbench that made the runs.
    devices : tuple of str
        Devices and processors of the runs.
    code : str or None
        The code that the learner is, if it is not of embedbench: `package.module:Class`, or its
        package and version.
    command : str
        The command of its first run; empty if it was made from Python.
    flags : tuple of str
        Flags of its runs.
    compared : bool
        Whether ids and labels of all its runs were compared with the rebuilt stream.
    same_answers : tuple of str
        Labels of other entries with the same runs: their predictions agree byte for byte.
    metrics : dict
        Name → mean, interval and values over the runs; fractions, bytes, seconds.
    ranks : dict
        Name → 1, plus 1 for every entry that is significantly better.
    groups : dict
        Name → its groups of entries that cannot be told apart.
    """

    label: str
    learner: str
    params: dict[str, Any]
    learns: bool
    pack: str
    by: str | None
    date: str | None
    n: int
    left_out: int
    versions: tuple[str, ...]
    devices: tuple[str, ...]
    code: str | None
    command: str
    flags: tuple[str, ...]
    compared: bool
    same_answers: tuple[str, ...]
    metrics: dict[str, Stat]
    ranks: dict[str, int]
    groups: dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class BoardStream(Typed):
    """One stream with its entries, best final accuracy first.

    Parameters
    ----------
    page, title : str
        Name of its page; protocol and files.
    protocol : str
        Name of the protocol.
    protocol_params : dict
        Its parameters.
    files : tuple of FileInfo
        Names and digests of the embedding files.
    recipe, features : str
        Digests of the stream that all entries share.
    evals : tuple of str
        Digests of the test data, one for each seed of the order.
    sessions, classes : int
        Their numbers.
    entries : tuple of Entry
        The learners.
    rankings : dict
        Metric → ranks, tie groups and paired differences; only where two entries have it.
    """

    page: str
    title: str
    protocol: str
    protocol_params: dict[str, Any]
    files: tuple[FileInfo, ...]
    recipe: str
    features: str
    evals: tuple[str, ...]
    sessions: int
    classes: int
    entries: tuple[Entry, ...]
    rankings: dict[str, Ranking]


@dataclass(frozen=True)
class Board(Typed):
    """All streams, and all packs with what was left out of them."""

    schema: str
    statement: str
    version: str
    submissions: tuple[Submission, ...]
    streams: tuple[BoardStream, ...]
