"""The plan of a grid that runs: its cells, for those who look from outside, see `runs_status`.

`.plan-TOKEN.json` lies in the directory of all runs while the grid runs, and `.plan-TOKEN.lease` is
its lease. Nothing depends on either.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from embedbench.config.json_types import JsonRecord, parse_json
from embedbench.errors import UserError
from embedbench.scores.bounds import are_inside
from embedbench.storage import leases
from embedbench.storage.atomic_write import read_text, write_safely
from embedbench.storage.lease_holder import Holder, has_ended, parse_holder, read_lease

from .run_dirs import run_at
from .run_one import label
from .run_spec import RunSpec
from .shared_runs import Task

PLANS = ".plan-*.json"


@dataclass(frozen=True)
class PlannedCell(JsonRecord):
    """A cell of a grid, finished already or to be made.

    Parameters
    ----------
    name : str
        As sentences name it.
    replaces : str or None
        What `run_at` says of the finished run that it replaces.
    """

    name: str
    replaces: str | None = None

    @property
    def learner(self) -> str:
        """The name of the learner."""
        return self.name.rpartition(" seed ")[0]

    def is_done(self, place: Path) -> bool:
        """Whether it is finished, and not by the run that it replaces."""
        return run_at(place) not in (None, self.replaces)


@dataclass(frozen=True)
class GridPlan(JsonRecord):
    """What a grid is to make, and what failed.

    Parameters
    ----------
    cells : dict
        Directory of a run, relative to that of all runs → the cell.
    failed : dict
        Directory → why it failed.
    """

    cells: dict[str, PlannedCell]
    failed: dict[str, str] = field(default_factory=dict)


class PlanFile:
    """The plan of a grid that runs, kept on disk as far as that is possible.

    Parameters
    ----------
    path : Path
        The file.
    root : Path
        The directory of all runs.
    plan : Plan
        What is to be made.
    """

    def __init__(self, path: Path, root: Path, plan: GridPlan) -> None:
        self._path, self._root, self._plan = path, root, plan
        self._write()

    def fail(self, place: Path, reason: str) -> None:
        """Note that a cell has failed."""
        failed = {**self._plan.failed, str(place.relative_to(self._root)): reason}
        self._plan = replace(self._plan, failed=failed)
        self._write()

    def _write(self) -> None:
        with suppress(OSError, UserError):
            if self._plan.cells:
                write_safely(self._path, json.dumps(self._plan.to_json()), sync=False)


@contextmanager
def keep_plan(
    root: Path, places: Mapping[Path, RunSpec], tasks: Iterable[Task]
) -> Iterator[PlanFile]:
    """Keep the plan of a grid on disk while it runs; those of killed grids are removed.

    Parameters
    ----------
    root : Path
        The directory of all runs.
    places : mapping
        Where each cell belongs, also those that are finished, so that a grid that goes on after an
        interruption has the total that it began with.
    tasks : iterable of Task
        What is to be made; without any there is no plan.
    """
    replaces = {task.place: task.replaces for task in tasks}
    cells = {
        str(place.relative_to(root)): PlannedCell(label(cell), replaces.get(place))
        for place, cell in (places.items() if replaces else ())
    }
    path = root / f".plan-{secrets.token_hex(4)}.json"
    with ExitStack() as held:
        with suppress(OSError, UserError):  # where nothing can be written
            for old in root.glob(PLANS):
                if leases.is_free(_lease_of(old)):
                    old.unlink(missing_ok=True)
            lease = leases.take(_lease_of(path)) if cells else None
            if lease is not None:
                held.enter_context(lease)
        try:
            yield PlanFile(path, root, GridPlan(cells))
        finally:
            with suppress(OSError):
                path.unlink(missing_ok=True)


def plans(root: Path) -> list[tuple[GridPlan, Holder]]:
    """The plans of the grids that run, and the process of each; nothing is changed."""
    result = []
    for path in sorted(root.glob(PLANS)):
        holder = parse_holder(read_lease(_lease_of(path)) or b"")
        if holder is None or has_ended(holder):
            continue
        with suppress(UserError):  # removed in this moment, or damaged
            plan = GridPlan.from_json(parse_json(read_text(path), str(path)), str(path))
            if are_inside([*plan.cells, *plan.failed]):
                result.append((plan, holder))
    return result


def _lease_of(plan: Path) -> Path:
    return plan.with_suffix(".lease")
