"""Grids of runs: handed to an executor with the references they need, saved as they finish.

Other processes, here or on other machines, may be at runs in the same directory. A run that one of
them makes is waited for at the end, and made here if it stops.

All machines of an engine must see the runs directory and the embedding files under the same paths.
"""

import json
import os
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from embedbench.config.format_versions import NewerFormatError
from embedbench.engines.engine import HERE, Engine, run_calls
from embedbench.engines.engine_tasks import LostTaskError
from embedbench.errors import UserError, error_text, keep_inside
from embedbench.scores import record_files, verified_records
from embedbench.scores.offline_references import References
from embedbench.scores.run_record import RunRecord
from embedbench.storage import atomic_write, leases
from embedbench.system.callback_types import Notify, StageProgress
from embedbench.text.undecoded_text import check_text

from . import run_spec
from .kept_runs import KeptRuns
from .run_dirs import run_at, tidy_if_free
from .run_one import Became, run_away, run_one
from .run_task import Task, make_task
from .stream_cache import StreamCache

SEEN = 60.0  # seconds until a network file system must show what another machine wrote


@dataclass
class Outcome:
    """The result of running a grid; numbers include references."""

    run_dirs: list[Path] = field(default_factory=list)  # of requested runs that are finished now
    skipped: int = 0  # finished before
    elsewhere: int = 0  # finished by other processes meanwhile
    failed: list[tuple[run_spec.RunSpec, str]] = field(default_factory=list)  # with the reasons
    bad_input: bool = True  # whether every failure came from wrong input

    def fail(self, spec: run_spec.RunSpec, error: Exception) -> None:
        """Note a failure; the other runs continue."""
        reason = str(error) if isinstance(error, LostTaskError) else error_text(error)
        self.failed.append((spec, reason))
        self.bad_input &= isinstance(error, UserError)


def silent(_: str) -> None:
    """Take a sentence and say nothing."""


def run_grid(
    specs: list[run_spec.RunSpec],
    root: Path,
    *,
    engine: Engine = HERE,
    threads: int = 1,
    overwrite: bool = False,
    progress: StageProgress = lambda *_: None,
    planned: Callable[[Mapping[Path, str]], None] = lambda _: None,
    failing: Notify = silent,
    notify: Notify = silent,
    streams: StreamCache | None = None,
) -> Outcome:
    """Run specs and their references in several processes; each is saved as soon as it finishes.

    References come after the requested runs. Metrics that need one are open until the end, and then
    filled in. A run that fails does not stop the others. A run that was interrupted
    continues from its checkpoint.

    Parameters
    ----------
    specs, root : list of RunSpec, Path
        What to run, and the directory of all runs.
    engine : Engine
        Who runs them; it decides no answer.
    threads : int
        Threads of a run's arithmetic. They decide the last bits: an interrupted run goes on with as
        many or begins anew, and a finished one is kept.
    overwrite : bool
        Make finished runs again, and start interrupted ones from the beginning. References are not
        repeated.
    progress : callable
        Called with the label of the current run, and the numbers of finished and of all runs.
    planned : callable
        Called once, with the labels of all runs by their directories.
    failing : callable
        Called with a sentence when a run fails; an empty one where no other run is left to make.
    notify : callable
        Takes a message, here and in the worker processes, so it must be picklable.
    streams : StreamCache or None
        Files and streams that an earlier step opened; None opens them again.
    """
    if root.exists() and not root.is_dir():
        raise UserError(f"{root} is a file", "--out takes a directory for the run records")
    streams = streams or StreamCache()
    for spec in specs:
        _check_texts(spec)
    outcome = Outcome()
    asked = list[Task]()
    for spec in _buildable(specs, streams, outcome):
        asked += [make_task(part, root, streams, threads) for part in streams.parts(spec)]
    tasks: dict[Path, Task] = {}
    for task in with_references(asked, overwrite=overwrite):
        tasks.setdefault(task.run_dir, task)
    requested = dict.fromkeys(task.run_dir for task in asked)
    if not root.exists():  # the files are there; fails here rather than after hours of training
        root.mkdir(parents=True, exist_ok=True)
        atomic_write.sync_path(root.parent)
    for run_dir, task in tasks.items():
        tidy_if_free(run_dir, root)
        if overwrite and run_dir in requested:
            _note_newer(task, notify)
            tasks[run_dir] = replace(task, anew=True, replaces=run_at(run_dir))
    planned({run_dir: task.label for run_dir, task in tasks.items()})
    grid = _Grid(tasks, requested, progress, failing, notify, outcome)
    try:
        grid.make_all(root, engine)
    except KeyboardInterrupt:  # workers have been stopped at once
        for run_dir in tasks:
            tidy_if_free(run_dir, root)
        raise
    grid.settle()
    return grid.outcome


