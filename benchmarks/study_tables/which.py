"""The values of the page on learners."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from embedbench.reports.comparison_results import Ranking
from embedbench.scores.mean_intervals import Stat
from embedbench.text.markdown import table

from . import parts
from .compared import apart, over_streams, overall, percent, streams, used, verdict
from .measured import Bytes
from .rows import Row

WITHOUT = ("ncm", "slda", "randumb", "ranpac", "acil", "knn")  # nothing is trained by gradients
REPLAY = ("exstream", "fearnet", "er", "er-ace", "icarl")
COMMANDS = r"""
embedbench run --config docs/studies/which-learner.toml --out study-1 --jobs 2
embedbench run mnist600.h5 --config docs/studies/which-learner.toml \
    --set incremental-class.sessions=5 --out study-1 --jobs 2
python benchmarks/study_pages.py rows which-learner study-1
python benchmarks/study_pages.py bytes study-1 .
python benchmarks/study_pages.py page which-learner"""


def values(rows: Sequence[Row], measured: Sequence[Bytes], budget: float) -> dict[str, Any]:
    """What the template of the page needs."""
    mine = parts.studied(rows)
    ranked = overall(mine)
    order = [e.learner for e in ranked.learners]
    without, replay = ([n for n in order if n in group] for group in (WITHOUT, REPLAY))
    by_file = {r.file for r in mine}
    return {
        "n_learners": len(order),
        "n_files": len(by_file),
        "n_protocols": len({r.protocol for r in mine}),
        "n_seeds": len({r.seed for r in mine}),
        "n_streams": len(streams(mine)),
        "n_cells": len(mine),
        "budget": f"{budget:g}",
        "answer": _answer(mine, ranked, (without, replay), budget),
        "accuracy": parts.accuracy(rows, order),
        "incremental": parts.incremental(rows, order),
        "missing": parts.missing(mine, mine),
        "ranking": parts.ranking(ranked),
        "costs": parts.costs(rows, order),
        "without": parts.listed(without),
        "replay": parts.listed(replay),
        "best_without": f"`{without[0]}`",
        "best_replay": f"`{replay[0]}`",
        "families": _families(mine, without, replay),
        "holds": _holds(mine, without, replay),
        "chosen": parts.chosen(mine, order),
        "bytes": _bytes(measured),
        "bytes_stream": measured[0].stream if measured else "no run",
        "bytes_verdict": _bytes_verdict(measured),
        "commands": COMMANDS.strip(),
    }


def _answer(
    rows: Sequence[Row], ranked: Ranking, groups: tuple[list[str], list[str]], budget: float
) -> list[str]:
    without, replay = groups
    first = ranked.learners[0]
    s = over_streams(rows, first.learner)
    level = [e.learner for e in ranked.learners[1:] if e.behind is False]
    others = f"; {parts.listed(level)} may be level" if level else ""
    n = len(streams(rows))
    d = apart(rows, without, replay)
    each = [verdict(_on(rows, stream, without, replay)) for stream in streams(rows)]
    seconds = [_seconds(rows, group) for group in groups]
    return [
        f"Over the {n} streams `{first.learner}` has the highest mean final accuracy, "
        f"{percent(s.mean, s.half)} % (interval over streams), among {len(ranked.learners)}"
        f"{others}.",
        f"The mean of the {len(without)} learners that train nothing less the mean of the "
        f"{len(replay)} with replay is {percent(d.mean, d.half, sign=True)} points (paired over "
        f"streams; {_phrase(d)}); over the seeds of single streams the difference is above 0 on "
        f"{each.count('above')}, below on {each.count('below')} and undecided on "
        f"{each.count('level')} of {n}.",
        f"They learn a stream in {seconds[0]:.1f} s where replay takes {seconds[1]:.1f} "
        f"(medians over learners of the mean over runs), {_fit(rows, budget)}.",
    ]


def _fit(rows: Sequence[Row], budget: float) -> str:
    """Whether all learners are within the budget of the study."""
    most = {
        n: max(r.bytes for r in rows if r.learner == n) / 1e6 for n in {r.learner for r in rows}
    }
    over = sorted(f"`{n}` ({mb:.1f} MB)" for n, mb in most.items() if mb > budget)
    if not over:
        return f"and all are within the {budget:g} MB"
    return f"and all are within the {budget:g} MB but for {', '.join(over)}"


def _phrase(d: Stat) -> str:
    words = {"above": "the interval is above 0", "below": "the interval is below 0"}
    return words.get(verdict(d), "the interval includes 0")


def _seconds(rows: Sequence[Row], learners: Sequence[str]) -> float:
    each = [[r.learn_seconds for r in used(rows) if r.learner == name] for name in learners]
    return float(np.median([np.mean(v) for v in each]))


def _on(rows: Sequence[Row], stream: str, a: Sequence[str], b: Sequence[str]) -> Stat:
    return apart([r for r in rows if r.stream == stream], a, b)


def _families(rows: Sequence[Row], without: Sequence[str], replay: Sequence[str]) -> str:
    lines = []
    for stream in streams(rows):
        groups, best = (
            _on(rows, stream, without, replay),
            _on(rows, stream, without[:1], replay[:1]),
        )
        cells = [percent(d.mean, d.half, sign=True) for d in (groups, best)]
        lines.append([stream, cells[0], verdict(groups), cells[1], verdict(best)])
    head = ["stream", "group less group, points", "", "best less best, points", ""]
    return table(head, lines)


def _holds(rows: Sequence[Row], without: Sequence[str], replay: Sequence[str]) -> list[str]:
    """Where the field's wisdom holds, where not, and where these runs cannot say."""
    where: dict[str, list[str]] = {"above": [], "below": [], "level": []}
    for stream in streams(rows):
        where[verdict(_on(rows, stream, without[:1], replay[:1]))].append(stream)
    a, b = without[0], replay[0]
    lines = {
        "above": f"The wisdom **holds**: `{a}` is above `{b}`",
        "below": f"It does **not**: `{a}` is below `{b}`",
        "level": f"**Undecided**: the interval of `{a}` less `{b}` includes 0",
    }
    said = [f"{lines[k]} on {'; '.join(v)}." for k, v in where.items() if v]
    means = {n: over_streams(rows, n).mean for n in (*without, *replay)}
    over = [n for n in without[1:] if means[n] < means[b]]
    if over:
        said.append(
            f"It is no property of the group: {parts.listed(over)} train nothing and have a lower "
            f"mean than `{b}`. How the features' covariance is used decides."
        )
    return said


def _bytes(measured: Sequence[Bytes]) -> str:
    lines = [
        [f"`{m.learner}`", *(f"{v:,}" for v in (m.recorded, m.saved, m.renewed, m.memory))]
        for m in measured
    ]
    return table(["learner", "recorded", "saved", "renewed", "in memory"], lines)


def _bytes_verdict(measured: Sequence[Bytes]) -> str:
    """Whether what is recorded is what is there."""
    other = [m for m in measured if m.recorded != m.saved]
    if not other:
        return f"Recorded equals saved for all {len(measured)}, to the byte."
    worst = max(abs(m.saved / m.recorded - 1) for m in other) if other else math.nan
    equal = len(measured) - len(other)
    return (
        f"Recorded equals saved for {equal} of {len(measured)}, to the byte; "
        f"{parts.listed([m.learner for m in other])} differ, by {100 * worst:.2f} % at most."
    )
