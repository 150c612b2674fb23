"""The state of a directory of runs: finished, being made, abandoned; nothing is changed there.

It is read from finished runs, leases and checkpoints, so it is the same for every engine that works
in this directory.
"""

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from embedbench.config.json_records import JsonRecord
from embedbench.errors import UserError
from embedbench.scores import record_files
from embedbench.storage import leases

from .run_dirs import checkpoint_path

BESIDE = re.compile(r"\.(seed-.+)\.(lease|partial)")
SESSION = re.compile(r"session (\d{1,9})/(\d{1,9})\s*")


@dataclass(frozen=True, kw_only=True)
class Running(JsonRecord):
    """A run that a process makes.

    Parameters
    ----------
    run : str
        Its directory, relative to that of all runs.
    host, pid : str, int
        The process.
    seconds : float
        Since it began, to about five seconds.
    session, sessions : int or None
        The session at work, from 1, and their number; None before the first.
    """

    run: str
    host: str
    pid: int
    seconds: float
    session: int | None = None
    sessions: int | None = None


@dataclass(frozen=True, kw_only=True)
class AbandonedRun(JsonRecord):
    """A run with a checkpoint and without a living process; `seconds` since it was written."""

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
        Runs that are being made, also anew; and those that have a checkpoint alone.
    """

    finished: int
    running: tuple[Running, ...] = ()
    abandoned: tuple[AbandonedRun, ...] = ()


def status(root: Path) -> Status:
    """Look up what is finished, being made or abandoned under a directory of runs."""
    if not root.is_dir():
        raise UserError(f"there is no directory {root}", "give the --out of a run")
    finished, running, abandoned = 0, list[Running](), list[AbandonedRun]()
    for run_dir in sorted(set(_run_dirs(root))):
        run = str(run_dir.relative_to(root))
        if (at_work := _running(run_dir, run)) is not None:
            running.append(at_work)
        elif record_files.is_finished(run_dir):
            finished += 1
        elif (age := _age(checkpoint_path(run_dir))) is not None:
            abandoned.append(AbandonedRun(run=run, seconds=age))
    return Status(finished=finished, running=tuple(running), abandoned=tuple(abandoned))


def _run_dirs(root: Path) -> Iterator[Path]:
    """The directories of runs that are finished or begun."""
    for folder, directories, files in os.walk(root):
        here = Path(folder)
        for name in (*directories, *files):
            beside = BESIDE.fullmatch(name)
            if beside or name.startswith("seed-"):
                yield here / (beside[1] if beside else name)
        directories[:] = [d for d in directories if not d.startswith((".", "seed-"))]


def _running(run_dir: Path, run: str) -> Running | None:
    """The process that makes a run; None if no living one does."""
    path = leases.lease_path(run_dir)
    holder, silent = leases.holder(path), _age(path)
    if holder is None or silent is None or silent > leases.PATIENCE or holder.has_ended():
        return None
    at_work: dict[str, int] = {}
    if said := SESSION.fullmatch(holder.doing or ""):
        done, number = int(said[1]), int(said[2])
        at_work = {"session": min(done + 1, number), "sessions": number}
    return Running(
        run=run,
        host=holder.host_name,
        pid=holder.pid,
        seconds=holder.moves * leases.BEAT + min(silent, leases.BEAT),
        **at_work,
    )


def _age(path: Path) -> float | None:
    """Seconds since a file, or the newest file of a directory, was written; None if none is."""
    try:
        files = list(path.iterdir()) if path.is_dir() else []
        newest = max(p.stat().st_mtime for p in (path, *files))
    except OSError:
        return None
    return max(0.0, time.time() - newest)
