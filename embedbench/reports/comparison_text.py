"""Comparisons for the terminal."""

import math
from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from embedbench.scores.learner_verdicts import RowVerdict
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.number_text import format_signed
from embedbench.text.table_export import records
from embedbench.text.terminal_text import line, new_table

from .compare_learners import describe_verdicts
from .comparison_results import AllPairs, OrderSpread, Ranking, Study
from .headings_and_units import heading, is_percent, stat_text, value_text
from .seed_effects import KINDS, SeedSpread, Spread
from .terminal_tables import behind_text


def _unit(metric: str) -> str:
    return f"{metric}, %" if is_percent(metric) else metric


def section(
    title: str, facts: Sequence[str], table: Table, remarks: Sequence[str] = ()
) -> list[Text | Table]:
    """A title, a line of facts, a table and remarks."""
    return [line(title, "bold"), line(" · ".join(facts)), table, *map(line, remarks)]


def study_parts(study: Study) -> list[Text | Table]:
    """The title, facts, table and remarks of a study."""
    if isinstance(study, Ranking):
        return comparison_parts(study)
    if isinstance(study, AllPairs):
        return pair_parts(study)
    return by_order_parts(study) if isinstance(study, OrderSpread) else by_seeds_parts(study)


def study_rows(study: Study) -> list[dict[str, Any]]:
    """The numbers of a study, one row per learner or pair, with the names of its JSON."""
    return records(study.to_json(), "pairs" if isinstance(study, AllPairs) else "learners")


def comparison_parts(result: Ranking) -> list[Text | Table]:
    """A ranking: one row per learner, with the ranks that its verdict allows."""
    metric = result.metric
    table = new_table(["learner", "n", heading(metric), "rank", "of", "behind by"])
    for entry in result.learners:
        cells = [entry.learner, str(entry.runs), value_text(entry.mean, metric)]
        cells += [str(entry.rank or "–"), allowed_ranks(entry), behind_text(entry, metric)]
        table.add_row(*map(line, cells))
    remarks = [
        "",
        *describe_verdicts(result.judged),
        "rank: that of the mean · of: the ranks that the verdicts leave open",
        *_notes(result),
    ]
    return section(result.title, _facts(result), table, remarks)


def allowed_ranks(verdict: RowVerdict) -> str:
    """The ranks that the verdicts leave open: "2", "1–3", or – where nothing is compared."""
    if verdict.ranks is None or verdict.behind is None:
        return "–"
    first, last = verdict.ranks
    return str(first) if first == last else f"{first}–{last}"


def pair_parts(result: AllPairs) -> list[Text | Table]:
    """All pairs, corrected: one row per pair, the better learner first."""
    metric = result.metric
    table = new_table(["learner", "above", "n", "difference", "p, corrected"], names=2)
    for pair in result.pairs:
        text = stat_text(Stat(pair.difference, pair.half, math.nan, ()), metric)
        table.add_row(*map(line, (pair.better, pair.worse, str(pair.n), text, _p(pair.holm))))
    remarks = [
        "",
        "±: half-width of the 95 % interval, not corrected · p: corrected by Holm's method for all "
        "pairs, a bound for the whole table: it sees less than report --compare",
        *_notes(result),
    ]
    return section(result.title, ["all pairs, corrected", *_facts(result)], table, remarks)


def _facts(result: Ranking | AllPairs | OrderSpread) -> list[str]:
    orders, units = result.orders, result.units
    if orders == ("",):  # one stream of a selection, whose orders are not known
        return [_unit(result.metric)]
    what = "streams" if units == "streams" else "class orders"
    return [_unit(result.metric), "1 class order" if len(orders) == 1 else f"{len(orders)} {what}"]


def _notes(result: Ranking | AllPairs) -> list[str]:
    one = "one class order: another one may rank them differently (--by order)"
    is_one = len(result.orders) == 1 and result.orders != ("",)
    return [one] * is_one + [f"note: {note}" for note in result.notes]


def _p(value: float) -> str:
    if math.isnan(value):
        return "–"
    return "<.001" if value < 0.001 else f"{value:.3f}".removeprefix("0")


def by_order_parts(result: OrderSpread) -> list[Text | Table]:
    """A spread over orders: learners are rows, orders columns, ranks in brackets."""
    metric, orders, units = result.metric, result.orders, result.units
    table = new_table(["learner", "mean", "least", "most", f"sd {units}", "sd seeds", *orders])
    for entry in result.learners:
        spread = [entry.mean, entry.least, entry.most, entry.sd_orders, entry.sd_seeds]
        cells = [entry.learner, *(value_text(v, metric) for v in spread)]
        cells += [
            f"{value_text(entry.by_order[o], metric)} [{entry.ranks[o]:g}]"
            if o in entry.by_order
            else "–"
            for o in orders
        ]
        table.add_row(*map(line, cells))
    remarks = ["", f"in brackets: the learner's rank on the {units[:-1]}"]
    if result.tau_least is not None:
        least = result.tau_least
        remarks.append(
            f"Kendall's τ between two {units}' rankings: "
            f"mean {format_signed(result.tau_mean, 2)}, least "
            f"{format_signed(result.tau[least], 2)} ({least})"
        )
    firsts = [e.learner for o in orders for e in result.learners if e.ranks.get(o) == 1]
    names = list(dict.fromkeys(firsts))
    remarks.append(f"best on some {units[:-1]}: {', '.join(names)}")
    return section(result.title, _facts(result), table, remarks)


def by_seeds_parts(result: SeedSpread) -> list[Text | Table]:
    """The spreads of one table: one row per learner, one column per kind of seed."""
    metric = result.metric
    kinds = [k for k in KINDS if any(e.seeds[k].n for e in result.learners)]
    table = new_table(["learner", *kinds, "sum", "all four"])
    for entry in result.learners:
        cells = [_sd(entry.seeds[kind], metric) for kind in kinds]
        cells += [_points(entry.sum, metric), _sd(entry.all, metric)]
        table.add_row(*map(line, (entry.learner, *cells)))
    remarks = [
        "",
        "standard deviation over (n) runs that differ in this seed alone [95 % chi-square "
        "interval], and its share of the summed variances",
        "the other three seeds are held at one setting: with others held, shares may be others",
        "sum: what these seeds would make together without interactions · all four: runs that "
        "share no seed; far from the sum, the seeds interact or the intervals are wide",
    ]
    return section(result.title, [f"sd of {_unit(metric)}"], table, remarks)


def _points(value: float, metric: str) -> str:
    """A standard deviation in points, with one decimal more than a score; Ω is not in points."""
    if math.isnan(value):
        return "–"
    return f"{100 * value:.2f}" if is_percent(metric) else f"{value:.4f}"


def _sd(spread: Spread, metric: str) -> str:
    """A spread with its number of runs, interval and share."""
    if not spread.n:
        return "–"
    low, high = _points(spread.low, metric), _points(spread.high, metric)
    text = f"{_points(spread.sd, metric)} ({spread.n}) [{low}, {high}]"
    share = math.nan if spread.share is None else spread.share
    return text if math.isnan(share) else f"{text} {100 * share:.0f} %"
