"""The checks for trackers, ours and those of plug-ins."""

import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from embedbench.reports.load_results import Run
from embedbench.reports.trackers import Tracker, make_tracker, track
from embedbench.runs.grid_scheduler import run_grid
from embedbench.scores import record_files
from embedbench.studies.resolve import resolve
from embedbench.studies.study import Study, parse_settings

from .check_building_blocks import Checks, demand
from .protocol_cases import WIDTH, small_file

SETTINGS = (
    *("protocol.base=3", "offline.mlp.units=4"),
    *("offline.mlp.stop.rule=epochs", "offline.mlp.stop.epochs=1"),
)


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
        study = Study(
            files=((str(small_file("plain", WIDTH).path),),),
            protocols=("incremental-class",),
            learners=("ncm",),
            seeds=(0, 1),
            set=parse_settings(SETTINGS),
        )
        run_grid(resolve(study), self.folder / "runs")
        return self.folder / "runs"

    def target(self, name: str) -> str:
        """The tracker's name, with a target of its own."""
        return f"{self.name}:{self.folder / name}"

    def make(self, name: str) -> Tracker:
        """A new one."""
        return make_tracker(self.target(name))


TRACKER_CHECKS = Checks[TrackerSubject]()


def _contents(root: Path) -> dict[Path, bytes]:
    """The contents of every file of the runs."""
    parts = (p for run_dir in record_files.find(root, references=True) for p in run_dir.iterdir())
    return {path: path.read_bytes() for path in parts}


@TRACKER_CHECKS.add
def finished_runs_are_replayed(subject: TrackerSubject) -> None:
    """`embedbench runs track` replays finished runs to it, and no file of a run changes."""
    before, n = _contents(subject.runs), len(record_files.find(subject.runs))
    replays = track(subject.runs, [subject.target("all")], notify=lambda _: None)
    demand(replays == n, f"expected {n} runs to be replayed, got {replays}")
    demand(_contents(subject.runs) == before, "expected the runs as they were, a file changed")


@TRACKER_CHECKS.add
def values_stay_untouched(subject: TrackerSubject) -> None:
    """It changes nothing that it is given: run, scores, log and record."""
    run_dir = record_files.find(subject.runs)[0]
    made = record_files.load(run_dir)
    run, kept = Run.of(made, run_dir, subject.runs), made.to_json()
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


@TRACKER_CHECKS.add
def any_log_is_taken(subject: TrackerSubject) -> None:
    """A learner's log may hold anything that JSON can hold, and scores may be missing."""
    run_dir = record_files.find(subject.runs)[0]
    made = record_files.load(run_dir)
    run = Run.of(made, run_dir, subject.runs)
    odd: dict[str, Any] = {"text": "a\nb", "none": None, "list": [1, [2.5]], "inner": {"é": True}}
    tracker = subject.make("odd")
    tracker.cell_started(run)
    tracker.session(run, 0, {}, odd)
    tracker.cell_done(made)
    tracker.close()


@TRACKER_CHECKS.add
def it_closes_without_a_run(subject: TrackerSubject) -> None:
    """It can be closed when no run came."""
    subject.make("empty").close()