def _check_texts(spec: run_spec.RunSpec) -> None:
    """Refuse a run whose record could not be read back."""
    check_text(json.loads(spec.protocol.text), "protocol")
    check_text(json.loads(spec.learner.text), spec.learner.name)
    check_text(json.loads(spec.offline.text), "offline")
    check_text(spec.command, "the command")


def _buildable(
    specs: list[run_spec.RunSpec], streams: StreamCache, outcome: Outcome
) -> list[run_spec.RunSpec]:
    """The runs whose protocols make a stream; the others have failed, and no other run with them.

    What is wrong with the settings is refused at once.
    """
    good = []
    for spec in specs:
        try:
            streams.facts(spec)
        except UserError:
            raise
        except Exception as error:  # of a protocol of other people
            outcome.fail(spec, error)
            continue
        good.append(spec)
    return good


def _note_newer(task: Task, notify: Notify) -> None:
    """Say that a run is replaced which this embedbench cannot read, and a newer one can."""
    if not task.is_done():
        return
    try:
        record_files.check_versions(task.run_dir)
    except NewerFormatError as error:
        notify(f"--overwrite replaces {task.run_dir}: {error}")
    except UserError:  # it is damaged
        return


# --- the grid ---


@dataclass
class _Grid:
    """The tasks of a grid; what became of each is read from its record and its lease."""

    tasks: dict[Path, Task]
    requested: Collection[Path]
    progress: StageProgress
    failing: Notify
    notify: Notify
    outcome: Outcome = field(default_factory=Outcome)
    total: int = 0
    kept: Collection[Path] = ()  # directories of runs that were finished before

    def make_all(self, root: Path, engine: Engine) -> None:
        """Make every task; those that other processes make are waited for at the end."""
        todo = [task for task in self.tasks.values() if not task.is_done()]
        self.kept = self.tasks.keys() - {task.run_dir for task in todo}
        self.total, self.outcome.skipped = len(todo), len(self.tasks) - len(todo)
        with engine.executor(len(todo), self.notify) as executor:
            is_remote = executor is not None and not engine.is_local
            if executor is not None:  # the first run may take hours
                self.progress("", 0, self.total)
            while todo:
                todo = self._wait(self._make(todo, executor, is_remote))
        self.progress("", self.total, self.total)

    def _make(self, tasks: list[Task], executor: Executor | None, is_remote: bool) -> list[Task]:
        """Make the tasks that no other process holds; returns those that one does."""
        held = list[Task]()
        make: Callable[[Task], Became | tuple[Became, list[str]]]
        make = partial(run_one, notify=self.notify)
        if is_remote:
            make = run_away
            tasks = [replace(task, root=task.root.absolute()) for task in tasks]
        attempts = run_calls(executor, make, tasks)
        for number, (task, attempt) in enumerate(attempts, executor is not None):
            done = self.total - len(tasks) + number - len(held)
            self.progress(task.label, done, self.total)
            try:
                with keep_inside("its process"):
                    became = attempt()
                if isinstance(became, tuple):
                    became = self._take_answer(task, *became)
            except Exception as error:
                self.outcome.fail(task.spec, error)
                left = self.total - done - (executor is None)  # here `done` is without this one
                reason = self.outcome.failed[-1][1]
                self.failing(f"{task.label} failed, {left} runs are left: {reason}" if left else "")
                continue
            if became == "held":
                held.append(task)
            self.outcome.elsewhere += became == "there"
        return held

    def _take_answer(self, task: Task, became: Became, said: list[str]) -> Became:
        """Take what a worker of another machine answers, once its run is seen here."""
        for sentence in said:
            self.notify(sentence)
        if became != "held":
            wait_until_seen(task)
        return became

    def _wait(self, held: list[Task]) -> list[Task]:
        """Wait for tasks that other processes hold; returns those that are still to be made."""
        free = []
        for task in held:
            lease = leases.wait(task.lease, task.is_done, task.label, self.notify)
            if lease is None:
                self.outcome.elsewhere += 1
            else:
                lease.release()
                free.append(task)
        return free

    def settle(self) -> None:
        """Fill in the references that finished runs lack, and name the requested ones there are.

        A run that has its references keeps them: one sentence says that others were asked for.
        """
        others = 0
        kept = KeptRuns()
        for run_dir, task in self.tasks.items():
            try:
                run = _record_at(run_dir)
                if run is not None and run.reference.source == "missing":
                    with leases.alone(run_dir):  # another process may be filling it in
                        verified_records.fill_reference(run_dir, task.root)
                if run is not None and run_dir in self.kept:
                    kept.check(task, run)
            except UserError as e:
                self.outcome.fail(task.spec, e)
                continue
            if run is None:
                continue
            if run_dir in self.requested:
                self.outcome.run_dirs.append(run_dir)
                others += not _same(task.reference, run.reference)
        for sentence in kept.sentences():
            self.notify(sentence)
        if others:
            self.notify(
                "finished runs keep their references and their formula of Ω, though others are "
                f"asked for now ({others} of {len(self.outcome.run_dirs)} runs); run them again "
                "with --overwrite, or take another --out"
            )


