"""What a board holds: streams with their ranked entries, and what became of every pack.

It is written as `board.json`, and the pages are made from it.
"""

from dataclasses import dataclass
from typing import Any

from embedbench.config.json_types import JsonRecord
from embedbench.reports.comparison_results import RankedLearner
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import FileInfo

from .verify_pack import Submission

SCHEMA = "embedbench-board/3.0"
STATEMENT = "recomputed, not re-run"


@dataclass(frozen=True)
class Entry(JsonRecord):
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
    command : str
        The command of its first run; empty if it was made from Python.
    flags : tuple of str
        Flags of its runs; `equal-answers` where runs with other initial weights, on which the
        answers of the learner depend, gave the same answers.
    same_answers : tuple of str
        Labels of other entries whose runs gave the same answers.
    metrics : dict
        Name → mean, interval and values over the runs; fractions, bytes, seconds.
    verdicts : dict
        Name → rank of its mean, the ranks left open, and how far it is behind.
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
    command: str
    flags: tuple[str, ...]
    same_answers: tuple[str, ...]
    metrics: dict[str, Stat]
    verdicts: dict[str, RankedLearner]


@dataclass(frozen=True)
class BoardStream(JsonRecord):
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
    notes : tuple of str
        Notes of the runs, and what speaks against comparing their Ω.
    entries : tuple of Entry
        The learners.
    units : dict
        Metric → what its intervals are computed over, see `Ranking`.
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
    notes: tuple[str, ...]
    entries: tuple[Entry, ...]
    units: dict[str, str]


@dataclass(frozen=True)
class Board(JsonRecord):
    """All streams, and all packs with what of them is not ranked."""

    schema: str
    statement: str
    version: str
    submissions: tuple[Submission, ...]
    streams: tuple[BoardStream, ...]
