"""What is finished, being made or abandoned under a directory of runs; nothing is changed there.

It is read from finished runs, leases, checkpoints and the plans of the grids that run, so it is the
same for every engine that works in this directory.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

from embedbench.config.json_types import JsonRecord
from embedbench.errors import UserError
from embedbench.scores import record_files
from embedbench.storage.lease_holder import Holder, has_ended, parse_holder, read_lease
from embedbench.storage.leases import BEAT, PATIENCE, lease_path

from .grid_plan import PlannedCell, plans
from .run_dirs import checkpoint_path

BESIDE = re.compile(r"\.(seed-.+)\.(lease|partial)")
SESSION = re.compile(r"session (\d{1,9})/(\d{1,9})\s*")


@dataclass(frozen=True, kw_only=True)
class Running(JsonRecord):
    """A cell that a process makes.

    Parameters
    ----------
    run : str
        Its directory, relative to that of all runs.
    cell : str
        The cell as sentences name it; its directory where no plan names it.
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
    """A cell with a checkpoint and without a living process; `seconds` since it was written."""

    run: str
    cell: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class FailedRun(JsonRecord):
    """A cell that failed in a grid that still runs."""

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
        Cells of the running grids, and those of them that are finished or not begun;
        None if no grid runs.
    running, abandoned, failed : tuple
        Cells that are being made, that have a checkpoint alone, that failed.
    seconds_left : float or None
        An estimate from what cells of the same learner took; None if none is finished.
    unknown : int
        Cells that the estimate leaves out, because no cell of their learner is finished.
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
    """Looks at a directory of runs; what finished runs took is read once.

    Parameters
    ----------
    root : Path
        The directory.
    """

    root: Path
    _took: dict[Path, float] = field(default_factory=dict)

    def look(self) -> Status:
        """The directory at this moment."""
        cells: dict[str, PlannedCell] = {}
        failures: dict[str, str] = {}
        grids = plans(self.root)
        for plan, _ in grids:
            cells |= plan.cells
            failures |= plan.failed
        finished, running, abandoned = 0, [], []
        for place in sorted(set(_places(self.root))):
            run = str(place.relative_to(self.root))
            planned = cells.get(run)
            if record_files.is_finished(place) and (planned is None or planned.is_done(place)):
                finished += 1
                continue
            name = planned.name if planned else run
            at_work = _running(place, run, name)
            if at_work is not None:
                running.append(at_work)
            elif (age := _age(checkpoint_path(place))) is not None:
                abandoned.append(AbandonedRun(run=run, cell=name, seconds=age))
        if not grids:
            return Status(finished=finished, running=tuple(running), abandoned=tuple(abandoned))
        left = {run: c for run, c in cells.items() if not c.is_done(self.root / run)}
        failed = {run: why for run, why in failures.items() if run in left}
        at_work_now = {r.run: r for r in running}
        seconds, unknown = self._estimate(cells, left.keys() - failed.keys(), at_work_now)
        return Status(
            finished=finished,
            planned=len(cells),
            done=len(cells) - len(left),
            waiting=len(left.keys() - failed.keys() - at_work_now.keys()),
            running=tuple(running),
            abandoned=tuple(abandoned),
            failed=tuple(
                FailedRun(run=run, cell=left[run].name, reason=why) for run, why in failed.items()
            ),
            seconds_left=seconds,
            unknown=unknown,
        )

    def _estimate(
        self, cells: dict[str, PlannedCell], left: set[str], running: dict[str, Running]
    ) -> tuple[float | None, int]:
        """Seconds until the cells that are left are made, and how many it leaves out."""
        took: dict[str, list[float]] = {}
        for directory, learner in {Path(run).parent: c.learner for run, c in cells.items()}.items():
            for place in (self.root / directory).glob("seed-*"):
                if (seconds := self._seconds(place)) is not None:
                    took.setdefault(learner, []).append(seconds)
        total, unknown = 0.0, 0
        for run in left:
            if (each := took.get(cells[run].learner)) is None:
                unknown += 1
                continue
            begun = running[run].seconds if run in running else 0.0
            total += max(0.0, mean(each) - begun)
        if unknown == len(left):
            return (None if left else 0.0), unknown
        return total / max(1, len(running)), unknown

    def _seconds(self, place: Path) -> float | None:
        """What a finished run took; None for other directories."""
        if place not in self._took and record_files.is_finished(place):
            try:
                spent = record_files.load(place).seconds
            except UserError:
                return None
            seconds = spent.learn + spent.evaluate
            if not 0 <= seconds < 1e10:  # NaN, or nonsense of other people
                return None
            self._took[place] = seconds
        return self._took.get(place)


def status(root: Path) -> Status:
    """What is finished, being made or abandoned under a directory of runs.

    Raises
    ------
    UserError
        There is no such directory.
    """
    if not root.is_dir():
        raise UserError(f"there is no directory {root}; give the --out of a run")
    return Watcher(root).look()


def _places(root: Path) -> Iterator[Path]:
    """The places of runs that are finished or begun."""
    for folder, directories, files in os.walk(root):
        here = Path(folder)
        for name in (*directories, *files):
            beside = BESIDE.fullmatch(name)
            if beside or name.startswith("seed-"):
                yield here / (beside[1] if beside else name)
        directories[:] = [d for d in directories if not d.startswith((".", "seed-"))]


def _running(place: Path, run: str, name: str) -> Running | None:
    """The process that makes a cell; None if no living one does."""
    path = lease_path(place)
    holder, silent = parse_holder(read_lease(path) or b""), _age(path)
    if holder is None or silent is None or silent > PATIENCE or has_ended(holder):
        return None
    session, sessions = _session(holder)
    return Running(
        run=run,
        cell=name,
        host=holder.host_name,
        pid=holder.pid,
        seconds=holder.moves * BEAT + min(silent, BEAT),
        session=session,
        sessions=sessions,
    )


def _session(holder: Holder) -> tuple[int | None, int | None]:
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
