"""The state of a directory of runs: finished, being made, abandoned; nothing is changed there.

It is read from finished runs, leases, checkpoints and the plans of the grids that run, so it is the
same for every engine that works in this directory. A plan lies in `.plan-TOKEN.json` while its grid
runs, and `.plan-TOKEN.lease` is its lease; nothing else depends on it.
"""

import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean

from embedbench.config.json_records import JsonRecord, parse_json
from embedbench.errors import UserError
from embedbench.scores import record_files, run_record
from embedbench.storage import atomic_write, leases
from embedbench.storage.regular_files import read_text

from .run_dirs import checkpoint_path, run_at
from .run_task import Task

BESIDE = re.compile(r"\.(seed-.+)\.(lease|partial)")
SESSION = re.compile(r"session (\d{1,9})/(\d{1,9})\s*")
PLANS = ".plan-*.json"


# --- plans of grids ---


@dataclass(frozen=True)
class PlannedRun(JsonRecord):
    """A run of a grid, finished already or to be made.

    Parameters
    ----------
    name : str
        As sentences name it.
    replaces : str or None
        What `run_at` says of the finished run that it replaces.
    """

    name: str
    replaces: str | None = None

    def is_done(self, run_dir: Path) -> bool:
        """Whether it is finished, and not by the run that it replaces."""
        return run_at(run_dir) not in (None, self.replaces)


@dataclass(frozen=True)
class GridPlan(JsonRecord):
    """The runs that a grid is to make, and those that failed.

    Parameters
    ----------
    cells : dict
        Directory of a run, relative to that of all runs → the run.
    failed : dict
        Directory → why it failed.
    """

    cells: dict[str, PlannedRun]
    failed: dict[str, str] = field(default_factory=dict)


@contextmanager
def keep_plan(root: Path, tasks: Iterable[Task]) -> Iterator[Callable[[Task, str], None]]:
    """Keep the plan of a grid on disk while it runs, as far as that is possible.

    The plans of killed grids are removed. It yields a function that notes why a task failed. The
    tasks are those of the grid, also finished ones, so that a grid that goes on after an
    interruption has the total that it began with; without any there is no plan.
    """

    def directory(task: Task) -> str:
        return str(task.run_dir.relative_to(root))

    def write() -> None:
        with suppress(OSError, UserError):
            if plan.cells:
                atomic_write.write_safely(path, json.dumps(plan.to_json()), sync=False)

    def note_failure(task: Task, reason: str) -> None:
        plan.failed[directory(task)] = reason
        write()

    plan = GridPlan({directory(task): PlannedRun(task.label, task.replaces) for task in tasks})
    path = root / f".plan-{secrets.token_hex(4)}.json"
    with ExitStack() as stack:
        with suppress(OSError, UserError):  # where nothing can be written
            for old in root.glob(PLANS):
                if leases.is_free(_lease_of(old)):
                    old.unlink(missing_ok=True)
            lease = leases.take(_lease_of(path)) if plan.cells else None
            if lease is not None:
                stack.enter_context(lease)
        try:
            write()
            yield note_failure
        finally:
            with suppress(OSError):
                path.unlink(missing_ok=True)


def plans(root: Path) -> list[GridPlan]:
    """The plans of the grids that run; nothing is changed."""
    result = []
    for path in sorted(root.glob(PLANS)):
        holder = leases.holder(_lease_of(path))
        if holder is None or holder.has_ended():
            continue
        with suppress(UserError):  # removed in this moment, or damaged
            plan = GridPlan.from_json(parse_json(read_text(path), str(path)), str(path))
            if all(map(run_record.is_inside, [*plan.cells, *plan.failed])):
                result.append(plan)
    return result


def _lease_of(plan: Path) -> Path:
    return plan.with_suffix(".lease")


# --- the state of a directory ---


@dataclass(frozen=True, kw_only=True)
class Running(JsonRecord):
    """A run that a process makes.

    Parameters
    ----------
    run : str
        Its directory, relative to that of all runs.
    cell : str
        The run as sentences name it; its directory where no plan names it.
    host, pid : str, int
        The process.
    seconds : float
        Since it began, to about five seconds.
    session, sessions : int or None
        The session at work, from 1, and their number; None before the first.
    """

    run: str
    cell: str
    host: str
    pid: int
    seconds: float
    session: int | None = None
    sessions: int | None = None


@dataclass(frozen=True, kw_only=True)
class AbandonedRun(JsonRecord):
    """A run with a checkpoint and without a living process; `seconds` since it was written."""

    run: str
    cell: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class FailedRun(JsonRecord):
    """A run that failed in a grid that still runs."""

    run: str
    cell: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Status(JsonRecord):
    """A directory of runs at one moment.

    Parameters
    ----------
    finished : int
        Finished runs, references included.
    planned, done, waiting : int or None
        Runs of the running grids, and those of them that are finished or not begun;
        None if no grid runs.
    running, abandoned, failed : tuple
        Runs that are being made, that have a checkpoint alone, that failed.
    seconds_left : float or None
        An estimate from what runs of the same learner took; None if none is finished.
    unknown : int
        Runs that the estimate leaves out, because no run of their learner is finished.
    """

    finished: int
    planned: int | None = None
    done: int | None = None
    waiting: int | None = None
    running: tuple[Running, ...] = ()
    abandoned: tuple[AbandonedRun, ...] = ()
    failed: tuple[FailedRun, ...] = ()
    seconds_left: float | None = None
    unknown: int = 0


