"""Grids of cells: run in several processes with the references they need, saved as they finish."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import as_completed
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from embedbench.callbacks import StageProgress
from embedbench.errors import UserError
from embedbench.machine import cores
from embedbench.scores import record
from embedbench.scores.run_record import References

from .cell import Cell
from .execute import run_cell
from .work import Workshop, partial_of
from .workers import in_worker, worker_pool

Run = Callable[[Cell], Any]


@dataclass
class Outcome:
    """The result of running a grid.

    Parameters
    ----------
    places : list of Path
        Directories of the requested cells that are finished now.
    skipped : int
        Number of cells, references included, that were finished before.
    failed : list of tuple
        Pairs (cell, reason), one for each cell that failed.
    bad_input : bool
        Whether every failure came from wrong input.
    """

    places: list[Path] = field(default_factory=list)
    skipped: int = 0
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
    jobs: int = 1,
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
    jobs : int
        The number of processes.
    overwrite : bool
        Run finished cells again, and start interrupted ones from the beginning. References are not
        repeated.
    progress : callable
        `progress(label, done, total)` is called with the current cell, the number of finished cells
        and the number of all cells.
    tell : callable or None
        `tell(message)` is called in the worker process, so it must be picklable (a module-level
        function).
    workshop : Workshop or None
        Files and streams that an earlier step opened; None opens them again.

    Returns
    -------
    Outcome
        Which cells finished, were skipped, or failed.
    """
    if root.exists() and not root.is_dir():
        raise UserError(f"{root} is a file; --out takes a directory for the run records")
    root.mkdir(parents=True, exist_ok=True)  # fails here rather than after hours of training
    workshop, outcome = workshop or Workshop(), Outcome()
    cells = [part for cell in cells for part in workshop.parts(cell)]
    places: dict[Path, Cell] = {}
    for cell in with_references(cells, workshop):
        places.setdefault(workshop.place(cell, root), cell)
    asked = {workshop.place(cell, root) for cell in cells}
    todo = [
        cell
        for place, cell in places.items()
        if not (place / "record.json").is_file() or (overwrite and place in asked)
    ]
    outcome.skipped = len(places) - len(todo)
    for place in asked if overwrite else ():
        shutil.rmtree(partial_of(place), ignore_errors=True)
    jobs = max(1, min(jobs, len(todo)))
    run = partial(run_cell, root=root, threads=max(1, cores() // jobs), tell=tell)
    if jobs == 1:
        _run_here(todo, partial(run, workshop=workshop), outcome, progress)
    else:
        _run_pool(todo, partial(in_worker, run), jobs, outcome, progress)
    finished = [p for p in places if (p / "record.json").is_file()]
    for place in finished:
        _refer(workshop.reference(places[place], root), place, root)
    outcome.places = [p for p in finished if p in asked]
    return outcome


def _refer(reference: References, place: Path, root: Path) -> None:
    """Score a saved cell again if its references are missing or were others."""
    kept = record.load(place)
    same = reference == replace(kept.reference, source=reference.source, ideal=None, chance=None)
    if not same or kept.reference.source == "missing":
        record.save(record.evaluate(replace(kept, reference=reference), place, root), place)


def _run_here(todo: list[Cell], run: Run, outcome: Outcome, progress: StageProgress) -> None:
    for i, cell in enumerate(todo):
        progress(f"{cell.learner} seed {cell.seed}", i, len(todo))
        try:
            run(cell)
        except Exception as e:
            outcome.fail(cell, e)
    progress("", len(todo), len(todo))


def _run_pool(
    todo: list[Cell], run: Run, jobs: int, outcome: Outcome, progress: StageProgress
) -> None:
    with worker_pool(jobs) as pool:
        pending = {pool.submit(run, cell): cell for cell in todo}
        for future in as_completed(list(pending)):
            cell = pending.pop(future)
            try:
                future.result()
            except Exception as e:
                outcome.fail(cell, e)
            progress(f"{cell.learner} seed {cell.seed}", len(todo) - len(pending), len(todo))
