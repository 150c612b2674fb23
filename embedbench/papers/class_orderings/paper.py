"""`embedbench reproduce masana2020`: Masana et al. (2020) on any embedding file."""

import itertools
from collections.abc import Sequence

from embedbench.papers.paper import Paper, ReproduceRequest
from embedbench.runs.run_spec import RunSpec

from .figures import figure1, figure2, figure3, figures4to9
from .runs import LEARNERS, ORDERS, OrderingRuns, find_data
from .tables import printed_tables, statements, table1


def runs_on(asked: ReproduceRequest, tables: Sequence[str]) -> OrderingRuns:
    """Return the runs on the requested files, with their class orders."""
    runs = asked.runs(OrderingRuns, files=find_data(asked.data, asked.out, asked.notify))
    asked.notify("ordering the classes; orders that are there are kept")
    runs.make_orders()
    return runs


def plan_runs(runs: OrderingRuns, tables: Sequence[str]) -> list[RunSpec]:
    """Return the runs of the tables; runs on one stream are neighbours, so it is built once."""
    specs = [spec for name in runs.files for spec in runs.joint(name)] if "fig1" in tables else []
    if {"1", "statements", "fig4"} & set(tables):
        for name, kind in itertools.product(runs.files, ORDERS):
            by_learner = [runs.specs(name, kind, learner) for learner in runs.learners]
            specs += [spec for seed in zip(*by_learner, strict=True) for spec in seed]
    return specs


PAPER = Paper(
    name="masana2020",
    aliases=("class-orderings",),
    citation="Masana et al. (2020): On Class Orderings for Incremental Learning",
    stem="class-orderings",
    runs=runs_on,
    specs=plan_runs,
    learners=lambda: LEARNERS,
    printed=printed_tables,
    tables={
        "1": table1,
        "statements": statements,
        "fig1": figure1,
        "fig2": figure2,
        "fig3": figure3,
        "fig4": figures4to9,
    },
)
