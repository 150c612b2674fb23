"""The checks for sources, engines and trackers, ours and those of plug-ins."""

import copy
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from embedbench.engines.engine import Engine
from embedbench.files.sample_metadata import Samples
from embedbench.reports.loaded_run import Run
from embedbench.reports.trackers import Tracker, make_tracker, track
from embedbench.runs.grid_scheduler import run_grid
from embedbench.scores import record_files
from embedbench.studies.resolve import resolve
from embedbench.studies.set_options import parse_settings
from embedbench.studies.study import Study

from .check_registry import CheckFailed, Checks, applies_where, demand
from .protocol_cases import WIDTH, small_file

if TYPE_CHECKING:
    from embedbench.extract.source import Source


READ = 32  # samples that are read


@dataclass(frozen=True)
class SourceSubject:
    """A source that is checked, by its name on the command line."""

    name: str

    def open(self) -> "Source":
        """The source, opened anew, as `embedbench extract` does."""
        from embedbench.extract.open_source import open_source

        return open_source(self.name)

    @cached_property
    def first(self) -> "Source":
        """One that several checks share."""
        return self.open()

    @property
    def some(self) -> list[int]:
        """Numbers of some samples, ascending."""
        n = len(self.first.ids)
        return sorted(set(np.linspace(0, n - 1, min(READ, n)).astype(int).tolist()))


SOURCE_CHECKS = Checks[SourceSubject]()


@SOURCE_CHECKS.add
def samples_form_a_data_set(subject: SourceSubject) -> None:
    """Ids are unique paths, labels are leaf classes, and leaves come before inner classes."""
    from embedbench.extract.source import id_problem

    made = subject.first
    for name in made.ids:
        problem = id_problem(name)
        demand(not problem, f"expected ids like 'class/name', got {name!r}: {problem}")
    split = made.split if made.split is not None else np.zeros(len(made.ids), dtype=np.uint8)
    Samples(np.array(made.ids), made.labels, split, made.classes, made.parents).check()


@SOURCE_CHECKS.add
def says_what_it_is(subject: SourceSubject) -> None:
    """It has a name, says whether it holds images, sounds or texts, and under which licence."""
    made = subject.first
    demand(made.name and isinstance(made.name, str), f"expected a name, got {made.name!r}")
    demand(isinstance(made.licence, str), f"expected a licence as text, got {made.licence!r}")
    known = ("images", "sounds", "texts")
    demand(made.holds in known, f"holds must be one of {', '.join(known)}: {made.holds!r}")


@SOURCE_CHECKS.add
def opened_again_it_is_the_same(subject: SourceSubject) -> None:
    """Opened twice, it has the same samples in the same order."""
    one, two = subject.first, subject.open()
    demand(one.ids == two.ids, "expected the same ids in the same order, got others")
    same = np.array_equal(one.labels, two.labels) and one.classes == two.classes
    demand(same, "expected the same labels and classes, got others")


@SOURCE_CHECKS.add
def samples_can_be_read(subject: SourceSubject) -> None:
    """Samples are images within our bounds, sounds or texts, and come again with the same bytes."""
    from embedbench.extract.sound_files import read_sound
    from embedbench.extract.source import open_image

    made = subject.first
    for i in subject.some:
        content = made.read(i)
        again = subject.first.read(i) if not made.in_order else content
        demand(content == again, f"expected the same content of sample {i} again, got another")
        if isinstance(content, bytes) and made.holds == "sounds":
            read_sound(content, 10)
        elif made.holds != "texts":
            open_image(content).load()


@SOURCE_CHECKS.add
def threads_agree(subject: SourceSubject) -> None:
    """Samples can be read by several threads at once, unless they are read in order."""
    applies_where(not subject.first.in_order)
    expected = [subject.first.read(i) for i in subject.some]
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(subject.first.read, subject.some * 4))
    demand(got == expected * 4, "expected the same samples in every thread, got others")


# --- engines ---


TASKS = 5
PATIENCE = 300  # seconds for all tasks of a check

ENGINE_CHECKS = Checks[str]()


@contextmanager
def _executor(name: str) -> Iterator[Executor]:
    """The executor of an engine; `NotApplicable` if this process does the work itself."""
    with Engine.parse(name).executor(TASKS) as executor:
        applies_where(executor is not None)
        assert executor is not None
        yield executor


def square(number: int) -> int:
    """A task."""
    return number * number


def fail(number: int) -> int:
    """A task that raises."""
    raise ValueError(f"task {number} is meant to fail")


@ENGINE_CHECKS.add
def tasks_are_run(name: str) -> None:
    """Every task runs once, and its result comes back."""
    with _executor(name) as executor:
        tasks = {executor.submit(square, i): i for i in range(TASKS)}
        got = {tasks[done]: done.result() for done in as_completed(tasks, timeout=PATIENCE)}
    demand(got == {i: i * i for i in range(TASKS)}, f"expected the squares of 0 to 4, got {got}")


@ENGINE_CHECKS.add
def errors_come_back(name: str) -> None:
    """The error of a task comes back as it was raised, and other tasks go on."""
    with _executor(name) as executor:
        bad, good = executor.submit(fail, 3), executor.submit(square, 3)
        try:
            value = bad.result(timeout=PATIENCE)
        except ValueError as error:
            demand("task 3" in str(error), f"expected the task's own error, got {error}")
        else:
            raise CheckFailed(f"expected the task's ValueError, got the result {value}")
        demand(good.result(timeout=PATIENCE) == 9, "expected the result of the task beside it")


@ENGINE_CHECKS.add
def it_ends(name: str) -> None:
    """After it was shut down it takes no task, and can be started again."""
    with _executor(name) as executor:
        executor.submit(square, 2).result(timeout=PATIENCE)
    try:
        executor.submit(square, 2)
    except RuntimeError:
        pass
    else:
        raise CheckFailed("expected a RuntimeError from submit after the shutdown")
    with _executor(name) as executor:
        demand(executor.submit(square, 4).result(timeout=PATIENCE) == 16, "expected 16")


# --- trackers ---


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
