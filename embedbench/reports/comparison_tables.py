"""Tables of comparisons: ranks, all pairs, spreads over class orders and over seeds.

A study is all runs that differ in learner, class order and seed only, in whatever directories they
are, without `chance` and the references. Each table is made once, as JSON and as text.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from embedbench.config.json_records import plain
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError, unknown
from embedbench.scores.learner_verdicts import RowVerdict
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.number_text import format_signed
from embedbench.text.table_export import TITLE, records
from embedbench.text.terminal_text import line, new_table

from .compare_learners import ComparisonStudy, describe_verdicts
from .headings_and_units import heading, is_percent, stat_text, value_text
from .result_rows import LEFT_OUT, Row, run_value, split_tables
from .terminal_tables import behind_text

SCHEMA = "embedbench-comparison/2.0"
KINDS = tuple(f.name for f in fields(Seeds))


@dataclass(frozen=True)
class TableView:
    """A table to show: title, rows of its CSV, parts of its text; of a study its JSON, too."""

    title: str
    rows: list[dict[str, Any]]
    parts: list[Text | Table]
    data: dict[str, Any] = field(default_factory=dict)


def comparison_json(views: Sequence[TableView]) -> dict[str, Any]:
    """The studies of a directory of runs as JSON: `schema` and `studies`.

    Each study has `title` and `metric`: what was run, and what is compared. Those of `--compare`,
    `--pairs` and `--by order` have `orders`, the class orders, and `units`, what the observations
    of an interval are: `orders` (each the mean over its seeds) where several orders have several
    seeds each, else `seeds`. `notes` say which settings were tuned.
    """
    return {"schema": SCHEMA, "studies": [view.data for view in views]}


def section(
    title: str, facts: Sequence[str], table: Table, remarks: Sequence[str] = ()
) -> list[Text | Table]:
    """A title, a line of facts, a table and remarks."""
    about = [line(" · ".join(facts))] if facts else []
    return [line(title, TITLE), *about, table, *map(line, remarks)]


def _view(
    study: ComparisonStudy,
    entries: dict[str, Any],
    table: Table,
    remarks: Sequence[str],
    fact: str = "",
) -> TableView:
    orders, unit = study.orders, _unit(study.metric)
    data = plain({k: getattr(study, k) for k in ("title", "metric", "orders", "units")} | entries)
    facts = [fact, unit, f"{len(orders)} class order{'s' * (len(orders) > 1)}"]
    parts = section(study.title, list(filter(None, facts)), table, ["", *remarks])
    rows = records(data, "pairs" if "pairs" in data else "learners")
    return TableView(study.title, rows, parts, data)


def _unit(metric: str) -> str:
    return f"{metric}, %" if is_percent(metric) else metric


def rank_learners(study: ComparisonStudy) -> TableView:
    """The learners of a study, best mean first, with the ranks that the verdicts leave open.

    The JSON has `learners`: the keys of a `verdict` of `report --json` (`against` is a place in
    this list), `learner` and `runs`, how many there are; `notes`; and `groups`, what the test
    sample is counted in: `groups` of a file, or `samples`.
    """
    check_several(study)
    metric, learners = study.metric, []
    table = new_table(["learner", "n", heading(metric), "rank", "of", "behind by"])
    for (label, runs), v in zip(study.scores.items(), study.verdicts, strict=True):
        learners.append({**v.to_json(), "learner": label, "runs": len(runs)})
        cells = [label, str(len(runs)), value_text(v.mean, metric), str(v.rank or "–")]
        table.add_row(*map(line, [*cells, allowed_ranks(v), behind_text(v, metric)]))
    remarks = [
        *describe_verdicts(study.judged),
        "rank: that of the mean · of: the ranks that the verdicts leave open",
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
    one = "one class order: another one may rank them differently (--by order)"
    return [one] * (len(study.orders) == 1) + [f"note: {note}" for note in study.notes]


def list_pairs(study: ComparisonStudy) -> TableView:
    """All pairs of learners of a study, the better one first, with Holm's correction.

    The JSON has `learners`, their labels, best mean first; `pairs` with the keys of `PairVerdict`
    (`a` and `b` are places in `learners`) and `better` and `worse`, their labels; and `notes`.
    """
    check_several(study)
    names, pairs = study.learners, []
    table = new_table(["learner", "above", "n", "difference", "p, corrected"], names=2)
    for p in study.pairs():
        pairs.append({**p.to_json(), "better": names[p.a], "worse": names[p.b]})
        text = stat_text(Stat(p.difference, p.half, math.nan, ()), study.metric)
        table.add_row(*map(line, (names[p.a], names[p.b], str(p.n), text, _p(p.holm))))
    remarks = [
        "±: half-width of the 95 % interval, not corrected · p: corrected by Holm's method for all "
        "pairs, a bound for the whole table: it sees less than report --compare",
        *_notes(study),
    ]
    entries = {"learners": names, "pairs": pairs, "notes": study.notes}
    return _view(study, entries, table, remarks, "all pairs, corrected")


def _p(value: float) -> str:
    if math.isnan(value):
        return "–"
    return "<.001" if value < 0.001 else f"{value:.3f}".removeprefix("0")


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

    orders, metric = study.orders, study.metric
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
        there = {o: i for i, o in enumerate(orders) if not math.isnan(mine[i])}
        spread = {
            "mean": study.mean(label),
            "sd_orders": float(np.nanstd(mine, ddof=1)) if len(there) > 1 else math.nan,
            "sd_seeds": pool_spread(list(study.by_order(label).values()))["sd"],
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


# --- which kind of seed decides a result: `report --by seeds` ---


def spread_over_seeds(rows: Sequence[Row], metric: str) -> list[TableView]:
    """For each table and learner, the spread due to each kind of seed.

    Runs that agree in three of their four seeds differ by the fourth alone, so the variance among
    them comes from that seed; `run --vary` makes such runs. These are main effects at one setting
    of the other seeds.

    The JSON has `learners`: `learner`; `seeds`: `order`, `init`, `batches`, `memory` → `sd` over
    the runs that differ in it alone, its 95 % interval `low_95` and `high_95` (chi-square), `n`
    runs, and `share` of the summed variances of the kinds that were varied.

    **Source**: Bouthillier et al. (2021) randomise one source of variance and hold all others at
    their first values. **Departs**: the shares and the intervals are ours.
    """
    rows = [row for row in rows if row.learns]
    names = {name for row in rows for name in row.metrics}
    if metric not in names:
        raise unknown("metric", metric, names)
    views = []
    for mine in split_tables(rows):
        learners = [
            {"learner": row.label, "seeds": spreads}
            for row in mine
            if (spreads := _seed_spreads(row, metric))
        ]
        if learners:
            views.append(_seed_view(mine[0].group.title, metric, learners))
    if not views:
        raise UserError(
            f"--by seeds needs runs of {metric} that differ by one of their four seeds only; make "
            "some: embedbench run … --vary order,init,batches,memory --seeds 0-4"
        )
    return views


def pool_spread(groups: Sequence[Sequence[float]]) -> dict[str, Any]:
    """The standard deviation within groups, pooled; groups with one run do not count.

    With f = Σ (n_g - 1) degrees of freedom, sd² = Σ_g Σ (x - mean_g)² / f and the interval is
    sd √(f / χ²(0.975, f)) to sd √(f / χ²(0.025, f)). NaN where no two runs can be compared.
    """
    from scipy.special import chdtri  # inverse of the upper tail of χ²

    several = [values for values in groups if len(values) > 1]
    n = sum(map(len, several))
    free = n - len(several)
    if not free:
        return {"sd": math.nan, "low_95": math.nan, "high_95": math.nan, "n": 0}
    sd = math.sqrt(sum(float(np.var(v)) * len(v) for v in several) / free)
    low, high = (sd * math.sqrt(free / float(chdtri(free, p))) for p in (0.025, 0.975))
    return {"sd": sd, "low_95": low, "high_95": high, "n": n}


def _seed_spreads(row: Row, metric: str) -> dict[str, dict[str, Any]]:
    """The spread due to each kind of seed; empty where none was varied alone."""
    varied = [r for r in row.varied if not {*r.flags} & {*LEFT_OUT}]
    spreads = {}
    for kind in KINDS:
        alike: dict[tuple[int, ...], list[float]] = {}  # other seeds → values
        for r in (*row.used, *varied):
            if not math.isnan(value := run_value(r, metric)):
                others = tuple(getattr(r.seeds, k) for k in KINDS if k != kind)
                alike.setdefault(others, []).append(value)
        spreads[kind] = pool_spread(list(alike.values()))
    total = sum(s["sd"] ** 2 for s in spreads.values() if s["n"])
    for spread in spreads.values():
        spread["share"] = spread["sd"] ** 2 / total if total else math.nan
    return spreads if any(s["n"] for s in spreads.values()) else {}


def _seed_view(title: str, metric: str, learners: Sequence[dict[str, Any]]) -> TableView:
    kinds = [kind for kind in KINDS if any(e["seeds"][kind]["n"] for e in learners)]
    table = new_table(["learner", *kinds])
    for entry in learners:
        cells = [_sd_text(entry["seeds"][kind], metric) for kind in kinds]
        table.add_row(*map(line, (entry["learner"], *cells)))
    remarks = [
        "",
        "standard deviation over (n) runs that differ in this seed alone [95 % chi-square "
        "interval], and its share of the summed variances",
        "the other three seeds are held at one setting: with others held, shares may be others",
    ]
    data = plain({"title": title, "metric": metric, "learners": learners})
    parts = section(title, [f"sd of {_unit(metric)}"], table, remarks)
    return TableView(title, records(data, "learners"), parts, data)


def _sd_text(spread: dict[str, Any], metric: str) -> str:
    """A spread with its number of runs, interval and share; one decimal more than a score."""
    if not spread["n"]:
        return "–"
    factor, digits = (100, 2) if is_percent(metric) else (1, 4)
    sd, low, high = (f"{factor * spread[k]:.{digits}f}" for k in ("sd", "low_95", "high_95"))
    share = spread["share"]
    text = f"{sd} ({spread['n']}) [{low}, {high}]"
    return text if math.isnan(share) else f"{text} {100 * share:.0f} %"
