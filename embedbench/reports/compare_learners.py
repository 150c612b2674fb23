"""Learners against each other over seeds and class orders: `report --compare`, `report --by order`.

A study is a set of runs that differ only in learner, class order and seed. Learners are paired on
blocks; a block is one class order with one set of seeds. If there are several orders, every
interval is over orders (each order counts with its mean over seeds), because runs on one order are
not independent evidence about other orders. If there is one order, intervals are over seeds, and
the result holds for that order only.

**Source**: the diagram of average ranks is Demšar's (2006). **Departs**: ties come from paired
t-tests with Holm's correction instead of Nemenyi's test. The outcome of Nemenyi's test for two
learners depends on which others were run (Benavoli et al. 2016), and with a few runs it can
separate nothing. A pair with fewer than `LEAST` units in common is not tested.

Every statement on ties rests on `ComparisonStudy.separated`: the verdict, the letters and ranks of
`report --compare`, the bars of `--figure ranks`. Such ties are not transitive: `a` may be tied with
`b` and `b` with `c` while `a` is better than `c`.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from embedbench.arrays import Bools, Floats
from embedbench.errors import UserError, unknown
from embedbench.scores.learner_ranking import LEVEL, PairedDifference, average_ranks, holm
from embedbench.scores.run_record import ClassOrder, RunRecord

from .comparability import LATER, stream_title
from .remarks import searches
from .result_rows import Row
from .row_labels import labels

LEAST = 3  # seeds or class orders in common, below which a difference is not tested
LOWER = ("average_forgetting", "per_class_forgetting")  # metrics where less is better
Block = tuple[str, str]  # order, seeds


@dataclass(frozen=True)
class ComparisonStudy:
    """Scores of learners on blocks; the best learner comes first.

    Parameters
    ----------
    title, metric : str
        Protocol and files, and the name of the metric.
    scores : dict
        Learner's label → block → score, a fraction; larger is better except for metrics in `LOWER`.
    lower : bool
        Whether less is better, of a metric of other people.
    notes : tuple of str
        Remarks on the learners.
    """

    title: str
    metric: str
    scores: dict[str, dict[Block, float]]
    lower: bool = False
    notes: tuple[str, ...] = ()

    @property
    def learners(self) -> list[str]:
        return list(self.scores)

    @cached_property
    def orders(self) -> list[str]:
        """Class orders, in the order of the learners' runs."""
        return list(dict.fromkeys(o for values in self.scores.values() for o, _ in values))

    @property
    def sign(self) -> int:
        return -1 if self.lower or self.metric in LOWER else 1

    def by_order(self, label: str) -> dict[str, list[float]]:
        """Order → the learner's scores on it, one per set of seeds."""
        result: dict[str, list[float]] = {}
        for (order, _), value in self.scores[label].items():
            result.setdefault(order, []).append(value)
        return result

    def mean(self, label: str) -> float:
        """Mean over orders of the mean over seeds."""
        return float(np.mean([np.mean(v) for v in self.by_order(label).values()]))

    def paired(self, a: str, b: str) -> PairedDifference:
        """Score of `a` minus score of `b`, over the blocks that both have."""
        apart: dict[str, list[float]] = {}
        for block, value in self.scores[a].items():
            if block in self.scores[b]:
                apart.setdefault(block[0], []).append(value - self.scores[b][block])
        if len(apart) == 1:
            return PairedDifference.of(next(iter(apart.values())))
        return PairedDifference.of([float(np.mean(d)) for d in apart.values()])

    @cached_property
    def pairs(self) -> dict[tuple[str, str], tuple[PairedDifference, float]]:
        """For each pair of learners, the better one first: the difference and Holm's p-value.

        The p-value is NaN for a pair with fewer than `LEAST` units.
        """
        apart = {pair: self.paired(*pair) for pair in itertools.combinations(self.learners, 2)}
        adjusted = holm([d.p if d.n >= LEAST else math.nan for d in apart.values()])
        return {pair: (d, p) for (pair, d), p in zip(apart.items(), adjusted, strict=True)}

    @cached_property
    def separated(self) -> Bools:
        """(k, k) whether two learners differ significantly."""
        k = len(self.learners)
        apart = np.zeros((k, k), dtype=np.bool_)
        places = itertools.combinations(range(k), 2)
        for (i, j), (_, p) in zip(places, self.pairs.values(), strict=True):
            apart[i, j] = apart[j, i] = p < LEVEL
        return apart

    @property
    def ranks(self) -> list[int | None]:
        """1, plus 1 for every learner that is significantly better; None where nothing is tested.

        Nothing is tested where no other learner has `LEAST` units in common with one.
        """
        means = [self.sign * self.mean(label) for label in self.learners]
        tested = {label for pair, (d, _) in self.pairs.items() if d.n >= LEAST for label in pair}
        return [
            1 + sum(apart and other > mean for apart, other in zip(row, means, strict=True))
            if label in tested
            else None
            for label, row, mean in zip(self.learners, self.separated, means, strict=True)
        ]

    @property
    def average_ranks(self) -> Floats:
        """(k,) mean rank over the blocks that all learners have; NaN if there are none."""
        scores = list(self.scores.values())
        shared = [block for block in scores[0] if all(block in values for values in scores)]
        if not shared:
            return np.full(len(scores), np.nan)
        table = [[self.sign * values[block] for values in scores] for block in shared]
        return average_ranks(np.array(table))


