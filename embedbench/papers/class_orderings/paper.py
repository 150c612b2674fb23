"""`embedbench reproduce class-orderings`: Masana et al. (2020) on any embedding file."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

from embedbench.papers.data import find_files
from embedbench.papers.published import PaperTable
from embedbench.papers.runs import wanted
from embedbench.runs.cell import Cell

from .figures import figure1, figure2, figure3, figures4to9
from .runs import LEARNERS, ORDERS, Runs
from .tables import statements, table1

TABLES: dict[str, Callable[[Runs], list[PaperTable]]] = {
    "1": table1,
    "statements": statements,
    "fig1": figure1,
    "fig2": figure2,
    "fig3": figure3,
    "fig4": figures4to9,
}


def reproduce(
    names: Sequence[str],
    *,
    data: Sequence[str],
    out: Path,
    seeds: Sequence[int],
    learners: Sequence[str] = (),
    items: Sequence[str] = (),
    jobs: int = 1,
    device: str = "cpu",
    progress: Callable[[str, int, int], None] = lambda *_: None,
    notify: Callable[[str], None] = lambda _: None,
) -> tuple[list[PaperTable], list[str]]:
    """Run what is missing; returns the tables, and a sentence on each run that failed.

    Finished runs and orders are kept and used again.

    Parameters
    ----------
    names : of `TABLES`; empty: all
    data : embedding files; without any the shipped emoji
    out : directory of the files made, the orders, the runs and the tables
    learners : the ones to run, empty: all; of others finished runs are shown
    items : further settings, as `embedbench run --set` takes them; `protocol.sessions=5`
    """
    tables = wanted([n.lower() for n in names], TABLES, "table")
    learners = wanted(learners, LEARNERS, "learner of the paper")
    out.mkdir(parents=True, exist_ok=True)
    files = find_files(data, out, notify)
    runs = Runs(out, seeds, learners, device, items, jobs, files=files)
    notify("ordering the classes; orders that are there are kept")
    runs.make_orders(notify)
    cells = _cells(runs, tables)
    notify(f"{len(cells)} runs; those that are finished are kept")
    runs.run(cells, progress)
    return [table for n in tables for table in TABLES[n](runs)], runs.failed


def _cells(runs: Runs, tables: Sequence[str]) -> list[Cell]:
    """The runs that the tables need, those on one stream side by side: it is built once."""
    cells = [cell for name in runs.files for cell in runs.joint(name)] if "fig1" in tables else []
    if {"1", "statements", "fig4"} & set(tables):
        for name, kind in itertools.product(runs.files, ORDERS):
            by_learner = [runs.cells(name, kind, learner) for learner in runs.learners]
            cells += [cell for seed in zip(*by_learner, strict=True) for cell in seed]
    return cells
