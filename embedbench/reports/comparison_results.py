"""Results of `report --compare` and `report --by`: rankings of learners, spreads over orders."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from embedbench.config.json_types import JsonRecord
from embedbench.errors import UserError
from embedbench.scores.learner_ranking import average_ranks, kendall_tau, tie_groups

from .compare_learners import ComparisonStudy
from .seed_effects import SeedSpread

SCHEMA = "embedbench-comparison/1.0"


@dataclass(frozen=True)
class RankedLearner(JsonRecord):
    """One learner of a ranking.

    Parameters
    ----------
    learner : str
        Its label.
    n : int
        Number of runs.
    mean : float
        Mean over orders of the mean over seeds.
    rank : int or None
        1, plus 1 for every learner that is significantly better; None where no other learner has
        `compare_learners.LEAST` units in common with it.
    average_rank : float
        Mean rank over the blocks; a block is one order with one set of seeds.
    groups : tuple of int
        Indices of its tie groups.
    """

    learner: str
    n: int
    mean: float
    rank: int | None
    average_rank: float
    groups: tuple[int, ...]


@dataclass(frozen=True)
class Pair(JsonRecord):
    """Two learners: the mean of `a` minus `b` over `n` units, and its significance.

    Parameters
    ----------
    a, b : str
        Their labels.
    difference, half : float
        The mean difference, and the half-width of its 95 % t-interval.
    n : int
        Number of units that both have.
    p, holm : float
        p-value of the paired t-test, and the same corrected for the number of pairs; `holm` is NaN
        under `compare_learners.LEAST` units, where nothing is tested.
    """

    a: str
    b: str
    difference: float
    half: float = field(metadata={"key": "half_95"})
    n: int
    p: float
    holm: float


@dataclass(frozen=True)
class Ranking(JsonRecord):
    """Ranks, tie groups and differences of the learners of a study, best mean first.

    Parameters
    ----------
    title, metric : str
        Protocol and files, and the metric.
    orders : tuple of str
        Class orders.
    units : str
        What an interval is computed over: `orders`, or `seeds` if there is one order.
    learners : tuple of RankedLearner
        The learners, best mean first.
    groups : tuple of tuple of str
        Groups of ties: two learners share one if and only if they cannot be told apart at 5 %.
    pairs : tuple of Pair
        All pairs of learners, the better one first.
    notes : tuple of str
        Remarks on the learners: settings that were tuned, several settings of one learner.
    """

    title: str
    metric: str
    orders: tuple[str, ...]
    units: str
    learners: tuple[RankedLearner, ...]
    groups: tuple[tuple[str, ...], ...]
    pairs: tuple[Pair, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LearnerByOrder(JsonRecord):
    """One learner on several class orders.

    Parameters
    ----------
    learner : str
        Its label.
    mean, least, most : float
        Mean, smallest and largest of the means of the orders.
    by_order, ranks : dict
        Order → mean, and order → rank.
    sd_orders, sd_seeds : float
        Standard deviation of the means of the orders; pooled standard deviation within orders.
    """

    learner: str
    mean: float
    by_order: dict[str, float]
    ranks: dict[str, float]
    least: float
    most: float
    sd_orders: float
    sd_seeds: float


@dataclass(frozen=True)
class OrderSpread(JsonRecord):
    """Spread of the learners of a study over class orders.

    Parameters
    ----------
    title, metric : str
        Protocol and files, and the metric.
    orders : tuple of str
        Class orders.
    learners : tuple of LearnerByOrder
        The learners, best mean first.
    tau : dict
        Two orders → Kendall's τ_b of their rankings.
    tau_mean : float
        Mean of `tau`.
    tau_least : str or None
        The two orders whose rankings agree least.
    """

    title: str
    metric: str
    orders: tuple[str, ...]
    learners: tuple[LearnerByOrder, ...]
    tau: dict[str, float]
    tau_mean: float
    tau_least: str | None


@dataclass(frozen=True)
class Comparison(JsonRecord):
    """The studies of a directory of runs: rankings, or spreads over orders or over seeds."""

    schema: str
    studies: tuple[Ranking | OrderSpread | SeedSpread, ...]

    @classmethod
    def of(cls, studies: Sequence[Ranking | OrderSpread | SeedSpread]) -> Self:
        """A comparison with the schema of this version."""
        return cls(SCHEMA, tuple(studies))


def compare(study: ComparisonStudy) -> Ranking:
    """Ranks, tie groups and differences of a study.

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
    learners = [
        RankedLearner(
            learner=label,
            n=len(study.scores[label]),
            mean=study.mean(label),
            rank=rank,
            average_rank=average,
            groups=tuple(g for g, group in enumerate(groups) if i in group),
        )
        for i, (label, rank, average) in enumerate(ranked)
    ]
    return Ranking(
        title=study.title,
        metric=study.metric,
        orders=tuple(study.orders),
        units="orders" if len(study.orders) > 1 else "seeds",
        learners=tuple(learners),
        groups=tuple(tuple(study.learners[i] for i in group) for group in groups),
        pairs=tuple(
            Pair(a, b, d.mean, d.half, d.n, d.p, p) for (a, b), (d, p) in study.pairs.items()
        ),
        notes=study.notes,
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
        title=study.title,
        metric=study.metric,
        orders=tuple(orders),
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
    free = sum(len(values) - 1 for values in scores.values())
    squares = sum(float(np.var(values)) * len(values) for values in scores.values())
    return LearnerByOrder(
        learner=label,
        mean=mean,
        by_order=means,
        ranks={order: ranks[order][label] for order in means},
        least=min(means.values()),
        most=max(means.values()),
        sd_orders=float(np.std(list(means.values()), ddof=1)) if len(means) > 1 else math.nan,
        sd_seeds=math.sqrt(squares / free) if free else math.nan,
    )
