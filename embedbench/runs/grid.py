"""Grids of cells: run in several processes with the references they need, saved as they finish.

Other processes, here or on other machines, may run cells in the same directory. A cell that one of
them makes is waited for at the end, and made here if it stops.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from embedbench import leases
from embedbench.callbacks import StageProgress
from embedbench.disk import sync_path
from embedbench.engines.engine import HERE, Engine
from embedbench.errors import UserError
from embedbench.scores import record
from embedbench.scores.run_record import RunRecord

from .cell import Cell
from .execute import named
from .publish import is_tidy, lease_of, run_at, tidy
from .share import Result, Task, run_task
from .work import Workshop
from .workers import in_worker


@dataclass
class Outcome:
    """The result of running a grid.

    Parameters
    ----------
    places : list of Path
        Directories of the requested cells that are finished now.
    skipped : int
        Number of cells, references included, that were finished before.
    elsewhere : int
        Number of cells, references included, that other processes finished meanwhile.
    failed : list of tuple
        Pairs (cell, reason), one for each cell that failed.
    bad_input : bool
        Whether every failure came from wrong input.
    """

    places: list[Path] = field(default_factory=list)
    skipped: int = 0
    elsewhere: int = 0
    failed: list[tuple[Cell, str]] = field(default_factory=list)
    bad_input: bool = True

    def fail(self, cell: Cell, error: Exception) -> None:
        """Note a failure; the other cells continue."""
        if isinstance(error, UserError):
            self.failed.append((cell, str(error)))
        else:
            self.failed.append((cell, f"{type(error).__name__}: {error}"))
            self.bad_input = False


def with_references(cells: list[Cell], workshop: Workshop) -> list[Cell]:
    """The cells, preceded by the reference runs that their metrics need; each once."""
    needed: dict[Cell, None] = {}
    shared = set()  # streams whose offline reference does not depend on the order of the sessions
    for cell in cells:
        if cell.is_offline:
            continue
        needed[cell.chance_run()] = None
        stream = (cell.files, cell.protocol, cell.offline)
        if stream not in shared:
            needed |= dict.fromkeys(run for part in workshop.offline_runs(cell) for run in part)
            if not workshop.depends_on_order(cell):
                shared.add(stream)
    return [*needed, *(c for c in cells if c not in needed)]


def run_grid(
    cells: list[Cell],
    root: Path,
    *,
    engine: Engine = HERE,
    threads: int = 1,
    overwrite: bool = False,
    progress: StageProgress = lambda *_: None,
    tell: Callable[[str], None] | None = None,
    workshop: Workshop | None = None,
) -> Outcome:
    """Run cells and their references in several processes; each is saved as soon as it finishes.

    A cell that fails does not stop the others. A cell that was interrupted continues from its
    checkpoint. Metrics that need a reference which is not finished are filled in at the end.

    Parameters
    ----------
    cells : list of Cell
        What to run.
    root : Path
        The directory of all runs.
    engine : Engine
        Who runs the cells; it decides no answer.
    threads : int
        Threads of a cell's arithmetic. They decide the last bits: an interrupted cell goes on with
        those that it began with, and a finished one is kept.
    overwrite : bool
        Run finished cells again, and start interrupted ones from the beginning. References are not
        repeated.
    progress : callable
        `progress(label, done, total)` is called with the current cell, the number of finished cells
        and the number of all cells.
    tell : callable or None
        `tell(message)` is called here and in the worker processes, so it must be picklable (a
        module-level function).
    workshop : Workshop or None
        Files and streams that an earlier step opened; None opens them again.

    Returns
    -------
    Outcome
        Which cells finished, were skipped, or failed.
    """
    if root.exists() and not root.is_dir():
        raise UserError(f"{root} is a file; --out takes a directory for the run records")
    if not root.exists():  # fails here rather than after hours of training
        root.mkdir(parents=True, exist_ok=True)
        sync_path(root.parent)
    workshop, outcome, tell = workshop or Workshop(), Outcome(), tell or silent
    cells = [part for cell in cells for part in workshop.parts(cell)]
    places: dict[Path, Cell] = {}
    for cell in with_references(cells, workshop):
        places.setdefault(workshop.place(cell, root), cell)
    asked = {workshop.place(cell, root) for cell in cells}
    todo = []
    for place, cell in places.items():
        _tidy(place, root)
        anew = overwrite and place in asked
        task = Task(cell, place, root, anew, run_at(place) if anew else None)
        if not task.is_done():
            todo.append(task)
    outcome.skipped = len(places) - len(todo)
    run = partial(run_task, threads=threads, tell=tell)
    try:
        with engine.executor(len(todo), tell) as pool:
            ready = partial(run, workshop=workshop) if pool is None else partial(in_worker, run)
            _Crew(ready, pool, outcome, progress, tell, len(todo)).make_all(todo)
    except KeyboardInterrupt:  # workers have been stopped at once
        for task in todo:
            _tidy(task.place, root)
        raise
    for number, n in _settle_references(places, asked, root, outcome, tell, workshop).items():
        if number not in (threads, None):
            cells_were = "1 cell was" if n == 1 else f"{n} cells were"
            tell(f"{cells_were} finished with --threads {number}, and not run again with {threads}")
    return outcome


@dataclass
class _Crew:
    """Those who make the cells: this process, or a pool of processes."""

    run: Callable[[Task], Result]
    pool: Executor | None
    outcome: Outcome
    progress: StageProgress
    tell: Callable[[str], None]
    total: int
    done: int = 0
    said: set[Path] = field(default_factory=set)

    def make_all(self, tasks: list[Task]) -> None:
        """Make every task; those that other processes make are waited for at the end."""
        while tasks:
            tasks = self._wait(self._make(tasks))
        self.progress("", self.total, self.total)

    def _make(self, tasks: list[Task]) -> list[Task]:
        """Make the tasks that no other process holds; returns those that one does."""
        held = []
        for task, result in self._results(tasks):
            try:
                made = result()
            except Exception as e:
                self.outcome.fail(task.cell, e)
            else:
                if made is Result.HELD:
                    held.append(task)
                    continue
                self.outcome.elsewhere += made is Result.FINISHED
            self.done += 1
            if self.pool is not None:
                self.progress(named(task.cell), self.done, self.total)
        return held

    def _results(self, tasks: list[Task]) -> Iterator[tuple[Task, Callable[[], Result]]]:
        if self.pool is None:
            for task in tasks:
                self.progress(named(task.cell), self.done, self.total)
                yield task, partial(self.run, task)
            return
        pending = {self.pool.submit(self.run, task): task for task in tasks}
        for future in as_completed(list(pending)):
            yield pending.pop(future), future.result

    def _wait(self, held: list[Task]) -> list[Task]:
        """Wait until a task that other processes hold is free; returns those still to be made."""
        while held and not any(leases.is_free(task.lease) for task in held):
            for task in held:
                if task.place not in self.said:
                    self.tell(leases.waiting(named(task.cell), task.lease))
                    self.said.add(task.place)
            self.progress(f"waiting for {named(held[0].cell)}", self.done, self.total)
            time.sleep(leases.POLL)
            left = [task for task in held if not task.is_done()]
            self.outcome.elsewhere += len(held) - len(left)
            self.done += len(held) - len(left)
            held = left
        return held


def silent(_: str) -> None:
    """Take a sentence and say nothing."""


def _tidy(place: Path, root: Path) -> None:
    """Clear up beside a place, unless a living process is at it."""
    with suppress(OSError, UserError):  # where nothing can be written
        lease = None if is_tidy(place) else leases.take(lease_of(place))
        if lease is not None:
            with lease:
                tidy(place, root)


def _settle_references(
    places: dict[Path, Cell],
    asked: set[Path],
    root: Path,
    outcome: Outcome,
    tell: Callable[[str], None],
    workshop: Workshop,
) -> dict[Any, int]:
    """Fill in the references that finished runs lack, and name the requested runs that are there.

    A run that has its references keeps them: one sentence says that others were asked for. Returns
    the number of finished runs by their threads.
    """
    others, by_threads = 0, Counter[Any]()
    for place, cell in places.items():
        try:
            run = _run_at(place)
            if run is not None and run.reference.source == "missing":
                _fill(place, named(cell), root, tell)
        except UserError as e:
            outcome.fail(cell, e)
            continue
        if run is None:
            continue
        by_threads[run.environment.get("threads")] += 1
        if place in asked:
            outcome.places.append(place)
            wanted, kept = workshop.reference(cell, root), run.reference
            others += wanted != replace(kept, source=wanted.source, ideal=None, chance=None)
    if others:
        tell(
            "finished runs keep their references and their formula of Ω, though others are asked "
            f"for now ({others} of {len(outcome.places)} runs); run them again with --overwrite, "
            "or take another --out"
        )
    return by_threads


def _run_at(place: Path) -> RunRecord | None:
    """The record of a finished run; None if there is no finished run."""
    try:
        return None if run_at(place) is None else record.load(place)
    except UserError:
        if run_at(place) is None:  # it was put aside in this moment, to be replaced
            return None
        raise


def _fill(place: Path, name: str, root: Path, tell: Callable[[str], None]) -> None:
    """Fill in the reference of a run, or wait for another process that does."""

    def is_there() -> bool:
        run = _run_at(place)
        return run is None or run.reference.source != "missing"

    lease = leases.wait(lease_of(place), is_there, name, tell)
    if lease is not None:
        with lease:
            record.fill_reference(place, root)
