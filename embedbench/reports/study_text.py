"""Comparisons for the terminal, and the diagram of ranks as a file."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from embedbench.disk import write_safely
from embedbench.scores.stats import signed

from .by_seeds import KINDS
from .text import NATURAL


def _number(value: float, metric: str) -> str:
    """A score in percent, Ω as it is."""
    if math.isnan(value):
        return "–"
    return signed(value, 3) if metric.startswith("omega") else signed(100 * value, 1)


def _unit(metric: str) -> str:
    return metric if metric.startswith("omega") else f"{metric}, %"


def _print(
    found: dict[str, Any], facts: Sequence[str], table: Table, remarks: Sequence[str]
) -> str:
    console = Console(file=io.StringIO(), width=NATURAL, highlight=False)
    with console.capture() as captured:
        console.print(Text(found["title"]))
        console.print(Text(" · ".join(facts)))
        console.print(table)
        for line in remarks:
            console.print(Text(line))
    return "\n".join(line.rstrip() for line in captured.get().split("\n")).rstrip()


def _table(heads: Sequence[str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for i, head in enumerate(heads):
        table.add_column(head, justify="right" if i else "left", no_wrap=True)
    return table


def comparison_text(found: dict[str, Any]) -> str:
    """What `compare` found as text: one learner a line, its difference to the first."""
    metric = found["metric"]
    table = _table([*("learner", "n", metric, "rank", "ties", "mean rank"), "to the best", "p"])
    best = found["learners"][0]["learner"]
    to_best = {pair["b"]: pair for pair in found["pairs"] if pair["a"] == best}
    for entry in found["learners"]:
        pair = to_best.get(entry["learner"])
        letters = "".join(chr(ord("a") + g) for g in entry["groups"])
        cells = [entry["learner"], str(entry["n"]), _number(entry["mean"], metric)]
        cells += [str(entry["rank"]), letters, f"{entry['average_rank']:.2f}"]
        cells += ["", ""] if pair is None else [_difference(pair, metric), _p(pair["holm"])]
        table.add_row(*(Text(cell) for cell in cells))
    units = {pair["n"] for pair in found["pairs"]}
    n = f"{min(units)}–{max(units)}" if len(units) > 1 else str(next(iter(units)))
    facts = [_unit(metric), f"{len(found['orders'])} class orders", f"{n} {found['units']} a pair"]
    remarks = [
        "",
        "to the best: mean paired difference ± half-width of its 95 % interval · p: paired t-test, "
        "Holm's correction over all pairs",
        "ties: neighbours that share a letter cannot be told apart at 5 % · rank: 1 and one for "
        "each learner that is better beyond doubt",
    ]
    if len(found["orders"]) == 1:
        remarks.append("one class order: another one may rank them differently (--by order)")
    return _print(found, facts, table, remarks)


def _difference(pair: dict[str, Any], metric: str) -> str:
    mean = _number(-pair["difference"], metric)
    return mean if math.isnan(pair["half_95"]) else f"{mean} ±{_number(pair['half_95'], metric)}"


def _p(value: float) -> str:
    if math.isnan(value):
        return "–"
    return "<.001" if value < 0.001 else f"{value:.3f}".removeprefix("0")


def by_order_text(found: dict[str, Any]) -> str:
    """What `by_order` found as text: a learner a line, an order a column, ranks in brackets."""
    metric, orders = found["metric"], found["orders"]
    table = _table(["learner", "mean", "least", "most", "sd orders", "sd seeds", *orders])
    for entry in found["learners"]:
        spread = [entry[k] for k in ("mean", "least", "most", "sd_orders", "sd_seeds")]
        cells = [entry["learner"], *(_number(v, metric) for v in spread)]
        cells += [
            f"{_number(entry['by_order'][o], metric)} [{entry['ranks'][o]:g}]"
            if o in entry["by_order"]
            else "–"
            for o in orders
        ]
        table.add_row(*(Text(cell) for cell in cells))
    remarks = ["", "in brackets: the learner's rank on the order"]
    if found["tau_least"] is not None:
        least = found["tau_least"]
        remarks.append(
            f"Kendall's τ between two orders' rankings: mean {signed(found['tau_mean'], 2)}, least "
            f"{signed(found['tau'][least], 2)} ({least})"
        )
    firsts = [e["learner"] for o in orders for e in found["learners"] if e["ranks"].get(o) == 1]
    names = list(dict.fromkeys(firsts))
    remarks.append(f"best on some order: {', '.join(names)}")
    return _print(found, [_unit(metric), f"{len(orders)} class orders"], table, remarks)


def by_seeds_text(found: dict[str, Any]) -> str:
    """What `by_seeds` found of one table as text: a learner a line, a kind of seed a column."""
    metric = found["metric"]
    kinds = [k for k in KINDS if any(e["seeds"][k]["n"] for e in found["learners"])]
    table = _table(["learner", *kinds, "sum", "all four"])
    for entry in found["learners"]:
        cells = [_sd(entry["seeds"][kind], metric) for kind in kinds]
        cells += [_points(entry["sum"], metric), _sd(entry["all"], metric)]
        table.add_row(*(Text(cell) for cell in (entry["learner"], *cells)))
    remarks = [
        "",
        "standard deviation over (n) runs that differ in this seed alone [95 % chi-square "
        "interval], and its share of the summed variances",
        "the other three seeds are held at one setting: with others held, shares may be others",
        "sum: what these seeds would make together without interactions · all four: runs that "
        "share no seed; far from the sum, the seeds interact or the intervals are wide",
    ]
    return _print(found, [f"sd of {_unit(metric)}"], table, remarks)


def _points(value: float, metric: str) -> str:
    """A standard deviation in points, of Ω as it is; a decimal more than a score has."""
    if math.isnan(value):
        return "–"
    return f"{value:.4f}" if metric.startswith("omega") else f"{100 * value:.2f}"


def _sd(spread: dict[str, Any], metric: str) -> str:
    """A spread with its number of runs, interval and share."""
    if not spread["n"]:
        return "–"
    low, high = (_points(spread[k], metric) for k in ("low_95", "high_95"))
    text = f"{_points(spread['sd'], metric)} ({spread['n']}) [{low}, {high}]"
    share = spread.get("share", math.nan)
    return text if math.isnan(share) else f"{text} {100 * share:.0f} %"


def save_rank_plot(found: dict[str, Any], path: Path) -> None:
    """Write the critical-difference diagram of what `compare` found as an SVG file."""
    from .plots import rank_plot
    from .svg import standalone

    names = [e["learner"] for e in found["learners"]]
    groups = [[names.index(label) for label in group] for group in found["groups"]]
    ranks = [e["average_rank"] for e in found["learners"]]
    label = f"Average ranks by {found['metric']}: {found['title']}"
    write_safely(path, standalone(rank_plot(names, ranks, groups, label)))
