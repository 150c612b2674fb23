"""Table S10: every learner with the best capacity for the data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from embedbench.papers.published import EXACT, PaperTable, Value, load_published
from embedbench.papers.runs import metric, over
from embedbench.runs.cell import RunSpec
from embedbench.runs.tune import tune
from embedbench.runs.tuned import chosen_items
from embedbench.scores.stats import Stat

from .runs import LEARNERS, KemkerRuns, fel_units
from .sizes import PaperCapacity, megabytes
from .tables import SYMBOLS

# PathNet's rows in the paper are the same as in Table 2.
CAPACITIES: dict[str, tuple[str, tuple[int, ...]]] = {
    "mlp": ("units", (200, 400, 800, 1600)),
    "ewc": ("units", (200, 400, 800, 1600)),
    "geppnet": ("som.side", (16, 23, 32)),
    "geppnet-stm": ("som.side", (16, 23, 32)),
    "fel": ("fel_units", (1200, 4000, 12000)),
}


def capacity(runs: KemkerRuns, learner: str, name: str) -> dict[str, Any]:
    """The log of the search for one learner and data set, on validation data of all classes."""
    setting, values = CAPACITIES[learner]
    (cell, *_) = runs.cells_on(learner, "permutation", [name], ["protocol.validation=train"])
    grid = {setting: [str(v) for v in values]}
    how: dict[str, Any] = {
        "engine": runs.engine,
        "threads": runs.threads,
        "workshop": runs.workshop,
    }
    return tune(cell, grid, runs.out / "runs", sessions=1, **how)


def s10_cells(runs: KemkerRuns, learner: str, protocol: str, name: str) -> list[RunSpec]:
    """The runs of one row; both protocols use the capacity chosen for the data set."""
    if learner not in CAPACITIES:
        return runs.cells((learner, protocol, (name,)))
    items = chosen_items(capacity(runs, learner, name))
    return runs.cells_on(learner, protocol, [name], items)


def s10_rows(runs: KemkerRuns) -> list[tuple[str, str, str]]:
    """(learner, protocol, data) of the rows for which there is data."""
    return [
        (row["learner"], row["protocol"], row["data"])
        for row in load_published("kemker2018")["tables"]["S10"]
        if "protocol" in row and row["data"] in runs.data and row["learner"] in runs.learners
    ]


def table_s10(runs: KemkerRuns) -> PaperTable:
    """Table S10: Ω and size with the capacity chosen on validation data."""
    heads, size = ("protocol", "learner", "data", "capacity"), "MB as the paper counts"
    table = PaperTable("S10", "Ideal capacity", heads, [*SYMBOLS.values(), size])
    table.method, table.printed, table.units = "learner", runs.printed_labels(), {size: "MB"}
    rows = load_published("kemker2018")["tables"]["S10"]
    printed = {(r["learner"], r["data"]): r["mb"] for r in rows if "mb" in r}
    at_hand = s10_rows(runs)
    for row in rows:
        if "protocol" not in row:
            continue
        learner, protocol, name = row["learner"], row["protocol"], row["data"]
        records, ours, chosen = [], None, ""
        if (learner, protocol, name) in at_hand:
            records = runs.records(s10_cells(runs, learner, protocol, name))
            held = PaperCapacity(fel_units=fel_units((name,)))
            if learner in CAPACITIES:
                ((setting, value),) = capacity(runs, learner, name)["chosen"].items()
                chosen = f"{setting} {value}"
                table.printed[chosen] = ""
                held = replace(held, **{setting.replace("som.", ""): int(value)})
            ours = Stat.of([megabytes(learner, runs.data[name].size, held)])
        stands_in = runs.stands_in((name,))
        values = {
            symbol: Value(row[omega], over(records, metric(omega)), 3, stands_in)
            for omega, symbol in SYMBOLS.items()
        }
        values[size] = Value(printed[learner, name], ours, 2, stands_in, made=EXACT)
        table.rows.append(((protocol, LEARNERS[learner], runs.label((name,)), chosen), values))
    grids = "; ".join(f"{k}.{s} {', '.join(map(str, v))}" for k, (s, v) in CAPACITIES.items())
    table.notes += [
        f"capacities tried: {grids}. Chosen for each learner and data set by mean-per-class "
        "accuracy on validation data, a tenth of the training data, after learning all classes at "
        "once; the first seed chooses for all",
        "the paper searched other hyperparameters too, and does not say which or how far",
    ]
    return table
