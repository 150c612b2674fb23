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

    docs/board.md describes each field.
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

    docs/board.md describes each field.
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
    groups: str = "samples"


@dataclass(frozen=True)
class Board(JsonRecord):
    """All streams, and all packs with what of them is not ranked."""

    schema: str
    statement: str
    version: str
    submissions: tuple[Submission, ...]
    streams: tuple[BoardStream, ...]
