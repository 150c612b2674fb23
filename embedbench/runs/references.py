"""The reference runs that metrics need: which they are, and how finished runs get their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from embedbench import leases
from embedbench.errors import UserError
from embedbench.scores import record
from embedbench.scores.run_record import RunRecord

from .cell import Cell
from .execute import named
from .outcome import Outcome
from .publish import lease_of, run_at
from .work import Workshop


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


def settle_references(
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
