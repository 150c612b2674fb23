"""Comparisons for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.table import Table

from embedbench.scores.stats import signed
from embedbench.terminal import line, new_table, rendered

from .by_seeds import KINDS, SeedSpread, Spread
from .comparison import OrderSpread, Pair, Ranking


def score_text(value: float, metric: str) -> str:
    """A score in percent; Ω unchanged."""
    if math.isnan(value):
        return "–"
    return signed(value, 3) if metric.startswith("omega") else signed(100 * value, 1)


def _unit(metric: str) -> str:
    return metric if metric.startswith("omega") else f"{metric}, %"


def section_text(
    title: str, facts: Sequence[str], table: Table, remarks: Sequence[str] = ()
) -> str:
    """A title, a line of facts, a table and remarks as text."""
    return rendered([line(title), line(" · ".join(facts)), table, *map(line, remarks)]).rstrip()


def comparison_text(result: Ranking) -> str:
    """A ranking as text: one line per learner, with its difference from the best."""
    metric = result.metric
    table = new_table([*("learner", "n", metric, "rank", "ties", "mean rank"), "to the best", "p"])
    best = result.learners[0].learner
    to_best = {pair.b: pair for pair in result.pairs if pair.a == best}
    for entry in result.learners:
        pair = to_best.get(entry.learner)
        letters = "".join(chr(ord("a") + g) for g in entry.groups)
        cells = [entry.learner, str(entry.n), score_text(entry.mean, metric)]
        cells += [str(entry.rank), letters, f"{entry.average_rank:.2f}"]
        cells += ["", ""] if pair is None else [_difference(pair, metric), _p(pair.holm)]
        table.add_row(*map(line, cells))
    units = {pair.n for pair in result.pairs}
    n = f"{min(units)}–{max(units)}" if len(units) > 1 else str(next(iter(units)))
    facts = [_unit(metric), f"{len(result.orders)} class orders", f"{n} {result.units} a pair"]
    remarks = [
        "",
        "to the best: mean paired difference ± half-width of its 95 % interval · p: paired t-test, "
        "Holm's correction over all pairs",
        "ties: neighbours that share a letter cannot be told apart at 5 % · rank: 1 and one for "
        "each learner that is better beyond doubt",
    ]
    if len(result.orders) == 1:
        remarks.append("one class order: another one may rank them differently (--by order)")
    return section_text(result.title, facts, table, remarks)


def _difference(pair: Pair, metric: str) -> str:
    mean = score_text(-pair.difference, metric)
    return mean if math.isnan(pair.half) else f"{mean} ±{score_text(pair.half, metric)}"


def _p(value: float) -> str:
    if math.isnan(value):
        return "–"
    return "<.001" if value < 0.001 else f"{value:.3f}".removeprefix("0")


def by_order_text(result: OrderSpread) -> str:
    """A spread over orders as text: learners are lines, orders columns, ranks in brackets."""
    metric, orders = result.metric, result.orders
    table = new_table(["learner", "mean", "least", "most", "sd orders", "sd seeds", *orders])
    for entry in result.learners:
        spread = [entry.mean, entry.least, entry.most, entry.sd_orders, entry.sd_seeds]
        cells = [entry.learner, *(score_text(v, metric) for v in spread)]
        cells += [
            f"{score_text(entry.by_order[o], metric)} [{entry.ranks[o]:g}]"
            if o in entry.by_order
            else "–"
            for o in orders
        ]
        table.add_row(*map(line, cells))
    remarks = ["", "in brackets: the learner's rank on the order"]
    if result.tau_least is not None:
        least = result.tau_least
        remarks.append(
            f"Kendall's τ between two orders' rankings: mean {signed(result.tau_mean, 2)}, least "
            f"{signed(result.tau[least], 2)} ({least})"
        )
    firsts = [e.learner for o in orders for e in result.learners if e.ranks.get(o) == 1]
    names = list(dict.fromkeys(firsts))
    remarks.append(f"best on some order: {', '.join(names)}")
    return section_text(
        result.title, [_unit(metric), f"{len(orders)} class orders"], table, remarks
    )


def by_seeds_text(result: SeedSpread) -> str:
    """The spreads of one table as text: one line per learner, one column per kind of seed."""
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
    return section_text(result.title, [f"sd of {_unit(metric)}"], table, remarks)


def _points(value: float, metric: str) -> str:
    """A standard deviation in points, with one decimal more than a score; Ω is not in points."""
    if math.isnan(value):
        return "–"
    return f"{value:.4f}" if metric.startswith("omega") else f"{100 * value:.2f}"


def _sd(spread: Spread, metric: str) -> str:
    """A spread with its number of runs, interval and share."""
    if not spread.n:
        return "–"
    low, high = _points(spread.low, metric), _points(spread.high, metric)
    text = f"{_points(spread.sd, metric)} ({spread.n}) [{low}, {high}]"
    share = math.nan if spread.share is None else spread.share
    return text if math.isnan(share) else f"{text} {100 * share:.0f} %"
