"""Comparisons of a study's rows: by the code of `embedbench report --compare`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from embedbench.reports.compare_learners import ComparisonStudy
from embedbench.reports.comparison_results import AllPairs, Ranking, compare, compare_all
from embedbench.scores.mean_intervals import Stat, format_signed

from .rows import LEFT_OUT, Row

Block = tuple[str, str]


def streams(rows: Iterable[Row]) -> list[str]:
    """The streams, in the order of the rows."""
    return list(dict.fromkeys(r.stream for r in rows))


def used(rows: Iterable[Row], metric: str = "final_accuracy") -> list[Row]:
    """The rows that means include."""
    return [
        r
        for r in rows
        if not math.isnan(getattr(r, metric)) and not {*r.flags.split()} & {*LEFT_OUT}
    ]


def overall(rows: Sequence[Row], metric: str = "final_accuracy") -> Ranking:
    """Learners over all streams; a stream counts with its mean over seeds, so n is theirs."""
    return compare(_study(rows, metric, lambda r: (r.stream, str(r.seed))))


def within(rows: Sequence[Row], metric: str = "final_accuracy") -> Ranking:
    """Learners on one stream; every seed has drawn an order, so n is the number of seeds."""
    return compare(_study(rows, metric, lambda r: (f"order {r.seed}", str(r.seed))))


def pairs_within(rows: Sequence[Row], metric: str = "final_accuracy") -> AllPairs:
    """All pairs of learners on one stream, corrected."""
    return compare_all(_study(rows, metric, lambda r: (f"order {r.seed}", str(r.seed))))


def apart(rows: Sequence[Row], a: Sequence[str], b: Sequence[str]) -> Stat:
    """The mean final accuracy of the learners `a` less that of the learners `b`.

    Over streams, if the rows have several; over seeds otherwise.
    """
    alone = len(streams(rows)) == 1
    scores: dict[str, dict[Block, float]] = {}
    for name, learners in (("a", a), ("b", b)):
        values: dict[Block, list[float]] = {}
        for r in used(rows):
            if r.learner in learners:
                block = (f"order {r.seed}" if alone else r.stream, str(r.seed))
                values.setdefault(block, []).append(r.final_accuracy)
        complete = {k: v for k, v in values.items() if len(v) == len(learners)}
        scores[name] = {k: float(np.mean(v)) for k, v in complete.items()}
    units: dict[str, list[float]] = {}
    for block in scores["a"].keys() & scores["b"].keys():
        units.setdefault(block[0], []).append(scores["a"][block] - scores["b"][block])
    return Stat.of(float(np.mean(units[unit])) for unit in sorted(units))


def over_streams(rows: Sequence[Row], learner: str) -> Stat:
    """A learner's final accuracy: the mean over streams of the mean over seeds."""
    mine = [r for r in used(rows) if r.learner == learner]
    return Stat.of(stat(mine, s).mean for s in streams(mine))


def stat(rows: Iterable[Row], stream: str, value: str = "final_accuracy") -> Stat:
    """Mean and 95 % interval over the seeds of one stream."""
    return Stat.of(getattr(r, value) for r in rows if r.stream == stream)


def percent(mean: float, half: float = math.nan, *, sign: bool = False) -> str:
    """A fraction in percent, with its half-width."""
    if math.isnan(mean):
        return "–"
    text = ("+" if sign and round(100 * mean, 1) > 0 else "") + format_signed(100 * mean, 1)
    return text if math.isnan(half) else f"{text} ±{100 * half:.1f}"


def verdict(d: Stat) -> str:
    """Which side of 0 a difference is on: "above", "below", or "level" if 0 is inside."""
    if math.isnan(d.half) or abs(d.mean) <= d.half:
        return "level"
    return "above" if d.mean > 0 else "below"


def _study(rows: Sequence[Row], metric: str, block: Callable[[Row], Block]) -> ComparisonStudy:
    scores: dict[str, dict[Block, float]] = {}
    for r in used(rows, metric):
        scores.setdefault(r.learner, {})[block(r)] = getattr(r, metric)
    study = ComparisonStudy("", metric, scores)
    best = sorted(scores, key=lambda label: -study.sign * study.mean(label))
    return ComparisonStudy("", metric, {label: scores[label] for label in best})