def studies(rows: Sequence[Row], metric: str = "final_accuracy") -> list[ComparisonStudy]:
    """Every study among the runs of a report; left-out runs are not included.

    Raises
    ------
    UserError
        There is nothing to compare: an unknown metric, or no two learners on one stream.
    """
    rows = [row for row in rows if row.learns]
    names = {name for row in rows for name in row.metrics}
    if metric not in names:
        raise unknown("metric", metric, names)
    together: dict[str, list[Row]] = {}
    for row in rows:
        together.setdefault(_key(row.records[0]), []).append(row)
    outside = rows[0].group.outside.get(metric)
    lower = outside is not None and outside.lower_is_better
    used = (those for those in together.values() if any(row.used for row in those))
    return [_study(those, metric, lower) for those in used]


def _key(run: RunRecord) -> str:
    """The properties that all runs of a study share."""
    params = LATER | {k: v for k, v in run.protocol_params.items() if k != "order"}
    files = [f.digests for f in run.files]
    key = [run.protocol, params, files, run.digests.features, run.score]
    return json.dumps([*key, run.reference.preset], sort_keys=True)


def order_name(run: RunRecord) -> str:
    """The name of a run's class order; two runs on one stream have the same order."""
    order = run.order or ClassOrder(run.protocol_params.get("order", "drawn"))
    kind, name = str(order.kind), order.name
    if name is None:
        return f"{kind} {run.seeds.order}" if kind in ("random", "drawn") else Path(kind).stem
    name = Path(name).stem
    return name if kind in ("file", name) else f"{kind} ({name})"


def _study(rows: Sequence[Row], metric: str, lower: bool) -> ComparisonStudy:
    by_learner: dict[str, list[Row]] = {}
    for row in rows:
        key = json.dumps([row.learner, row.params], sort_keys=True)
        by_learner.setdefault(key, []).append(row)
    each = list(by_learner.values())
    scores: dict[str, dict[Block, float]] = {}
    tuned = []
    named = labels([[r for row in those for r in row.records] for those in each])
    for label, those in zip(named, each, strict=True):
        records = [r for row in those for r in row.used]
        for r in records:
            value = r.metrics.get(metric, math.nan)
            if not math.isnan(value):
                scores.setdefault(label, {})[order_name(r), str(r.seeds)] = value
        tuned += [f"{label} ({how})" for how in [searches(records)] if how]
    first = rows[0].group.first
    if not scores:
        raise UserError(
            f"{metric} is undefined in every run of {first.protocol}; name another --metric"
        )
    notes = [f"tuned on validation data: {', '.join(tuned)}"] if tuned else []
    notes += dict.fromkeys(remark for row in rows for remark in row.group.remarks)
    study = ComparisonStudy(stream_title(first), metric, scores, lower, tuple(notes))
    best_first = sorted(scores, key=lambda label: -study.sign * study.mean(label))
    return replace(study, scores={label: scores[label] for label in best_first})
