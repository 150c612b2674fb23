"""Grids of cells: run over the cores with the references they need, kept as they finish."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from embedbench.errors import UserError
from embedbench.machine import cores, keep_freed_memory
from embedbench.scores import record

from .cell import Cell, partial_of
from .execute import run_cell
from .registry import learner_class


@dataclass
class Outcome:
    """What a grid came to.

    Parameters
    ----------
    places : directories of the cells asked for that are finished now
    skipped : how many of these (references among them) were finished before
    failed : cells that failed, with the reason
    bad_input : every failure was the input's fault
    """

    places: list[Path] = field(default_factory=list)
    skipped: int = 0
    failed: list[tuple[Cell, str]] = field(default_factory=list)
    bad_input: bool = True

    def fail(self, cell: Cell, error: Exception) -> None:
        """Keep a failure; other cells go on."""
        if isinstance(error, UserError):
            self.failed.append((cell, str(error)))
        else:
            self.failed.append((cell, f"{type(error).__name__}: {error}"))
            self.bad_input = False


def with_references(cells: list[Cell]) -> list[Cell]:
    """The cells and, before them, the reference runs that their metrics need; each once."""
    needed: dict[Cell, None] = {}
    shared = set()  # streams whose offline reference does not depend on the order of the sessions
    for cell in cells:
        if learner_class(cell.learner).tags.offline:
            continue
        needed[cell.chance()] = None
        stream = (cell.files, cell.protocol, cell.protocol_params, cell.offline_params)
        if stream not in shared:
            needed |= dict.fromkeys(run for part in cell.offline() for run in part)
            if not cell.stream().fitted:
                shared.add(stream)
    return [*needed, *(c for c in cells if c not in needed)]


def run_grid(
    cells: list[Cell],
    root: Path,
    *,
    jobs: int = 1,
    overwrite: bool = False,
    progress: Callable[[str, int, int], None] = lambda *_: None,
    tell: Callable[[str], None] | None = None,
) -> Outcome:
    """Run cells and their references over `jobs` processes; each is kept as soon as it finishes.

    A cell that fails does not stop the others, and one that was cut off goes on from its
    checkpoint. Metrics that had to wait for a reference are filled in at the end. `overwrite` runs
    finished cells again, and those that were cut off from the beginning, but not their references.
    `tell` takes a sentence, in the process of a cell: a function of a module.
    """
    if root.exists() and not root.is_dir():
        raise UserError(f"{root} is a file; --out takes a directory for the run records")
    root.mkdir(parents=True, exist_ok=True)  # refused here rather than after hours of training
    outcome = Outcome()
    cells = [part for cell in cells for part in cell.parts()]
    places: dict[Path, Cell] = {}
    for cell in with_references(cells):
        places.setdefault(cell.place(root), cell)
    asked = {cell.place(root) for cell in cells}
    todo = [
        cell
        for place, cell in places.items()
        if not (place / "record.json").is_file() or (overwrite and place in asked)
    ]
    outcome.skipped = len(places) - len(todo)
    for place in asked if overwrite else ():
        shutil.rmtree(partial_of(place), ignore_errors=True)
    jobs = max(1, min(jobs, len(todo)))
    threads = max(1, cores() // jobs)
    if jobs == 1:
        _run_here(todo, root, threads, outcome, progress, tell)
    else:
        _run_pool(todo, root, jobs, threads, outcome, progress, tell)
    finished = [p for p in places if (p / "record.json").is_file()]
    for place in finished:
        _refer(places[place], place, root)
    outcome.places = [p for p in finished if p in asked]
    return outcome


def _refer(cell: Cell, place: Path, root: Path) -> None:
    """Score a kept cell again if it lacks its references, or was run with other ones."""
    kept = record.load(place).to_json()
    wanted = cell.reference(root)
    same = all(kept["reference"][k] == v for k, v in wanted.items())
    if not same or kept["reference"]["source"] == "missing":
        record.save(record.evaluate({**kept, "reference": wanted}, place, root), place)


def _run_here(
    todo: list[Cell],
    root: Path,
    threads: int,
    outcome: Outcome,
    progress: Callable[[str, int, int], None],
    tell: Callable[[str], None] | None,
) -> None:
    for i, cell in enumerate(todo):
        progress(f"{cell.learner} seed {cell.seed}", i, len(todo))
        try:
            run_cell(cell, root, threads, tell)
        except Exception as e:
            outcome.fail(cell, e)
    progress("", len(todo), len(todo))


def _run_pool(
    todo: list[Cell],
    root: Path,
    jobs: int,
    threads: int,
    outcome: Outcome,
    progress: Callable[[str, int, int], None],
    tell: Callable[[str], None] | None,
) -> None:
    spawn = get_context("spawn")
    with ProcessPoolExecutor(jobs, spawn, initializer=keep_freed_memory) as pool:
        pending = {pool.submit(run_cell, cell, root, threads, tell): cell for cell in todo}
        try:
            for future in as_completed(list(pending)):
                cell = pending.pop(future)
                try:
                    future.result()
                except Exception as e:
                    outcome.fail(cell, e)
                progress(f"{cell.learner} seed {cell.seed}", len(todo) - len(pending), len(todo))
        except KeyboardInterrupt:
            for (
                process
            ) in pool._processes.values():  # there is no public way to stop a running cell
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
