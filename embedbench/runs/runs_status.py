"""The state of a directory of runs: finished, being made, abandoned; nothing is changed there.

It is read from finished runs, leases and checkpoints, so it is the same for every engine that works
in this directory.
"""

import os
import re
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from embedbench.config.json_records import ABSENT, JsonRecord
from embedbench.errors import UserError
from embedbench.scores import record_files
from embedbench.storage import leases

from .run_dirs import TUNING, checkpoint_path, trials_path

BESIDE = re.compile(r"\.(seed-.+)\.(lease|partial)")
SEARCH = re.compile(r"\.(.+\.json)\.(lease|scores)")  # in `tuning`
TRIALS = re.compile(r"trials (\d{1,9})/(\d{1,9})\s*")
SESSION = re.compile(r"session (\d{1,9})/(\d{1,9})\s*")


@dataclass(frozen=True, kw_only=True)
class Running(JsonRecord):
    """A run that a process makes, or a search for settings.

    Parameters
    ----------
    run : str
        Its directory, relative to that of all runs; of a search its log.
    host, pid : str, int
        The process.
    seconds : float
        Since it began, to about five seconds.
    session, sessions : int or None
        The session at work, from 1, and their number; None before the first.
    trials_done, trials : int or None
        Of a search: its finished trials, and all; None before it has counted them.
    """

    run: str
    host: str
    pid: int
    seconds: float
    session: int | None = None
    sessions: int | None = None
    trials_done: int | None = field(default=None, metadata=ABSENT)
    trials: int | None = field(default=None, metadata=ABSENT)


@dataclass(frozen=True, kw_only=True)
class AbandonedRun(JsonRecord):
    """A run with a checkpoint and without a living process; `seconds` since it was written.

    Or a search for settings with finished trials.
    """

    run: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Status(JsonRecord):
    """A directory of runs at one moment.

    Parameters
    ----------
    finished : int
        Finished runs, references included.
    running, abandoned : tuple
        Runs and searches that are being made, also anew; and those that have a checkpoint, or
        scores of trials, alone.
    """

    finished: int
    running: tuple[Running, ...] = ()
    abandoned: tuple[AbandonedRun, ...] = ()


def status(root: Path) -> Status:
    """Look up what is finished, being made or abandoned under a directory of runs."""
    if not root.is_dir():
        raise UserError(f"there is no directory {root}", "give the --out of a run")
    finished = 0
    running = list[Running]()
    abandoned = list[AbandonedRun]()
    for run_dir in sorted(set(_run_dirs(root))):
        run = str(run_dir.relative_to(root))
        if (made_now := _running(run_dir, run)) is not None:
            running.append(made_now)
        elif record_files.is_finished(run_dir):
            finished += 1
        elif (age := _age(_kept_work(run_dir))) is not None:
            abandoned.append(AbandonedRun(run=run, seconds=age))
    return Status(finished=finished, running=tuple(running), abandoned=tuple(abandoned))


def at_work(run_dirs: Collection[Path]) -> Iterator[tuple[Path, Running]]:
    """Yield those of some runs that a process makes now. Each folder is read once, not each run."""
    for folder in sorted({run_dir.parent for run_dir in run_dirs}):
        with suppress(OSError):  # nothing was begun there yet
            for name in sorted(os.listdir(folder)):
                beside = BESIDE.fullmatch(name)
                run_dir = folder / (beside[1] if beside else name)
                if beside is None or beside[2] != "lease" or run_dir not in run_dirs:
                    continue
                if (run := _running(run_dir, run_dir.name)) is not None:
                    yield run_dir, run


def _run_dirs(root: Path) -> Iterator[Path]:
    """The directories of runs that are finished or begun, and the logs of searches begun."""
    for folder, directories, files in os.walk(root):
        here = Path(folder)
        if here.name == TUNING:
            searches = filter(None, map(SEARCH.fullmatch, files))
            yield from (here / search[1] for search in searches)
        for name in (*directories, *files):
            beside = BESIDE.fullmatch(name)
            if beside or name.startswith("seed-"):
                yield here / (beside[1] if beside else name)
        directories[:] = [d for d in directories if not d.startswith((".", "seed-"))]


def _kept_work(run_dir: Path) -> Path:
    """Where an interrupted run, or search, has what it goes on from."""
    return trials_path(run_dir) if run_dir.parent.name == TUNING else checkpoint_path(run_dir)


def _running(run_dir: Path, run: str) -> Running | None:
    """The process that makes a run; None if no living one does."""
    path = leases.lease_path(run_dir)
    holder = leases.holder(path)
    silent = _age(path)
    if holder is None or silent is None or silent > leases.PATIENCE or holder.has_ended():
        return None
    progress: dict[str, int] = {}
    if said := SESSION.fullmatch(holder.doing or ""):
        done = int(said[1])
        number = int(said[2])
        progress = {"session": min(done + 1, number), "sessions": number}
    if said := TRIALS.fullmatch(holder.doing or ""):
        progress = {"trials_done": int(said[1]), "trials": int(said[2])}
    return Running(
        run=run,
        host=holder.host_name,
        pid=holder.pid,
        seconds=holder.moves * leases.BEAT + min(silent, leases.BEAT),
        **progress,
    )


def _age(path: Path) -> float | None:
    """Seconds since a file, or the newest file of a directory, was written; None if none is."""
    try:
        files = list(path.iterdir()) if path.is_dir() else []
        newest = max(p.stat().st_mtime for p in (path, *files))
    except OSError:
        return None
    return max(0.0, time.time() - newest)
