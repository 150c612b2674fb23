"""Learners against each other over seeds and class orders: `report --compare`, `report --by order`.

A study is all the runs that differ in learner, class order and seed only. Learners are paired on
blocks, one class order and one set of seeds. Where there are several orders, the units of every
interval are the orders (mean over the seeds of each), since runs on one order are no independent
evidence about others; with one order they are the seeds, and the result is about that order.

**Source**: the diagram of average ranks is Demšar's (2006). **Departs**: ties come from paired
t-tests with Holm's correction instead of Nemenyi's test, whose outcome for two learners depends on
which others were run (Benavoli et al. 2016) and which can separate nothing with a few runs.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.arrays import Bools, Floats
from embedbench.errors import UserError, unknown
from embedbench.scores.ranking import LEVEL, Paired, average_ranks, holm, kendall_tau, tie_groups
from embedbench.scores.record import Record
from embedbench.scores.stats import number

from .collect import collect, labels

SCHEMA = "embedbench-comparison/1.0"
LOWER = ("average_forgetting",)  # of these metrics less is better
Block = tuple[str, str]  # order, seeds


@dataclass(frozen=True)
class Study:
    """Scores of learners on blocks, best learner first.

    Parameters
    ----------
    title : protocol and files
    metric : name
    scores : learner's label → block → value, a fraction; larger is better but for `LOWER`
    """

    title: str
    metric: str
    scores: dict[str, dict[Block, float]]

    @property
    def learners(self) -> list[str]:
        return list(self.scores)

    @cached_property
    def orders(self) -> list[str]:
        """Class orders, as they are met."""
        return list(dict.fromkeys(o for found in self.scores.values() for o, _ in found))

    @property
    def sign(self) -> int:
        return -1 if self.metric in LOWER else 1

    def by_order(self, label: str) -> dict[str, list[float]]:
        """Order → the learner's scores on it, one a set of seeds."""
        found: dict[str, list[float]] = {}
        for (order, _), value in self.scores[label].items():
            found.setdefault(order, []).append(value)
        return found

    def mean(self, label: str) -> float:
        """Mean over orders of the mean over seeds."""
        return float(np.mean([np.mean(v) for v in self.by_order(label).values()]))

    def paired(self, a: str, b: str) -> Paired:
        """Score of `a` less that of `b`, over the blocks that both have."""
        apart: dict[str, list[float]] = {}
        for block, value in self.scores[a].items():
            if block in self.scores[b]:
                apart.setdefault(block[0], []).append(value - self.scores[b][block])
        if len(apart) == 1:
            return Paired.of(next(iter(apart.values())))
        return Paired.of([float(np.mean(d)) for d in apart.values()])

    @cached_property
    def pairs(self) -> dict[tuple[str, str], tuple[Paired, float]]:
        """For each two learners, the better placed first: the difference and Holm's p."""
        found = {pair: self.paired(*pair) for pair in itertools.combinations(self.learners, 2)}
        adjusted = holm([d.p for d in found.values()])
        return {pair: (d, p) for (pair, d), p in zip(found.items(), adjusted, strict=True)}

    @cached_property
    def separated(self) -> Bools:
        """(k, k) the data tell the two apart."""
        k = len(self.learners)
        apart = np.zeros((k, k), dtype=np.bool_)
        places = itertools.combinations(range(k), 2)
        for (i, j), (_, p) in zip(places, self.pairs.values(), strict=True):
            apart[i, j] = apart[j, i] = p < LEVEL
        return apart

    @property
    def ranks(self) -> list[int]:
        """1 and one more for every learner that is better beyond doubt; others share a rank."""
        means = [self.sign * self.mean(label) for label in self.learners]
        return [
            1 + sum(apart and other > mean for apart, other in zip(row, means, strict=True))
            for row, mean in zip(self.separated, means, strict=True)
        ]

    @property
    def average_ranks(self) -> Floats:
        """(k,) over the blocks that all learners have; NaN without such."""
        found = list(self.scores.values())
        shared = [block for block in found[0] if all(block in own for own in found)]
        if not shared:
            return np.full(len(found), np.nan)
        return average_ranks(np.array([[self.sign * own[b] for own in found] for b in shared]))


def studies(root: Path, metric: str = "final_accuracy") -> list[Study]:
    """Every study under a directory of runs; references and left-out runs do not take part.

    Raises
    ------
    UserError
        Nothing to compare: no runs, an unknown metric, or no two learners on the same stream.
    """
    rows = [row for row in collect(root) if row.learns]
    names = {name for row in rows for name in row.metrics}
    if metric not in names:
        raise unknown("metric", metric, names)
    together: dict[str, list[Record]] = {}
    for row in rows:
        for run in row.used:
            together.setdefault(_key(run), []).append(run)
    return [_study(runs, metric) for runs in together.values()]


def _key(run: Record) -> str:
    """What all runs of a study share."""
    params = {k: v for k, v in run["protocol_params"].items() if k != "order"}
    files = [f["digests"] for f in run["files"]]
    key = [run["protocol"], params, files, run["digests"]["features"], run["score"]]
    return json.dumps([*key, run["reference"]["preset"]], sort_keys=True)


