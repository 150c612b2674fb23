"""Grids of cells: run in several processes with the references they need, saved as they finish.

Other processes, here or on other machines, may run cells in the same directory. A cell that one of
them makes is waited for at the end, and made here if it stops.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from embedbench.engines.engine import HERE, Engine
from embedbench.errors import UserError
from embedbench.storage import leases
from embedbench.storage.atomic_write import sync_path
from embedbench.system.callback_types import StageProgress

from .executors import Makers, start_makers
from .grid_plan import PlanFile, keep_plan
from .grid_result import Outcome
from .prepared_run import StreamCache
from .reference_runs import Waiting, settle_references, with_references
from .run_dirs import run_at, tidy_if_free
from .run_one import label
from .run_spec import RunSpec
from .shared_runs import SharedResult, Task


def run_grid(
    cells: list[RunSpec],
    root: Path,
    *,
    engine: Engine = HERE,
    threads: int = 1,
    overwrite: bool = False,
    progress: StageProgress = lambda *_: None,
    notify: Callable[[str], None] | None = None,
    learned: Callable[[list[Path]], None] = lambda _: None,
    workshop: StreamCache | None = None,
) -> Outcome:
    """Run cells and their references in several processes; each is saved as soon as it finishes.

    References come after the cells. Metrics that need one are open until it is finished, and then
    filled in. A cell that fails does not stop the others. A cell that was interrupted continues
    from its checkpoint.

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
    notify : callable or None
        `tell(message)` is called here and in the worker processes, so it must be picklable (a
        module-level function).
    learned : callable
        `learned(places)` is called with the requested cells that are finished, once offline
        references are all that is left to be made.
    workshop : Workshop or None
        Files and streams that an earlier step opened; None opens them again.

    Returns
    -------
    Outcome
        Which cells finished, were skipped, or failed.
    """
    if root.exists() and not root.is_dir():
        raise UserError(f"{root} is a file; --out takes a directory for the run records")
    workshop, outcome, notify = workshop or StreamCache(), Outcome(), notify or silent
    cells = [part for cell in cells for part in workshop.parts(cell)]
    places: dict[Path, RunSpec] = {}
    for cell in with_references(cells, root, workshop, overwrite=overwrite):
        places.setdefault(workshop.place(cell, root), cell)
    asked = {workshop.place(cell, root): cell for cell in cells}
    if not root.exists():  # the files are there; fails here rather than after hours of training
        root.mkdir(parents=True, exist_ok=True)
        sync_path(root.parent)
    todo = _todo(places, root, asked if overwrite else ())
    outcome.skipped = len(places) - len(todo)
    waiting = Waiting(asked, root, workshop)
    try:
        with (
            keep_plan(root, places, todo) as plan,
            start_makers(engine, len(todo), root, threads, notify, workshop) as makers,
        ):
            crew = _Crew(makers, outcome, progress, notify, len(todo), waiting, learned, plan)
            crew.make_all(todo)
    except KeyboardInterrupt:  # workers have been stopped at once
        for task in todo:
            tidy_if_free(task.place, root)
        raise
    for number, n in settle_references(places, asked, root, outcome, notify, workshop).items():
        if number not in (threads, None):
            runs_were = "1 run was" if n == 1 else f"{n} runs were"
            notify(
                f"{runs_were} finished with --threads {number}, and not run again with {threads}"
            )
    return outcome


def _todo(places: dict[Path, RunSpec], root: Path, anew: Collection[Path]) -> list[Task]:
    """The tasks that are not finished, or are to be made `anew`."""
    todo = []
    for place, cell in places.items():
        tidy_if_free(place, root)
        again = place in anew
        task = Task(cell, place, root, again, run_at(place) if again else None)
        if not task.is_done():
            todo.append(task)
    return todo


@dataclass
class _Crew:
    """Those who make the cells, and what they have done."""

    makers: Makers
    outcome: Outcome
    progress: StageProgress
    notify: Callable[[str], None]
    total: int
    waiting: Waiting
    learned: Callable[[list[Path]], None]
    plan: PlanFile
    done: int = 0
    said: set[Path] = field(default_factory=set)
    all_learned: bool = False

    def make_all(self, tasks: list[Task]) -> None:
        """Make every task; those that other processes make are waited for at the end."""
        while tasks:
            tasks = self._wait(self._make(tasks))
        self.progress("", self.total, self.total)

    def _make(self, tasks: list[Task]) -> list[Task]:
        """Make the tasks that no other process holds; returns those that one does."""
        held, left = [], {task.place: task for task in tasks}
        self._look(left)
        for task, result in self.makers.results(tasks):
            if self.makers.here:
                self.progress(label(task.cell), self.done, self.total)
            try:
                made: SharedResult | None = result()
            except Exception as e:
                self.outcome.fail(task.cell, e)
                self.plan.fail(task.place, self.outcome.failed[-1][1])
                made = None
            if made is SharedResult.HELD:
                held.append(task)
            else:
                self.outcome.elsewhere += made is SharedResult.FINISHED
                self.done += 1
                self.waiting.finished(task.place)
                if not self.makers.here:
                    self.progress(label(task.cell), self.done, self.total)
            del left[task.place]
            self._look(left)
        return held

    def _look(self, left: dict[Path, Task]) -> None:
        """Hand over what has been learned, once only references are left to be made."""
        if self.all_learned or not left or any(place in self.waiting.asked for place in left):
            return
        self.all_learned = True
        if any(task.cell.is_offline for task in left.values()):
            self.learned([place for place in self.waiting.asked if run_at(place)])

    def _wait(self, held: list[Task]) -> list[Task]:
        """Wait until a task that other processes hold is free; returns those still to be made."""
        while held and not any(leases.is_free(task.lease) for task in held):
            for task in held:
                if task.place not in self.said:
                    self.notify(leases.waiting(label(task.cell), task.lease))
                    self.said.add(task.place)
            self.progress(f"waiting for {label(held[0].cell)}", self.done, self.total)
            time.sleep(leases.POLL)
            left = [task for task in held if not task.is_done()]
            for task in held:
                if task not in left:
                    self.waiting.finished(task.place)
            self.outcome.elsewhere += len(held) - len(left)
            self.done += len(held) - len(left)
            held = left
        return held


def silent(_: str) -> None:
    """Take a sentence and say nothing."""
