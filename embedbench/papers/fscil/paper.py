"""`embedbench reproduce fscil`: Tang et al. (2024), printed tables and any embedding files."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from pathlib import Path

from embedbench.papers.runs import wanted
from embedbench.papers.table import Table
from embedbench.runs.cell import Cell

from .figures import curves, figure2, figure5, figure_a3, sweeps
from .layers import layers
from .printed import TITLES, table
from .results import further, learners, losses, statements
from .runs import LEARNERS, LOSSES, SWEEPS, Runs, find_data, of_layers, registered
from .tsne import tsne

EXACT: dict[str, Callable[[], Table]] = {
    **{number.lower(): partial(table, number) for number in TITLES},
    "fig2": figure2,
    "fig5": figure5,
    "figa3": figure_a3,
}
MEASURED: dict[str, Callable[[Runs], list[Table]]] = {
    "learners": learners,
    "further": further,
    "statements": statements,
    "curves": curves,
}
# Runs of FR by the dozen, or one more for each file, so made only where asked for by name.
COSTLY: dict[str, Callable[[Runs], list[Table]]] = {
    "losses": losses,
    "layers": layers,
    "tsne": tsne,
    "figa4": sweeps,
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
) -> tuple[list[Table], list[str]]:
    """Run what is missing; returns the tables, and a sentence on each run that failed.

    Finished runs are kept and used again. The tables of `EXACT` need none.

    Parameters
    ----------
    names : of `EXACT`, `MEASURED` and `COSTLY`; empty: all but those of `COSTLY`
    data : "cifar100=FILE", "cub200=FILE", "mini-imagenet=FILE", with the published lists, or FILE,
        a stand-in, with sessions of its own classes; without any the shipped emoji
    out : directory of the files made, the runs and the tables
    learners : the ones to run, empty: all; of others finished runs are shown
    items : further settings, as `embedbench run --set` takes them
    """
    usual = [*EXACT, *MEASURED]
    tables = wanted([n.lower() for n in names] or usual, [*usual, *COSTLY], "table")
    learners = wanted(learners, registered(), "learner")
    out.mkdir(parents=True, exist_ok=True)
    made = {name: [EXACT[name]()] for name in tables if name in EXACT}
    drawn = [name for name in tables if name not in EXACT]
    if not drawn:
        return [t for name in tables for t in made[name]], []
    runs = Runs(out, seeds, learners, device, items, jobs, data=find_data(data, out, notify))
    cells = planned(runs, drawn)
    notify(f"{len(cells)} runs; those that are finished are kept")
    runs.run(cells, progress)
    if "tsne" in drawn:
        notify("tsne: one FR a file is trained once more, since runs keep no state")
    made |= {name: (MEASURED | COSTLY)[name](runs) for name in drawn}
    return [t for name in tables for t in made[name]], runs.failed


def planned(runs: Runs, tables: Sequence[str]) -> list[Cell]:
    """The runs that the tables need, those on one stream side by side: it is built once.

    Weights that two tables share are run once.
    """
    variants = [n for n in LEARNERS if n in runs.learners and set(tables) & set(MEASURED)]
    if "losses" in tables:
        variants += ["prototype", "fr", *LOSSES]
    if "layers" in tables:
        variants += ["prototype", "fr"]
    if "figa4" in tables:
        variants += SWEEPS
    cells: dict[tuple[Hashable, ...], Cell] = {}
    for name in runs.data:
        single = of_layers(runs.layers(name)) if "layers" in tables else {}
        lists = [found for v in [*variants, *single] if (found := runs.cells(name, v))]
        for same_seed in zip(*lists, strict=True):
            for c in same_seed:
                key = (name, c.protocol, c.learner, c.seed)
                cells.setdefault(key, c)
    return list(cells.values())
