"""Tables of comparisons: ranks, spreads over class orders.

A study is all runs that differ in learner, class order and seed only, in whatever directories they
are, without `chance` and the references. Each table is made once, as JSON and as text.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from embedbench.config.json_records import plain
from embedbench.errors import UserError
from embedbench.scores.learner_verdicts import RowVerdict
from embedbench.scores.number_text import format_signed
from embedbench.scores.run_record import FINAL
from embedbench.text.table_export import TITLE, records
from embedbench.text.terminal_text import line, new_table

from .compare_learners import ComparisonStudy, describe_verdicts
from .headings_and_units import heading, is_percent, metric_name, value_text
from .measurement_words import count_text, describe_measurements
from .terminal_tables import behind_text

SCHEMA = "embedbench-comparison/2.0"


@dataclass(frozen=True)
class TableView:
    """A table to show: title, rows of its CSV, parts of its text; of a study its JSON, too."""

    title: str
    rows: list[dict[str, Any]]
    parts: list[Text | Table]
    data: dict[str, Any] = field(default_factory=dict)


def comparison_json(views: Sequence[TableView]) -> dict[str, Any]:
    """The studies of a directory of runs as JSON: `schema` and `studies`.

    Each study has `title`, `metric` and `score`: what was run, what is compared, and the base score
    that the metric is of; `orders`, the class orders; and `units`, what the observations of an
    interval are: `orders` (each the mean over its seeds) where several orders have several seeds
    each, else `seeds`. Of `--compare`, `notes` say which settings were tuned.
    """
    return {"schema": SCHEMA, "studies": [view.data for view in views]}


def section(
    title: str, facts: Sequence[str], table: Table, remarks: Sequence[str] = ()
) -> list[Text | Table]:
    """A title, a line of facts, a table and remarks."""
    about = [line(" · ".join(facts))] if facts else []
    return [line(title, TITLE), *about, table, *map(line, remarks)]


def _view(
    study: ComparisonStudy, entries: dict[str, Any], table: Table, remarks: Sequence[str]
) -> TableView:
    orders = study.orders
    unit = _unit(study)
    keys = ("title", "metric", "score", "orders", "units")
    data = plain({k: getattr(study, k) for k in keys} | entries)
    facts = [unit, "1 class order" if len(orders) == 1 else f"{len(orders)} class orders"]
    parts = section(study.title, facts, table, ["", *remarks])
    return TableView(study.title, records(data, "learners"), parts, data)


def _unit(study: ComparisonStudy) -> str:
    """What is compared, and by which base score."""
    name = metric_name(study.metric, study.score)
    of = ""
    if study.metric != FINAL and study.score:
        of = f" (of {metric_name(FINAL, study.score)})"
    return f"{name}{of}, %" if is_percent(study.metric) else f"{name}{of}"


def rank_learners(study: ComparisonStudy) -> TableView:
    """The learners of a study, best mean first, with the ranks that the verdicts leave open.

    The JSON has `learners`: the keys of a `verdict` of `report --json` (`against` is a place in
    this list), `learner` and `runs`, how many there are; `notes`; and `groups`, what the test
    sample is counted in: `groups` of a file, or `samples`.
    """
    check_several(study)
    metric = study.metric
    learners = []
    score_head = heading(metric, study.score)
    behind = heading("behind")
    table = new_table(["learner", "n", score_head, "rank", "possible ranks", behind])
    crossed = study.units == "orders"  # several seeds on each
    named = {label: runs for (label,), runs in study.results.group("learner").items()}
    for (label, runs), v in zip(named.items(), study.verdicts, strict=True):
        learners.append({**v.to_json(), "learner": label, "runs": len(runs)})
        counted = len(runs if crossed else runs.measurements(metric))
        cells = [label, count_text(counted, len(runs)), value_text(v.mean, metric)]
        cells.append(str(v.rank or "–"))
        table.add_row(*map(line, [*cells, allowed_ranks(v), behind_text(v, metric)]))
    remarks = [
        *describe_verdicts(study.judged),
        *([] if crossed else describe_measurements(named, metric)),
        "rank: that of the mean · possible ranks: those that the verdicts leave open",
        *_notes(study),
    ]
    entries = {"learners": learners, "notes": study.notes, "groups": study.groups}
    return _view(study, entries, table, remarks)


def check_several(study: ComparisonStudy) -> None:
    """Refuse a study of one learner."""
    if len(study.learners) < 2:
        raise UserError(
            f"a comparison needs two learners on the same stream; {study.title} has "
            f"{', '.join(study.learners)} only"
        )


def allowed_ranks(verdict: RowVerdict) -> str:
    """The ranks that the verdicts leave open: "2", "1–3", or – where nothing is compared."""
    if verdict.ranks is None or verdict.behind is None:
        return "–"
    first, last = verdict.ranks
    return str(first) if first == last else f"{first}–{last}"


def _notes(study: ComparisonStudy) -> list[str]:
    notes = [f"note: {note}" for note in study.notes]
    if len(study.orders) == 1:
        notes.insert(0, "one class order: another one may rank them differently (--by order)")
    return notes


def spread_over_orders(study: ComparisonStudy) -> TableView:
    """Each learner's spread over class orders, and how its rank changes; refuses one order alone.

    Kendall's τ_b compares the rankings on two orders, over the learners that were run on both.

    The JSON has `learners`, best mean first: `learner`; `mean` over the orders; `by_order` and
    `ranks`: order → mean, and rank of that mean; `sd_orders` and `sd_seeds`, the standard deviation
    of the means of the orders, and of the runs within orders, pooled. `tau` has two orders →
    Kendall's τ_b of their rankings, `tau_mean` its mean, `tau_least` the two orders that agree
    least, or null.
    """
    from scipy.stats import kendalltau, rankdata

    orders = study.orders
    metric = study.metric
    if len(orders) < 2:
        raise UserError(
            f"--by order needs runs on two class orders or more; {study.title} has "
            f"{', '.join(orders)} only. Run again with another --order"
        )
    means = study.values  # (k, orders)
    ranks = rankdata(means if study.is_lower else -means, axis=0, nan_policy="omit")
    taus = {}
    for (i, a), (j, b) in itertools.combinations(enumerate(orders), 2):
        both = means[~np.isnan(means[:, [i, j]]).any(axis=1)]
        tau = kendalltau(both[:, i], both[:, j]).statistic if len(both) > 1 else math.nan
        taus[f"{a} | {b}"] = float(tau)
    learners = []
    table = new_table(["learner", "mean", "sd orders", "sd seeds", *orders])
    for label, mine, places in zip(study.learners, means, ranks, strict=True):
        seeds = study.results.where(learner=label).group("order").values()
        there = {o: i for i, o in enumerate(orders) if not math.isnan(mine[i])}
        spread = {
            "mean": study.mean(label),
            "sd_orders": float(np.nanstd(mine, ddof=1)) if len(there) > 1 else math.nan,
            "sd_seeds": pooled_sd([[run.value(metric) for run in runs] for runs in seeds]),
        }
        by_order = {o: float(mine[i]) for o, i in there.items()}
        mine_ranks = {o: float(places[i]) for o, i in there.items()}
        learners.append({"learner": label, **spread, "by_order": by_order, "ranks": mine_ranks})
        cells = [value_text(value, metric) for value in spread.values()]
        cells += [
            f"{value_text(by_order[o], metric)} [{mine_ranks[o]:g}]" if o in there else "–"
            for o in orders
        ]
        table.add_row(*map(line, [label, *cells]))
    known = {pair: tau for pair, tau in taus.items() if not math.isnan(tau)}
    least = min(known, key=lambda pair: known[pair], default=None)
    mean = float(np.mean(list(known.values()))) if known else math.nan
    remarks = ["in brackets: the learner's rank on the order"]
    if least is not None:
        remarks.append(
            f"Kendall's τ between two orders' rankings: mean {format_signed(mean, 2)}, least "
            f"{format_signed(taus[least], 2)} ({least})"
        )
    entries = {"learners": learners, "tau": taus, "tau_mean": mean, "tau_least": least}
    return _view(study, entries, table, remarks)


def pooled_sd(groups: Sequence[Sequence[float]]) -> float:
    """The standard deviation within groups: √(Σ_g Σ (x - mean_g)² / Σ_g (n_g - 1)).

    NaN where no two values can be compared.
    """
    free = sum(len(values) - 1 for values in groups if len(values))
    squares = sum(float(np.var(values)) * len(values) for values in groups if len(values))
    return math.sqrt(squares / free) if free else math.nan
