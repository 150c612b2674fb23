"""`embedbench reproduce new-metrics`: Michel et al. (2023) on any embedding file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from embedbench.papers.data import find_files
from embedbench.papers.published import PaperTable
from embedbench.papers.runs import wanted

from .tables import LEARNERS, Runs, figure2, figure3, figure4, table1, table2

EXACT: dict[str, Callable[[], PaperTable]] = {"1": table1, "2": table2, "fig2": figure2}
CURVES: dict[str, Callable[[Runs], PaperTable]] = {"fig3": figure3, "fig4": figure4}


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

    Finished runs are kept and used again. The tables of `EXACT` need none.

    Parameters
    ----------
    names : of `EXACT` and `CURVES`; empty: all
    data : embedding files; without any the shipped emoji
    out : directory of the files made, the runs and the tables
    learners : the ones to run, empty: all; of others finished runs are shown
    items : further settings, as `embedbench run --set` takes them
    """
    tables = wanted([n.lower() for n in names], [*EXACT, *CURVES], "table")
    learners = wanted(learners, LEARNERS, "learner of the paper")
    out.mkdir(parents=True, exist_ok=True)
    made = {name: EXACT[name]() for name in tables if name in EXACT}
    drawn = [name for name in tables if name in CURVES]
    if not drawn:
        return [made[name] for name in tables], []
    files = find_files(data, out, notify)
    runs = Runs(out, seeds, learners, device, items, jobs, files=files)
    cells = runs.all_cells()
    notify(f"{len(cells)} runs; those that are finished are kept")
    runs.run(cells, progress)
    made |= {name: CURVES[name](runs) for name in drawn}
    return [made[name] for name in tables], runs.failed
