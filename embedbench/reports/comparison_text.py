"""Comparisons for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from string import ascii_letters
from typing import Any

from rich.table import Table
from rich.text import Text

from embedbench.scores.mean_intervals import format_signed
from embedbench.text.table_export import records
from embedbench.text.terminal import line, new_table

from .compare_learners import LEAST
from .comparison_results import OrderSpread, Pair, Ranking
from .seed_effects import KINDS, SeedSpread, Spread
from .terminal_tables import heading, is_percent

MOST_PAIRS = 15  # that a second table lists


def score_text(value: float, metric: str) -> str:
    """A score in percent; Ω unchanged."""
    if math.isnan(value):
        return "–"
    return format_signed(100 * value, 1) if is_percent(metric) else format_signed(value, 3)


def _unit(metric: str) -> str:
    return f"{metric}, %" if is_percent(metric) else metric


def section(
    title: str, facts: Sequence[str], table: Table, remarks: Sequence[str] = ()
) -> list[Text | Table]:
    """A title, a line of facts, a table and remarks."""
    return [line(title, "bold"), line(" · ".join(facts)), table, *map(line, remarks)]


def study_parts(study: Ranking | OrderSpread | SeedSpread) -> list[Text | Table]:
    """The title, facts, table and remarks of a study."""
    if isinstance(study, Ranking):
        return comparison_parts(study)
    return by_order_parts(study) if isinstance(study, OrderSpread) else by_seeds_parts(study)


def study_rows(study: Ranking | OrderSpread | SeedSpread) -> list[dict[str, Any]]:
    """The numbers of a study, one row per learner, with the names of its JSON.

    A ranking also has the learner's difference from each other one: `minus.NAME` with its 95 %
    half-width and p-values.
    """
    rows = records(study.to_json(), "learners")
    if isinstance(study, Ranking):
        signs = {(p.a, p.b): (1, p) for p in study.pairs}
        signs |= {(p.b, p.a): (-1, p) for p in study.pairs}
        best = study.learners[0].learner
        for row in rows:
            to_best = signs.get((best, row["learner"]), (0, None))[1]
            row["to_best"] = to_best and -to_best.difference
            row["to_best.half_95"] = to_best and to_best.half
            row |= {"p": to_best and to_best.p, "holm": to_best and to_best.holm}
            for other in study.learners:
                sign, pair = signs.get((row["learner"], other.learner), (0, None))
                name = f"minus.{other.learner}"
                row[name] = pair and sign * pair.difference
                row |= {f"{name}.half_95": pair and pair.half, f"{name}.p": pair and pair.p}
                row[f"{name}.holm"] = pair and pair.holm
    return rows


def comparison_parts(result: Ranking) -> list[Text | Table]:
    """A ranking: one row per learner, with its difference from the best; then the other pairs."""
    metric = result.metric
    heads = ["learner", "n", heading(metric), "rank", "ties", "to the best", "p", "mean rank"]
    table = new_table(heads)
    best = result.learners[0].learner
    to_best = {pair.b: pair for pair in result.pairs if pair.a == best}
    for entry in result.learners:
        pair = to_best.get(entry.learner)
        cells = [entry.learner, str(entry.n), score_text(entry.mean, metric)]
        cells += [str(entry.rank or "–"), "".join(map(letter, entry.groups))]
        cells += ["", ""] if pair is None else [_difference(pair, metric, -1), _p(pair.holm)]
        table.add_row(*map(line, (*cells, f"{entry.average_rank:.2f}")))
    units = {pair.n for pair in result.pairs}
    n = f"{min(units)}–{max(units)}" if len(units) > 1 else str(next(iter(units)))
    count = len(result.orders)
    orders = "1 class order" if count == 1 else f"{count} class orders"
    facts = [_unit(metric), orders, f"{n} {result.units} a pair"]
    others = [pair for pair in result.pairs if pair.a != best]
    return [
        *section(result.title, facts, table),
        *_other_pairs(others, metric),
        *map(line, _remarks(result, hidden=len(others) > MOST_PAIRS)),
    ]


def letter(group: int) -> str:
    """The letter of a group of ties: a to z, A to Z, then a2, …"""
    again, place = divmod(group, len(ascii_letters))
    return ascii_letters[place] + (str(again + 1) if again else "")


def _other_pairs(pairs: Sequence[Pair], metric: str) -> list[Text | Table]:
    """A table of the pairs without the best learner, if they are few."""
    if not 0 < len(pairs) <= MOST_PAIRS:
        return []
    table = new_table(["learner", "against", "difference", "p"], names=2)
    for pair in pairs:
        table.add_row(*map(line, (pair.a, pair.b, _difference(pair, metric, 1), _p(pair.holm))))
    return [line(""), line("the other pairs", "bold"), table]


def _remarks(result: Ranking, *, hidden: bool) -> list[str]:
    """What the columns of a ranking mean, and what its tables lack."""
    remarks = [
        "",
        "to the best, difference: mean paired difference ± half-width of its 95 % interval, not "
        "corrected · p: paired t-test, Holm's correction over all pairs",
        "ties: two learners share a letter if and only if they cannot be told apart at 5 % · "
        "rank: 1 and one for each learner that is significantly better",
    ]
    if any(pair.n < LEAST for pair in result.pairs):
        remarks.append(f"p –: fewer than {LEAST} {result.units} in common: not tested")
    if hidden:
        remarks.append("the other pairs: --csv or --json")
    if len(result.orders) == 1:
        remarks.append("one class order: another one may rank them differently (--by order)")
    return remarks + [f"note: {note}" for note in result.notes]


def _difference(pair: Pair, metric: str, sign: int) -> str:
    mean = score_text(sign * pair.difference, metric)
    return mean if math.isnan(pair.half) else f"{mean} ±{score_text(pair.half, metric)}"


def _p(value: float) -> str:
    if math.isnan(value):
        return "–"
    return "<.001" if value < 0.001 else f"{value:.3f}".removeprefix("0")


def by_order_parts(result: OrderSpread) -> list[Text | Table]:
    """A spread over orders: learners are rows, orders columns, ranks in brackets."""
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
            "Kendall's τ between two orders' rankings: "
            f"mean {format_signed(result.tau_mean, 2)}, least "
            f"{format_signed(result.tau[least], 2)} ({least})"
        )
    firsts = [e.learner for o in orders for e in result.learners if e.ranks.get(o) == 1]
    names = list(dict.fromkeys(firsts))
    remarks.append(f"best on some order: {', '.join(names)}")
    return section(result.title, [_unit(metric), f"{len(orders)} class orders"], table, remarks)


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
