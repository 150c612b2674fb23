"""`embedbench reproduce michel2023`: Michel et al. (2023) on any embedding file."""

from __future__ import annotations

from collections.abc import Sequence

from embedbench.papers.data import find_files
from embedbench.papers.paper import Paper, ReproduceRequest, each

from .tables import LEARNERS, MetricRuns, figure2, figure3, figure4, table1, table2


def runs_on(asked: ReproduceRequest, tables: Sequence[str]) -> MetricRuns:
    """Return the runs on the requested files."""
    return asked.runs(MetricRuns, files=find_files(asked.data, asked.out, asked.notify))


PAPER = Paper(
    name="michel2023",
    aliases=("new-metrics",),
    citation="Michel et al. (2023): New metrics for analyzing continual learners",
    stem="new-metrics",
    runs=runs_on,
    specs=lambda runs, tables: runs.all_specs(),
    learners=lambda: LEARNERS,
    printed=lambda: [table1(), table2()],
    exact={"1": table1, "2": table2, "fig2": figure2},
    tables={"fig3": each(figure3), "fig4": each(figure4)},
)