def wait_until_seen(task: Task) -> None:
    """Wait for a run that a worker of another machine has finished."""
    end = time.monotonic() + SEEN
    while not task.is_done():
        if time.monotonic() > end:
            raise UserError(
                f"a worker finished {task.run_dir}, which cannot be seen here; is the file "
                "system that the machines share in order?"
            )
        for directory in (task.root, task.run_dir.parent):
            with suppress(OSError):  # it may not be seen yet either
                os.listdir(directory)  # asks the server anew
        time.sleep(leases.POLL)


def with_references(tasks: list[Task], *, overwrite: bool = False) -> list[Task]:
    """The runs and the reference runs that their metrics need; each once.

    Chance runs are short and come first, so that a run without offline references is whole when
    it is saved. Offline runs come last.

    Finished runs keep their references: a run that is finished with others needs none, unless it
    is to be made again.
    """
    needed: dict[run_spec.RunSpec, Task] = {}  # with a task that needs it
    for task in tasks:
        if task.spec.is_offline or (not overwrite and _has_others(task)):
            continue
        needed.setdefault(task.spec.chance_run(), task)
        for runs in task.streams.offline_runs(task.spec):
            for spec in runs:
                needed.setdefault(spec, task)
    requested = {task.spec for task in tasks}
    more = [task.beside(spec) for spec, task in needed.items() if spec not in requested]
    short = [task for task in more if not task.spec.is_offline]
    return [*short, *tasks, *(task for task in more if task.spec.is_offline)]


def _has_others(task: Task) -> bool:
    """Whether a run is finished with other references than those asked for now."""
    try:
        run = _record_at(task.run_dir)
    except UserError:  # damaged, which is said where it is read again
        return False
    return run is not None and not _same(task.reference, run.reference)


def _same(wanted: References, kept: References) -> bool:
    """Whether two runs refer to the same runs by the same formula."""
    return wanted == replace(kept, source=wanted.source, ideal=None, chance=None)


def _record_at(run_dir: Path) -> RunRecord | None:
    """The record of a finished run; None if there is no finished run."""
    try:
        return None if run_at(run_dir) is None else record_files.load(run_dir)
    except UserError:
        if run_at(run_dir) is None:  # it was put aside in this moment, to be replaced
            return None
        raise
