"""`embedbench reproduce iirc`: Abdelsalam et al. (2021) on its data sets or on any hierarchy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from embedbench.papers.published import PaperTable
from embedbench.papers.runs import wanted
from embedbench.runs.cell import Cell

from .figures import (
    buffers,
    confusions,
    depth,
    jaccard,
    labels,
    newest,
    performance,
    sessions,
    subclasses,
    superclasses,
)
from .runs import BUFFERS, LEARNERS, Runs, find_data
from .tables import statements, table5, table6, table7

TABLES: dict[str, Callable[[Runs], list[PaperTable]]] = {
    "5": table5,
    "6": table6,
    "7": table7,
    "statements": statements,
    "performance": performance,
    "newest": newest,
    "superclasses": superclasses,
    "subclasses": subclasses,
    "jaccard": jaccard,
    "sessions": sessions,
    "labels": labels,
    "depth": depth,
    "confusion": confusions,
    "buffer": buffers,
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

    Finished runs are kept and used again.

    Parameters
    ----------
    names : of `TABLES`; empty: all
    data : "cifar=FILE", "imagenet-lite=FILE", "imagenet-full=FILE", or FILE, which stands in for
        IIRC-CIFAR by its own hierarchy; without any the shipped emoji
    out : directory of the files made, the runs and the tables
    learners : the ones to run, empty: all; of others finished runs are shown
    items : further settings, as `embedbench run --set` takes them; `protocol.configuration=0-2`
        takes some of the task configurations
    """
    tables = wanted([n.lower() for n in names], TABLES, "table")
    learners = wanted(learners, LEARNERS, "learner of the paper")
    out.mkdir(parents=True, exist_ok=True)
    runs = Runs(out, seeds, learners, device, items, jobs, data=find_data(data, out, notify))
    cells = planned(runs, tables)
    notify(f"{len(cells)} runs; those that are finished are kept")
    runs.run(cells, progress)
    return [table for n in tables for table in TABLES[n](runs)], runs.failed


def planned(runs: Runs, tables: Sequence[str]) -> list[Cell]:
    """The runs that the tables need, those on one stream side by side: it is built once."""
    variants = list(BUFFERS) if "buffer" in tables and "er" in runs.learners else []
    if set(tables) - {"buffer"}:
        variants = [*runs.learners, "joint", *variants]
    cells = []
    for name in runs.data:
        for k in runs.configurations(name):
            by_variant = [runs.cells(name, variant, k) for variant in variants]
            cells += [cell for seed in zip(*by_variant, strict=True) for cell in seed]
    return cells
