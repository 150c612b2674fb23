"""`embedbench reproduce tang2024`: Tang et al. (2024), printed tables and any embedding files."""

from collections.abc import Hashable, Sequence
from functools import partial

from embedbench.papers.paper import Paper, ReproduceRequest
from embedbench.runs.run_spec import RunSpec

from .compared import compare_rows, printed_tables
from .figures import curves, figure2, figure5, figure_a3, sweeps
from .layers import layers
from .losses import losses
from .printed import TITLES, table
from .results import further, learners, statements
from .runs import LEARNERS, SWEEPS, FSCILRuns, find_data, list_registered, of_layers
from .tsne import tsne
from .weights import of_losses


def runs_on(asked: ReproduceRequest, tables: Sequence[str]) -> FSCILRuns:
    """Return the runs on the requested files."""
    return asked.runs(FSCILRuns, data=find_data(asked.data, asked.out, asked.notify))


def plan_runs(runs: FSCILRuns, tables: Sequence[str]) -> list[RunSpec]:
    """Return the runs of the tables; runs on one stream are neighbours, so it is built once.

    A weight that two tables share is run once.
    """
    variants = [n for n in LEARNERS if n in runs.learners and set(tables) & set(PAPER.tables)]
    if "losses" in tables:
        variants += ["prototype", *of_losses()]
    if "layers" in tables:
        variants += ["prototype", "fr"]
    if "figa4" in tables:
        variants += SWEEPS
    specs: dict[tuple[Hashable, ...], RunSpec] = {}
    for name in runs.data:
        single = of_layers(runs.layers(name)) if "layers" in tables else {}
        lists = [of_variant for v in [*variants, *single] if (of_variant := runs.specs(name, v))]
        for same_seed in zip(*lists, strict=True):
            for c in same_seed:
                key = (name, c.protocol, c.learner, c.seed)
                specs.setdefault(key, c)
    return list(specs.values())


PAPER = Paper(
    name="tang2024",
    aliases=("fscil",),
    citation="Tang et al. (2024): Rethinking Few-shot Class-incremental Learning: "
    "Learning from Yourself",
    stem="fscil",
    runs=runs_on,
    specs=plan_runs,
    learners=list_registered,
    exact={
        **{number.lower(): partial(table, number) for number in TITLES},
        "fig2": figure2,
        "fig5": figure5,
        "figa3": figure_a3,
    },
    printed=lambda: [*(table(number) for number in TITLES), *printed_tables()],
    tables={
        "learners": learners,
        "compared": compare_rows,
        "further": further,
        "statements": statements,
        "curves": curves,
    },
    # many runs of FR, or one extra run per file
    costly={"losses": losses, "layers": layers, "tsne": tsne, "figa4": sweeps},
)
