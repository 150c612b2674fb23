"""`embedbench reproduce kemker2018`: the tables, and the runs that each of them needs."""

import itertools
from collections.abc import Sequence
from pathlib import Path

from embedbench.papers.paper import Paper, ReproduceRequest, each
from embedbench.papers.published import PaperTable
from embedbench.runs.run_spec import RunSpec

from .data import NAMES, find_data
from .runs import LEARNERS, PROTOCOLS, KemkerRuns
from .supplement import CHOICES, s1_specs, s10_rows, s10_specs, table_s1, table_s7, table_s10
from .tables import (
    figures,
    table1,
    table2,
    table2_sizes,
    table3,
    table4,
    table5,
    table_s6,
    table_s8,
    table_s9,
)


def runs_on(asked: ReproduceRequest, tables: Sequence[str]) -> KemkerRuns:
    """Return the runs on those of the needed data sets that are available."""
    needed = ["mnist"] if {"s1", "s6", "s7"} >= set(tables) else list(NAMES)
    data = find_data(asked.data, asked.out, asked.notify, names=needed)
    for name in needed:
        if name not in data:
            asked.notify(f"no file of {NAMES[name]}: its rows stay empty (--data {name}=FILE)")
    return asked.runs(KemkerRuns, data=data)


def plan_runs(runs: KemkerRuns, tables: Sequence[str]) -> list[RunSpec]:
    """Return the runs of the tables, each once."""
    return list(dict.fromkeys(spec for table in tables for spec in _specs(runs, table)))


def _specs(runs: KemkerRuns, table: str) -> list[RunSpec]:
    """The runs that a table needs."""
    if table in ("1", "2mb", "s7", "s9"):  # S7 is quick and its runs are not saved
        return []
    if table == "s10":
        return [spec for row in s10_rows(runs) for spec in s10_specs(runs, *row)]
    if table == "s1":
        wanted = "mnist" in runs.data and "ewc" in runs.learners
        return [c for choice in CHOICES if wanted for c in s1_specs(runs, choice)]
    if table == "s6":
        both = [name for name in ("geppnet", "geppnet-stm") if name in runs.learners]
        pairs = itertools.product(both, range(10))
        return [c for p in pairs for c in runs.inc_specs(*p)] if "mnist" in runs.data else []
    protocols = {"4": PROTOCOLS[:2], "figures": PROTOCOLS[:2], "s8": PROTOCOLS[2:]}
    return [c for run in runs.table2(protocols.get(table, PROTOCOLS)) for c in runs.specs(run)]


def printed_tables() -> list[PaperTable]:
    """Every table as printed: made without data."""
    runs = KemkerRuns(Path(), [], data={})
    usual = [name for name in PAPER.tables if name not in ("s1", "figures")]
    return [table for name in usual for table in PAPER.tables[name](runs)]


PAPER = Paper(
    name="kemker2018",
    citation="Kemker et al. (2018): Measuring Catastrophic Forgetting in Neural Networks",
    stem="kemker2018",
    runs=runs_on,
    specs=plan_runs,
    learners=lambda: LEARNERS,
    printed=printed_tables,
    tables={
        "1": each(table1),
        "2": each(table2),
        "2mb": each(table2_sizes),
        "3": each(table3),
        "4": each(table4),
        "5": each(table5),
        "s1": each(table_s1),
        "s6": each(table_s6),
        "s7": each(table_s7),
        "s8": each(table_s8),
        "s9": each(table_s9),
        "s10": each(table_s10),
        "figures": each(figures),
    },
)