def order_name(run: Record) -> str:
    """What to call the class order of a run; two runs on one stream have one order."""
    order = run.get("order") or {"kind": run["protocol_params"].get("order", "drawn"), "name": None}
    kind, name = str(order["kind"]), order["name"]
    if name is None:
        return f"{kind} {run['seeds']['order']}" if kind in ("random", "drawn") else Path(kind).stem
    name = Path(name).stem
    return name if kind in ("file", name) else f"{kind} ({name})"


def _study(runs: Sequence[Record], metric: str) -> Study:
    by_learner: dict[str, list[Record]] = {}
    for run in runs:
        key = json.dumps([run["learner"], run["learner_params"]], sort_keys=True)
        by_learner.setdefault(key, []).append(run)
    found = list(by_learner.values())
    scores: dict[str, dict[Block, float]] = {}
    for label, own in zip(labels(found), found, strict=True):
        for r in own:
            value = number(r["metrics"][metric])
            if not math.isnan(value):
                block = order_name(r), json.dumps(r["seeds"], sort_keys=True)
                scores.setdefault(label, {})[block] = value
    if not scores:
        raise UserError(
            f"{metric} is undefined in every run of {runs[0]['protocol']}; name another --metric"
        )
    files = ", ".join(f["name"] for f in runs[0]["files"])
    study = Study(f"{runs[0]['protocol']} · {files}", metric, scores)
    best_first = sorted(scores, key=lambda label: -study.sign * study.mean(label))
    return Study(study.title, metric, {label: scores[label] for label in best_first})


def compare(study: Study) -> dict[str, Any]:
    """Ranks, tie groups and differences of a study, as plain JSON; fractions, NaN is null.

    Raises
    ------
    UserError
        There is only one learner.
    """
    if len(study.learners) < 2:
        raise UserError(
            f"a comparison needs two learners on the same stream; {study.title} has "
            f"{', '.join(study.learners)} only"
        )
    groups = tie_groups(study.separated)
    ranked = zip(study.learners, study.ranks, study.average_ranks.tolist(), strict=True)
    return {
        "title": study.title,
        "metric": study.metric,
        "orders": study.orders,
        "units": "orders" if len(study.orders) > 1 else "seeds",
        "learners": [
            {
                "learner": label,
                "n": len(study.scores[label]),
                "mean": study.mean(label),
                "rank": rank,
                "average_rank": average,
                "groups": [g for g, (first, last) in enumerate(groups) if first <= i <= last],
            }
            for i, (label, rank, average) in enumerate(ranked)
        ],
        "groups": [study.learners[first : last + 1] for first, last in groups],
        "pairs": [
            {"a": a, "b": b, "difference": d.mean, "half_95": d.half, "n": d.n, "p": d.p, "holm": p}
            for (a, b), (d, p) in study.pairs.items()
        ],
    }


def by_order(study: Study) -> dict[str, Any]:
    """Each learner's spread over class orders, and how its rank changes, as plain JSON.

    Kendall's τ is that of the learners' means on two orders, over the learners run on both.

    Raises
    ------
    UserError
        There is only one order.
    """
    orders = study.orders
    if len(orders) < 2:
        raise UserError(
            f"--by order needs runs on two class orders or more; {study.title} has "
            f"{', '.join(orders)} only. Run again with another --order"
        )
    means = {
        label: {o: float(np.mean(v)) for o, v in study.by_order(label).items()}
        for label in study.learners
    }
    ranks = {o: _ranks_on(means, o, study.sign) for o in orders}
    taus = {}
    for a, b in itertools.combinations(orders, 2):
        both = [m for m in means.values() if a in m and b in m]
        taus[f"{a} | {b}"] = kendall_tau([m[a] for m in both], [m[b] for m in both])
    known = {k: t for k, t in taus.items() if not math.isnan(t)}
    return {
        "title": study.title,
        "metric": study.metric,
        "orders": orders,
        "learners": [
            {
                "learner": label,
                "mean": study.mean(label),
                "by_order": means[label],
                "ranks": {o: ranks[o][label] for o in means[label]},
                **_spread(study.by_order(label)),
            }
            for label in study.learners
        ],
        "tau": taus,
        "tau_mean": float(np.mean(list(known.values()))) if known else math.nan,
        "tau_least": min(known, key=lambda k: known[k]) if known else None,
    }


def _ranks_on(means: dict[str, dict[str, float]], order: str, sign: int) -> dict[str, float]:
    there = {label: sign * m[order] for label, m in means.items() if order in m}
    values = average_ranks(np.array([list(there.values())]))
    return dict(zip(there, values.tolist(), strict=True))


def _spread(found: dict[str, list[float]]) -> dict[str, float]:
    """Spread over orders (of the means over seeds) and over the seeds of an order (pooled)."""
    means = [float(np.mean(v)) for v in found.values()]
    free = sum(len(v) - 1 for v in found.values())
    squares = sum(float(np.var(v)) * len(v) for v in found.values())
    return {
        "least": min(means),
        "most": max(means),
        "sd_orders": float(np.std(means, ddof=1)) if len(means) > 1 else math.nan,
        "sd_seeds": math.sqrt(squares / free) if free else math.nan,
    }
