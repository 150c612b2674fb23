"""The plan of a grid of runs, on disk while the grid runs: which runs it makes, which failed.

It lies in `.plan-TOKEN.json` in the directory of all runs, and `.plan-TOKEN.lease` is its lease.
Nothing but `runs status` depends on it.
"""

import json
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from embedbench.config.json_records import JsonRecord, parse_json
from embedbench.errors import UserError
from embedbench.scores.run_record import is_inside
from embedbench.storage import leases
from embedbench.storage.atomic_write import write_safely
from embedbench.storage.regular_files import read_text

from .run_dirs import run_at
from .stream_cache import Task

PLANS = ".plan-*.json"


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
                write_safely(path, json.dumps(plan.to_json()), sync=False)

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
            if all(map(is_inside, [*plan.cells, *plan.failed])):
                result.append(plan)
    return result


def _lease_of(plan: Path) -> Path:
    return plan.with_suffix(".lease")
