"""`embedbench reproduce abdelsalam2021`: Abdelsalam et al. (2021) on any hierarchy."""

from collections.abc import Sequence

from embedbench.papers.paper import Paper, ReproduceRequest
from embedbench.runs.run_spec import RunSpec

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
from .runs import BUFFERS, LEARNERS, IIRCRuns, find_data
from .tables import printed_tables, statements, table5, table6, table7


def runs_on(asked: ReproduceRequest, tables: Sequence[str]) -> IIRCRuns:
    """Return the runs on the requested files."""
    return asked.runs(IIRCRuns, data=find_data(asked.data, asked.out, asked.notify))


def plan_runs(runs: IIRCRuns, tables: Sequence[str]) -> list[RunSpec]:
    """Return the runs of the tables; runs on one stream are neighbours, so it is built once."""
    variants = list(BUFFERS) if "buffer" in tables and "er" in runs.learners else []
    if set(tables) - {"buffer"}:
        variants = [*runs.learners, "joint", *variants]
    specs = []
    for name in runs.data:
        for k in runs.configurations(name):
            by_variant = [runs.specs(name, variant, k) for variant in variants]
            specs += [spec for seed in zip(*by_variant, strict=True) for spec in seed]
    return specs


PAPER = Paper(
    name="abdelsalam2021",
    aliases=("iirc",),
    citation="Abdelsalam et al. (2021): IIRC, Incremental Implicitly-Refined Classification",
    stem="iirc",
    runs=runs_on,
    specs=plan_runs,
    learners=lambda: LEARNERS,
    printed=printed_tables,
    tables={
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
    },
)
