"""The reference runs that metrics need: which they are, and how finished runs get their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from embedbench.errors import UserError
from embedbench.scores import record_files
from embedbench.scores.omega_reference import References
from embedbench.scores.run_record import RunRecord
from embedbench.storage import leases

from .grid_result import Outcome
from .prepared_run import StreamCache
from .run_dirs import run_at
from .run_one import label
from .run_spec import RunSpec


def with_references(
    cells: list[RunSpec], root: Path, workshop: StreamCache, *, overwrite: bool = False
) -> list[RunSpec]:
    """The cells and the reference runs that their metrics need; each once.

    Chance runs are short and come first, so that a cell without offline references is whole when
    it is saved. Offline runs come last.

    Finished runs keep their references: a cell that is finished with others needs none, unless it
    is to be made again.
    """
    needed: dict[RunSpec, None] = {}
    shared = set()  # streams whose offline reference does not depend on the order of the sessions
    for cell in cells:
        if cell.is_offline:
            continue
        depends = workshop.depends_on_order(cell)  # a protocol that cannot be built is refused here
        if not overwrite and _has_others(cell, root, workshop):
            continue
        needed[cell.chance_run()] = None
        stream = (cell.files, cell.protocol, cell.offline)
        if stream not in shared:
            needed |= dict.fromkeys(run for part in workshop.offline_runs(cell) for run in part)
            if not depends:
                shared.add(stream)
    asked = set(cells)
    more = [cell for cell in needed if cell not in asked]
    short = [cell for cell in more if not cell.is_offline]
    return [*short, *cells, *(cell for cell in more if cell.is_offline)]


def _has_others(cell: RunSpec, root: Path, workshop: StreamCache) -> bool:
    """Whether a cell is finished with other references than those asked for now."""
    try:
        run = _run_at(workshop.place(cell, root))
    except UserError:  # damaged, which is said where it is read again
        return False
    return run is not None and not _same(workshop.reference(cell, root), run.reference)


def _same(wanted: References, kept: References) -> bool:
    """Whether two runs refer to the same runs by the same formula."""
    return wanted == replace(kept, source=wanted.source, ideal=None, chance=None)


class Waiting:
    """The requested runs whose metrics wait for reference runs that are not finished.

    Parameters
    ----------
    asked : dict of Path to Cell
        The requested cells by their places.
    root : Path
        The directory of all runs.
    workshop : Workshop
        Knows which runs a cell refers to.
    """

    def __init__(self, asked: dict[Path, RunSpec], root: Path, workshop: StreamCache) -> None:
        self.asked, self.root = asked, root
        self._lacks = {
            place: lacks
            for place, cell in asked.items()
            if (lacks := self._missing(root / run for run in workshop.reference(cell, root).runs))
        }

    def finished(self, place: Path) -> None:
        """Fill in the runs that a run, finished in `place` just now, makes whole."""
        for waits in [p for p, lacks in self._lacks.items() if place == p or place in lacks]:
            self._lacks[waits] = self._missing(self._lacks[waits])
            if not self._lacks[waits] and record_files.is_finished(waits):
                del self._lacks[waits]
                self._fill(waits)

    def _fill(self, place: Path) -> None:
        """Fill in a run, unless another process is at it; the end of the grid looks again."""
        with suppress(UserError):
            lease = leases.take(leases.lease_path(place))
            if lease is not None:
                with lease:
                    record_files.fill_reference(place, self.root)

    @staticmethod
    def _missing(runs: Iterable[Path]) -> set[Path]:
        return {run for run in runs if not record_files.is_finished(run)}


def settle_references(
    places: dict[Path, RunSpec],
    asked: Collection[Path],
    root: Path,
    outcome: Outcome,
    notify: Callable[[str], None],
    workshop: StreamCache,
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
                _fill(place, label(cell), root, notify)
        except UserError as e:
            outcome.fail(cell, e)
            continue
        if run is None:
            continue
        by_threads[run.environment.get("threads")] += 1
        if place in asked:
            outcome.places.append(place)
            wanted, kept = workshop.reference(cell, root), run.reference
            others += not _same(wanted, kept)
    if others:
        notify(
            "finished runs keep their references and their formula of Ω, though others are asked "
            f"for now ({others} of {len(outcome.places)} runs); run them again with --overwrite, "
            "or take another --out"
        )
    return by_threads


def _run_at(place: Path) -> RunRecord | None:
    """The record of a finished run; None if there is no finished run."""
    try:
        return None if run_at(place) is None else record_files.load(place)
    except UserError:
        if run_at(place) is None:  # it was put aside in this moment, to be replaced
            return None
        raise


def _fill(place: Path, name: str, root: Path, notify: Callable[[str], None]) -> None:
    """Fill in the reference of a run, or wait for another process that does."""

    def is_there() -> bool:
        run = _run_at(place)
        return run is None or run.reference.source != "missing"

    lease = leases.wait(leases.lease_path(place), is_there, name, notify)
    if lease is not None:
        with lease:
            record_files.fill_reference(place, root)
