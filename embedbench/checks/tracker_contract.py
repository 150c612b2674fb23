"""The checks for trackers: small finished runs are replayed to one."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from embedbench.reports.run_data import Run
from embedbench.reports.tracking import Tracker, make_tracker, track
from embedbench.runs.grid import run_grid
from embedbench.runs.settings import Settings, plan
from embedbench.scores import record

from .demand import demand
from .small_files import WIDTH, small_file

BRIEF = {"units": 4, "stop": {"rule": "epochs", "epochs": 1}}


@dataclass(frozen=True)
class TrackerSubject:
    """A tracker that is checked, by its name on the command line."""

    name: str

    @cached_property
    def folder(self) -> Path:
        """A folder that lasts as long as the checks."""
        self.__dict__["_held"] = held = TemporaryDirectory()
        return Path(held.name)

    @cached_property
    def runs(self) -> Path:
        """Two finished runs, with their references."""
        settings = Settings(protocol={"base": 3}, learners={"offline": {"mlp": BRIEF}})
        file = str(small_file("plain", WIDTH).path)
        cells = plan([file], "incremental-class", ["ncm"], [0, 1], settings=settings, device="cpu")
        run_grid(cells, self.folder / "runs")
        return self.folder / "runs"

    def target(self, name: str) -> str:
        """The tracker's name, with a target of its own."""
        return f"{self.name}:{self.folder / name}"

    def make(self, name: str) -> Tracker:
        """A new one."""
        return make_tracker(self.target(name))


TrackerCheck = Callable[[TrackerSubject], None]
TRACKER_CHECKS: list[TrackerCheck] = []


def tracker_check(check: TrackerCheck) -> TrackerCheck:
    """Add a check to the suite."""
    TRACKER_CHECKS.append(check)
    return check


def _contents(root: Path) -> dict[Path, bytes]:
    """What every file of the runs holds."""
    parts = (p for place in record.find(root, references=True) for p in place.iterdir())
    return {path: path.read_bytes() for path in parts}


@tracker_check
def finished_runs_are_replayed(subject: TrackerSubject) -> None:
    """`embedbench runs track` replays finished runs to it, and no file of a run changes."""
    before, n = _contents(subject.runs), len(record.find(subject.runs))
    replays = track(subject.runs, [subject.target("all")], notify=lambda _: None)
    demand(replays == n, f"expected {n} runs to be replayed, got {replays}")
    demand(_contents(subject.runs) == before, "expected the runs as they were, a file changed")


@tracker_check
def values_stay_untouched(subject: TrackerSubject) -> None:
    """It changes nothing that it is given: run, scores, log and record."""
    place = record.find(subject.runs)[0]
    made = record.load(place)
    run, kept = Run.of(made, place, subject.runs), made.to_json()
    tracker = subject.make("untouched")
    tracker.cell_started(run)
    for i in range(len(made.sessions)):
        scores = {made.score: made.pooled[i], "R/0": made.R[i][0]}
        log: dict[str, Any] = {"learn_seconds": 0.5, "bytes": 8, **made.sessions[i].log}
        given = copy.deepcopy((scores, log))
        tracker.session(run, i, scores, log)
        demand((scores, log) == given, f"expected {given}, the tracker made {(scores, log)} of it")
    tracker.cell_done(made)
    tracker.close()
    demand(made.to_json() == kept, "expected the record as it was, the tracker changed it")


@tracker_check
def any_log_is_taken(subject: TrackerSubject) -> None:
    """A learner's log may hold anything that JSON can hold, and scores may be missing."""
    place = record.find(subject.runs)[0]
    made = record.load(place)
    run = Run.of(made, place, subject.runs)
    odd: dict[str, Any] = {"text": "a\nb", "none": None, "list": [1, [2.5]], "inner": {"é": True}}
    tracker = subject.make("odd")
    tracker.cell_started(run)
    tracker.session(run, 0, {}, odd)
    tracker.cell_done(made)
    tracker.close()


@tracker_check
def it_closes_without_a_run(subject: TrackerSubject) -> None:
    """It can be closed when no run came."""
    subject.make("empty").close()
