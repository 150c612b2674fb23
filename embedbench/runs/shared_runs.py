"""Sharing cells with other processes: each is made by one of them, in whichever it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from embedbench.engines.local_pool import use_card
from embedbench.storage import leases
from embedbench.storage.atomic_write import remove

from .prepared_run import StreamCache
from .run_dirs import checkpoint_path, publish, run_at, set_aside, tidy
from .run_one import execute
from .run_spec import RunSpec


class SharedResult(Enum):
    """What became of a task: made here, finished by another process, or held by one."""

    MADE = 1
    FINISHED = 2
    HELD = 3


@dataclass(frozen=True)
class Task:
    """A cell that is to be made in its place.

    Parameters
    ----------
    cell : Cell
        The cell.
    place : Path
        Where it is saved.
    root : Path
        The directory of all runs.
    anew : bool
        Whether a checkpoint is dropped.
    replaces : str or None
        What `run_at` says of the finished run that it replaces.
    """

    cell: RunSpec
    place: Path
    root: Path
    anew: bool = False
    replaces: str | None = None

    @property
    def lease(self) -> Path:
        """The lease on its place."""
        return leases.lease_path(self.place)

    def is_done(self) -> bool:
        """Whether it is finished, and not by the run that it replaces."""
        return run_at(self.place) not in (None, self.replaces)


def run_task(
    task: Task, threads: int, notify: Callable[[str], None], workshop: StreamCache
) -> SharedResult:
    """Make a cell, unless another living process is at it or has finished it.

    Parameters
    ----------
    task : Task
        The cell and its place.
    threads : int
        Threads of its arithmetic.
    notify : callable
        Takes a sentence.
    workshop : Workshop
        Makes the objects of the cell.
    """
    use_card(task.cell.device)
    return run_held(task, lambda lease: _make(task, threads, notify, workshop, lease))


def run_held(task: Task, make: Callable[[leases.Lease], None]) -> SharedResult:
    """Call `make` with the lease on a task, unless it is done or another living process is at it.

    Parameters
    ----------
    task : Task
        The cell and its place.
    make : callable
        `make(lease)` makes the cell, or publishes it.
    """
    task.place.parent.mkdir(parents=True, exist_ok=True)
    lease = leases.take(task.lease)
    if lease is None:
        return SharedResult.HELD
    with lease:
        tidy(task.place, task.root)
        if task.is_done():
            return SharedResult.FINISHED
        try:
            make(lease)
        except Exception:
            if lease.is_mine():
                raise
            return SharedResult.HELD  # who has taken the lease over has cleared up what we were at
    return SharedResult.MADE


def _make(
    task: Task,
    threads: int,
    notify: Callable[[str], None],
    workshop: StreamCache,
    lease: leases.Lease,
) -> None:
    """Make a cell whose lease is held; a run that it replaces comes back if it fails."""
    old = None
    if task.anew:
        remove(checkpoint_path(task.place))
        if run_at(task.place) is not None:
            old = set_aside(task.place)
    try:
        execute(workshop.prepare(task.cell, task.root), threads, notify, lease)
    except BaseException:
        if old is not None and old.exists():
            publish(old, task.place, task.root)
        raise
    if old is not None:
        remove(old)
