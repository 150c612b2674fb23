"""Results of `report --compare` and `report --by order`: rankings, pairs, spreads over orders."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from embedbench.config.json_records import JsonRecord
from embedbench.errors import UserError
from embedbench.scores.multiple_comparisons import PairVerdict, RowVerdict
from embedbench.scores.rank_statistics import average_ranks, kendall_tau

from .compare_learners import ComparisonStudy, TableVerdicts
from .seed_effects import SeedSpread, Spread

SCHEMA = "embedbench-comparison/2.0"


@dataclass(frozen=True)
class RankedLearner(RowVerdict):
    """One learner of a ranking and the verdict on it. docs/record.md describes each field."""

    learner: str
    runs: int


@dataclass(frozen=True, kw_only=True)
class _View(JsonRecord):
    """What the views of a study share. docs/record.md describes each field."""

    title: str
    metric: str
    orders: tuple[str, ...]
    units: str


@dataclass(frozen=True, kw_only=True)
class Ranking(_View):
    """The learners of a study, best mean first; the `against` of a verdict is a place in them.

    `notes` are remarks on the learners: settings that were tuned, several settings of one learner.
    `groups` is what the test sample is counted in: `groups` of a file, or `samples`.
    """

    learners: tuple[RankedLearner, ...]
    notes: tuple[str, ...] = ()
    groups: str = "samples"

    @property
    def judged(self) -> TableVerdicts:
        """Its verdicts."""
        return TableVerdicts(self.learners, self.units, self.groups, self.metric)


@dataclass(frozen=True)
class ComparedPair(PairVerdict):
    """Two learners of a study, the better one first, and their labels."""

    better: str
    worse: str


@dataclass(frozen=True, kw_only=True)
class AllPairs(_View):
    """All pairs of learners of a study, with Holm's correction: a bound for the whole table.

    `learners` are their labels, best mean first; `a` and `b` of a pair are places in them.
    """

    learners: tuple[str, ...]
    pairs: tuple[ComparedPair, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LearnerByOrder(JsonRecord):
    """One learner on several class orders. docs/record.md describes each field."""

    learner: str
    mean: float
    by_order: dict[str, float]
    ranks: dict[str, float]
    least: float
    most: float
    sd_orders: float
    sd_seeds: float


@dataclass(frozen=True, kw_only=True)
class OrderSpread(_View):
    """Spread of the learners of a study over class orders. docs/record.md describes each field."""

    learners: tuple[LearnerByOrder, ...]
    tau: dict[str, float]
    tau_mean: float
    tau_least: str | None


Study = Ranking | AllPairs | OrderSpread | SeedSpread


@dataclass(frozen=True)
class Comparison(JsonRecord):
    """The studies of a directory of runs: rankings, pairs, or spreads over orders or over seeds."""

    schema: str
    studies: tuple[Study, ...]

    @classmethod
    def of(cls, studies: Sequence[Study]) -> Self:
        """A comparison with the schema of this version."""
        return cls(SCHEMA, tuple(studies))


def compare(study: ComparisonStudy) -> Ranking:
    """The verdicts on the learners of a study.

    Raises
    ------
    UserError
        There is only one learner.
    """
    _check_several(study)
    ranked = zip(study.verdicts, study.scores.items(), strict=True)
    return Ranking(
        **_shared(study),
        learners=tuple(
            RankedLearner(**vars(v), learner=i, runs=len(each)) for v, (i, each) in ranked
        ),
        notes=study.notes,
        groups=study.groups,
    )


def compare_all(study: ComparisonStudy) -> AllPairs:
    """All pairs of learners of a study; raises as `compare` does."""
    _check_several(study)
    names = study.learners
    pairs = (ComparedPair(**vars(p), better=names[p.a], worse=names[p.b]) for p in study.pairs())
    return AllPairs(**_shared(study), learners=tuple(names), pairs=tuple(pairs), notes=study.notes)


def _shared(study: ComparisonStudy) -> dict[str, Any]:
    return {
        "title": study.title,
        "metric": study.metric,
        "orders": tuple(study.orders),
        "units": study.units,
    }


def _check_several(study: ComparisonStudy) -> None:
    if len(study.learners) < 2:
        raise UserError(
            f"a comparison needs two learners on the same stream; {study.title} has "
            f"{', '.join(study.learners)} only"
        )


def by_order(study: ComparisonStudy) -> OrderSpread:
    """Each learner's spread over class orders, and how its rank changes.

    Kendall's τ compares the rankings on two orders, over the learners that were run on both.

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
    learners = [
        _spread(label, study.mean(label), study.by_order(label), ranks) for label in study.learners
    ]
    return OrderSpread(
        **_shared(study),
        learners=tuple(learners),
        tau=taus,
        tau_mean=float(np.mean(list(known.values()))) if known else math.nan,
        tau_least=min(known, key=lambda k: known[k]) if known else None,
    )


def _ranks_on(means: dict[str, dict[str, float]], order: str, sign: int) -> dict[str, float]:
    there = {label: sign * m[order] for label, m in means.items() if order in m}
    values = average_ranks(np.array([list(there.values())]))
    return dict(zip(there, values.tolist(), strict=True))


def _spread(
    label: str, mean: float, scores: dict[str, list[float]], ranks: dict[str, dict[str, float]]
) -> LearnerByOrder:
    """Spread over orders (of the means over seeds) and over the seeds of an order (pooled)."""
    means = {order: float(np.mean(values)) for order, values in scores.items()}
    return LearnerByOrder(
        learner=label,
        mean=mean,
        by_order=means,
        ranks={order: ranks[order][label] for order in means},
        least=min(means.values()),
        most=max(means.values()),
        sd_orders=float(np.std(list(means.values()), ddof=1)) if len(means) > 1 else math.nan,
        sd_seeds=Spread.of(list(scores.values())).sd,
    )
