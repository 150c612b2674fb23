"""The values of the page on backbones."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from embedbench.reports.comparison_text import allowed_ranks
from embedbench.scores.learner_ranking import LEVEL, kendall_tau
from embedbench.scores.mean_intervals import Stat, format_signed
from embedbench.text.markdown import table

from . import parts
from .compared import overall, pairs_within, percent, stat, streams, within
from .rows import Row

NAMES = {"emoji": "EfficientNet", "emoji-vits": "ViT"}
COMMANDS = r"""
embedbench run --config docs/studies/backbone.toml --out study-2 --jobs 2
embedbench run emoji.h5 --config docs/studies/backbone.toml \
    --set protocol.embedding=final --out study-2 --jobs 2
python benchmarks/study_pages.py rows backbone study-2
python benchmarks/study_pages.py page backbone"""


def values(rows: Sequence[Row]) -> dict[str, Any]:
    """What the template of the page needs."""
    rows = [replace(r, file=NAMES.get(r.file, r.file), protocol="") for r in rows]
    mine = parts.studied(rows)
    ranked = overall(mine)
    order = [e.learner for e in ranked.learners]
    means = {s: {n: _mean(mine, s, n) for n in order} for s in streams(mine)}
    return {
        "n_learners": len(order),
        "n_embeddings": len(means),
        "n_seeds": len({r.seed for r in mine}),
        "n_cells": len(mine),
        "answer": _answer(mine, means),
        "accuracy": parts.accuracy(rows, order),
        "incremental": parts.incremental(rows, order),
        "missing": parts.missing(mine, mine),
        "agreement": _agreement(means),
        "ranking": _places(mine),
        "spread": _spread(mine, means, order),
        "costs": parts.costs(rows, order),
        "chosen": parts.chosen(mine, order),
        "commands": COMMANDS.strip(),
    }


def _mean(rows: Sequence[Row], stream: str, learner: str) -> float:
    return stat([r for r in rows if r.learner == learner], stream).mean


def _answer(rows: Sequence[Row], means: dict[str, dict[str, float]]) -> list[str]:
    of = {s: Stat.of(v for v in m.values()).mean for s, m in means.items()}
    best, worst = max(of, key=of.__getitem__), min(of, key=of.__getitem__)
    gap = _gap(rows, best, worst)
    learners = {n: float(np.mean([m[n] for m in means.values()])) for n in means[best]}
    wide = max(learners.values()) - min(learners.values())
    taus = _taus(means)
    least, mean = min(taus, key=taus.__getitem__), float(np.mean(list(taus.values())))
    firsts = {max(m, key=m.__getitem__) for m in means.values()}
    always = (
        f"`{next(iter(firsts))}` is first on all"
        if len(firsts) == 1
        else (f"{len(firsts)} learners are first somewhere ({parts.listed(sorted(firsts))})")
    )
    return [
        f"The mean over the learners is {percent(of[best])} % on {best} and {percent(of[worst])} "
        f"on {worst}, {percent(gap.mean, gap.half)} points apart (paired over seeds); between the "
        f"best and the worst learner, each with its mean over embeddings, are {percent(wide)} "
        "points.",
        "Kendall's τ between the rankings of the learners on two embeddings is "
        f"{format_signed(mean, 2)} in the mean and {format_signed(taus[least], 2)} "
        f"at least ({' and '.join(least)}), where 1 is the same order; {always}; "
        f"{_reversed(rows)}.",
        _layers(rows, of),
    ]


def _reversed(rows: Sequence[Row]) -> str:
    """The pairs of learners that differ significantly one way here and the other way there."""
    every = [pairs_within([r for r in rows if r.stream == s]) for s in streams(rows)]
    sure = {(p.better, p.worse) for each in every for p in each.pairs if p.holm < LEVEL}
    both = sorted((a, b) for a, b in sure if a < b and (b, a) in sure)
    if not both:
        return "no pair differs significantly one way on one embedding and the other way on another"
    named = "; ".join(f"`{a}` and `{b}`" for a, b in both)
    return (
        f"of {len(every[0].pairs)} pairs {len(both)} differ significantly one way on one "
        f"embedding and the other way on another ({named})"
    )


def _gap(rows: Sequence[Row], a: str, b: str) -> Stat:
    """The mean over learners on `a` less that on `b`, over seeds."""

    def on(stream: str, seed: int) -> float:
        return float(
            np.mean([r.final_accuracy for r in rows if (r.stream, r.seed) == (stream, seed)])
        )

    return Stat.of(on(a, seed) - on(b, seed) for seed in sorted({r.seed for r in rows}))


def _layers(rows: Sequence[Row], of: dict[str, float]) -> str:
    """The best intermediate layer against the final embedding of the same file."""
    inner = {r.stream: r.file for r in rows if r.embedding != "final"}
    if not inner:
        return "No file has intermediate layers."
    best = max(inner, key=of.__getitem__)
    final = next(r.stream for r in rows if (r.file, r.embedding) == (inner[best], "final"))
    gap = _gap(rows, best, final)
    return (
        f"The best intermediate layer less the final one of the same network ({best} less {final}) "
        f"is {percent(gap.mean, gap.half, sign=True)} points, a mean over learners paired over "
        "seeds."
    )


def _taus(means: dict[str, dict[str, float]]) -> dict[tuple[str, str], float]:
    return {
        (a, b): kendall_tau(list(means[a].values()), list(means[b].values()))
        for a, b in itertools.combinations(means, 2)
    }


def _agreement(means: dict[str, dict[str, float]]) -> str:
    taus, names = _taus(means), list(means)

    def cell(a: str, b: str) -> str:
        return "" if a == b else format_signed(taus.get((a, b), taus.get((b, a), np.nan)), 2)

    return table(["", *names], [[a, *(cell(a, b) for b in names)] for a in names])


def _places(rows: Sequence[Row]) -> str:
    """The ranking on each embedding, best first, with the ranks left open."""
    lines = []
    for stream in streams(rows):
        ranked = within([r for r in rows if r.stream == stream])
        order = (f"{e.learner} [{allowed_ranks(e)}]" for e in ranked.learners)
        lines.append([stream, " > ".join(order)])
    return table(["embedding", "best first, with the ranks left open"], lines)


def _spread(rows: Sequence[Row], means: dict[str, dict[str, float]], order: Sequence[str]) -> str:
    lines = []
    for n in order:
        best, worst = (pick(means, key=lambda s: means[s][n]) for pick in (max, min))
        mine = [r for r in rows if r.learner == n]
        gap = _gap(mine, best, worst)
        lines.append(
            [
                f"`{n}`",
                best,
                percent(means[best][n]),
                worst,
                percent(means[worst][n]),
                percent(gap.mean, gap.half),
            ]
        )
    return table(["learner", "best on", "%", "worst on", "%", "difference, points"], lines)
