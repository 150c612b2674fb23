"""Who makes the tasks of a grid: this process, processes beside it, or other machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from embedbench.engines.engine import Engine
from embedbench.system.callback_types import Notify

from .prepared_run import StreamCache, in_worker
from .remote_runs import Away
from .shared_runs import SharedResult, Task, run_task


@dataclass(frozen=True)
class Makers:
    """They make tasks, in any order.

    Parameters
    ----------
    run : callable
        Makes a task, in this process or one beside it.
    executor : Executor or None
        Runs calls elsewhere; None: in this process.
    away : Away or None
        The runs directory, if the executor's processes may be on other machines.
    """

    run: Callable[[Task], SharedResult]
    executor: Executor | None
    away: Away | None

    @property
    def here(self) -> bool:
        """Whether this process makes the tasks, one after the other."""
        return self.executor is None

    def results(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Callable[[], SharedResult]]]:
        """Each task when it is its turn in this process, or made, and a call for its result."""
        if self.executor is None:
            yield from ((task, partial(self.run, task)) for task in tasks)
            return
        pending: dict[Future[Any], Task] = {
            self.executor.submit(self._call(task)): task for task in tasks
        }
        for future in as_completed(list(pending)):
            task = pending.pop(future)
            yield task, partial(self._take, task, future)

    def _call(self, task: Task) -> Callable[[], Any]:
        return self.away.call(task) if self.away else partial(self.run, task)

    def _take(self, task: Task, future: Future[Any]) -> SharedResult:
        made = future.result()
        result: SharedResult = self.away.take(task, made) if self.away else made
        return result


@contextmanager
def start_makers(
    engine: Engine, tasks: int, root: Path, threads: int, notify: Notify, workshop: StreamCache
) -> Iterator[Makers]:
    """The makers that an engine gives; they end with this context.

    Parameters
    ----------
    engine : Engine
        Who runs the tasks.
    tasks : int
        How many there are.
    root : Path
        The directory of all runs.
    threads : int
        Threads of a cell's arithmetic.
    notify : callable
        Takes a sentence, here or in a process beside this one.
    workshop : Workshop
        That of this process.
    """
    run = partial(run_task, threads=threads, notify=notify)
    away = None if engine.is_local else Away(root, threads, notify)
    with engine.executor(tasks, notify) as executor:
        here = partial(run, workshop=workshop)
        yield Makers(here if executor is None else partial(in_worker, run), executor, away)
