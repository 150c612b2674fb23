"""`embedbench reproduce kemker2018`: which runs each table needs, and the whole in one call."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

from embedbench.callbacks import Notify, StageProgress
from embedbench.papers.runs import wanted
from embedbench.papers.table import Table
from embedbench.runs.cell import Cell

from .data import NAMES, find_data
from .figures import figures, table_s9
from .runs import LEARNERS, PROTOCOLS, Runs
from .s1 import CHOICES, s1_cells, table_s1
from .s7 import table_s7
from .s10 import s10_cells, s10_rows, table_s10
from .tables import table1, table2, table2_sizes, table3, table4, table5, table_s6, table_s8

TABLES: dict[str, tuple[Callable[[Runs], Table], ...]] = {
    "1": (table1,),
    "2": (table2, table2_sizes),
    "3": (table3,),
    "4": (table4,),
    "5": (table5,),
    "s1": (table_s1,),
    "s6": (table_s6,),
    "s7": (table_s7,),
    "s8": (table_s8,),
    "s9": (table_s9,),
    "s10": (table_s10,),
    "figures": (figures,),
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
    progress: StageProgress = lambda *_: None,
    notify: Notify = lambda _: None,
) -> tuple[list[Table], list[str]]:
    """Run what is missing; returns the tables, and a sentence on each run that failed.

    Finished runs are kept and used again.

    Parameters
    ----------
    names : of `TABLES`; empty: all
    data : "mnist=mnist.h5", "cub-stand-in=birds.h5", …; see `find_data`
    out : directory of the files made, the runs and the tables
    learners : the ones to run, empty: all; of others finished runs are shown
    items : further settings, as `embedbench run --set` takes them
    """
    tables = wanted([n.lower() for n in names], TABLES, "table")
    learners = wanted(learners, LEARNERS, "learner of the paper")
    out.mkdir(parents=True, exist_ok=True)
    needed = ["mnist"] if {"s1", "s6", "s7"} >= set(tables) else list(NAMES)
    found = find_data(data, out, notify, names=needed)
    runs = Runs(out, seeds, learners, device, items, jobs, data=found)
    for name in needed:
        if name not in runs.data:
            notify(f"no file of {NAMES[name]}: its rows stay empty (--data {name}=FILE)")
    cells = list(dict.fromkeys(c for n in tables for c in _cells(runs, n)))
    notify(f"{len(cells)} runs; those that are finished are kept")
    runs.run(cells, progress)
    return [make(runs) for n in tables for make in TABLES[n]], runs.failed


def _cells(runs: Runs, table: str) -> list[Cell]:
    """The runs that a table needs."""
    if table in ("1", "s7", "s9"):  # S7 is quick and kept nowhere
        return []
    if table == "s10":
        return [cell for row in s10_rows(runs) for cell in s10_cells(runs, *row)]
    if table == "s1":
        wanted = "mnist" in runs.data and "ewc" in runs.learners
        return [c for choice in CHOICES if wanted for c in s1_cells(runs, choice)]
    if table == "s6":
        both = [name for name in ("geppnet", "geppnet-stm") if name in runs.learners]
        pairs = itertools.product(both, range(10))
        return [c for p in pairs for c in runs.inc_cells(*p)] if "mnist" in runs.data else []
    protocols = {"4": PROTOCOLS[:2], "figures": PROTOCOLS[:2], "s8": PROTOCOLS[2:]}
    return [c for run in runs.table2(protocols.get(table, PROTOCOLS)) for c in runs.cells(run)]