@dataclass
class Watcher:
    """Looks at a directory of runs; what finished runs took is read once."""

    root: Path
    _took: dict[Path, float] = field(default_factory=dict)

    def look(self) -> Status:
        """The directory at this moment."""
        grids = plans(self.root)
        planned = {run: entry for plan in grids for run, entry in plan.cells.items()}
        left = {run for run, entry in planned.items() if not entry.is_done(self.root / run)}
        finished, running, abandoned = 0, dict[str, Running](), []
        for run_dir in sorted(set(_run_dirs(self.root))):
            run = str(run_dir.relative_to(self.root))
            if record_files.is_finished(run_dir) and run not in left:
                finished += 1
                continue
            name = planned[run].name if run in planned else run
            if (at_work := _running(run_dir, run, name)) is not None:
                running[run] = at_work
            elif (age := _age(checkpoint_path(run_dir))) is not None:
                abandoned.append(AbandonedRun(run=run, cell=name, seconds=age))
        seen = Status(
            finished=finished, running=tuple(running.values()), abandoned=tuple(abandoned)
        )
        if not grids:
            return seen
        failures = {run: why for plan in grids for run, why in plan.failed.items() if run in left}
        seconds, unknown = self._estimate(planned, left - failures.keys(), running)
        return replace(
            seen,
            planned=len(planned),
            done=len(planned) - len(left),
            waiting=len(left - failures.keys() - running.keys()),
            failed=tuple(
                FailedRun(run=run, cell=planned[run].name, reason=why)
                for run, why in failures.items()
            ),
            seconds_left=seconds,
            unknown=unknown,
        )

    def _estimate(
        self, planned: dict[str, PlannedRun], left: set[str], running: dict[str, Running]
    ) -> tuple[float | None, int]:
        """Seconds until the runs that are left are made, and how many it leaves out."""
        learner = {run: entry.name.rpartition(" seed ")[0] for run, entry in planned.items()}
        took: dict[str, list[float]] = {}
        for directory, name in {Path(run).parent: name for run, name in learner.items()}.items():
            for run_dir in (self.root / directory).glob("seed-*"):
                if (seconds := self._seconds(run_dir)) is not None:
                    took.setdefault(name, []).append(seconds)
        known = [run for run in left if learner[run] in took]
        if left and not known:
            return None, len(left)
        begun = {run: at_work.seconds for run, at_work in running.items()}
        total = sum(max(0.0, mean(took[learner[run]]) - begun.get(run, 0.0)) for run in known)
        return total / max(1, len(running)), len(left) - len(known)

    def _seconds(self, run_dir: Path) -> float | None:
        """Seconds that a finished run took; None for other directories."""
        if run_dir not in self._took and record_files.is_finished(run_dir):
            try:
                spent = record_files.load(run_dir).seconds
            except UserError:
                return None
            seconds = spent.learn + spent.evaluate
            if not 0 <= seconds < 1e10:  # NaN, or nonsense in a record
                return None
            self._took[run_dir] = seconds
        return self._took.get(run_dir)


def status(root: Path) -> Status:
    """Look up what is finished, being made or abandoned under a directory of runs."""
    if not root.is_dir():
        raise UserError(f"there is no directory {root}; give the --out of a run")
    return Watcher(root).look()


def _run_dirs(root: Path) -> Iterator[Path]:
    """The directories of runs that are finished or begun."""
    for folder, directories, files in os.walk(root):
        here = Path(folder)
        for name in (*directories, *files):
            beside = BESIDE.fullmatch(name)
            if beside or name.startswith("seed-"):
                yield here / (beside[1] if beside else name)
        directories[:] = [d for d in directories if not d.startswith((".", "seed-"))]


def _running(run_dir: Path, run: str, name: str) -> Running | None:
    """The process that makes a run; None if no living one does."""
    path = leases.lease_path(run_dir)
    holder, silent = leases.holder(path), _age(path)
    if holder is None or silent is None or silent > leases.PATIENCE or holder.has_ended():
        return None
    session, sessions = _session(holder)
    return Running(
        run=run,
        cell=name,
        host=holder.host_name,
        pid=holder.pid,
        seconds=holder.moves * leases.BEAT + min(silent, leases.BEAT),
        session=session,
        sessions=sessions,
    )


def _session(holder: leases.Holder) -> tuple[int | None, int | None]:
    """The session at work, from 1, and their number, as the holder says."""
    said = SESSION.fullmatch(holder.doing or "")
    if said is None:
        return None, None
    done, number = int(said[1]), int(said[2])
    return min(done + 1, number), number


def _age(path: Path) -> float | None:
    """Seconds since a file, or the newest file of a directory, was written; None if none is."""
    try:
        files = list(path.iterdir()) if path.is_dir() else []
        newest = max(p.stat().st_mtime for p in (path, *files))
    except OSError:
        return None
    return max(0.0, time.time() - newest)
