"""Results of `report --compare` and `report --by order`: rankings, pairs, spreads over orders."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from embedbench.array_types import Floats
from embedbench.config.json_records import JsonRecord
from embedbench.errors import UserError
from embedbench.scores.learner_verdicts import PairVerdict, RowVerdict

from .compare_learners import ComparisonStudy, TableVerdicts
from .seed_effects import SeedSpread, Spread

SCHEMA = "embedbench-comparison/2.0"


@dataclass(frozen=True)
class RankedLearner(RowVerdict):
    """One learner of a ranking and the verdict on it.

    Parameters
    ----------
    learner : str
        Its name, with settings where they tell rows apart.
    runs : int
        How many there are.
    """

    learner: str
    runs: int


@dataclass(frozen=True, kw_only=True)
class _View(JsonRecord):
    """What the views of a study share.

    A study is all runs that differ in learner, class order and seed only, in whatever directories
    they are, without `chance` and the references.

    Parameters
    ----------
    title, metric : str
        What was run, and what is compared.
    orders : tuple of str
        The class orders.
    units : str
        What the observations of an interval are: `orders` (each the mean over its seeds) where
        several orders have several seeds each, `seeds` where there is one order, or
        `seeds (each its own class order)`.
    """

    title: str
    metric: str
    orders: tuple[str, ...]
    units: str


@dataclass(frozen=True, kw_only=True)
class Ranking(_View):
    """The learners of a study, best mean first; the `against` of a verdict is a place in them.

    Parameters
    ----------
    learners : tuple of RankedLearner
        Best mean first.
    notes : tuple of str
        Remarks: settings that were tuned, several settings of one learner.
    groups : str
        What the test sample is counted in: `groups` of a file, or `samples`.
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
    """Two learners of a study, the better one first.

    Parameters
    ----------
    better, worse : str
        Their labels.
    """

    better: str
    worse: str


@dataclass(frozen=True, kw_only=True)
class AllPairs(_View):
    """All pairs of learners of a study, with Holm's correction: a bound for the whole table.

    Parameters
    ----------
    learners : tuple of str
        Their labels, best mean first.
    pairs : tuple of ComparedPair
        Each pair once.
    notes : tuple of str
        As in a ranking.
    """

    learners: tuple[str, ...]
    pairs: tuple[ComparedPair, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LearnerByOrder(JsonRecord):
    """One learner on several class orders.

    Parameters
    ----------
    learner : str
        Its label.
    mean : float
        Over the orders.
    by_order, ranks : dict
        Order → mean, and rank of that mean.
    least, most : float
        The lowest and the highest mean of an order.
    sd_orders, sd_seeds : float
        Standard deviation of the means of the orders, and of the runs within orders, pooled.
    """

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
    """Spread of the learners of a study over class orders.

    Parameters
    ----------
    learners : tuple of LearnerByOrder
        Best mean first.
    tau : dict
        Two orders → Kendall's τ_b of their rankings.
    tau_mean : float
        Its mean.
    tau_least : str or None
        The two orders that agree least.
    """

    learners: tuple[LearnerByOrder, ...]
    tau: dict[str, float]
    tau_mean: float
    tau_least: str | None


Study = Ranking | AllPairs | OrderSpread | SeedSpread


@dataclass(frozen=True)
class Comparison(JsonRecord):
    """The studies of a directory of runs.

    Parameters
    ----------
    schema : str
        `embedbench-comparison/2.0`.
    studies : tuple of Ranking, AllPairs, OrderSpread or SeedSpread
        By the option: `--compare`, `--pairs`, `--by order`, `--by seeds`.
    """

    schema: str
    studies: tuple[Study, ...]

    @classmethod
    def of(cls, studies: Sequence[Study]) -> Self:
        """A comparison with the schema of this version."""
        return cls(SCHEMA, tuple(studies))


def compare(study: ComparisonStudy) -> Ranking:
    """The verdicts on the learners of a study; refuses one learner alone."""
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
    shared = {name: getattr(study, name) for name in ("title", "metric", "units")}
    return {**shared, "orders": tuple(study.orders)}


def _check_several(study: ComparisonStudy) -> None:
    if len(study.learners) < 2:
        raise UserError(
            f"a comparison needs two learners on the same stream; {study.title} has "
            f"{', '.join(study.learners)} only"
        )


def by_order(study: ComparisonStudy) -> OrderSpread:
    """Each learner's spread over class orders, and how its rank changes; refuses one order alone.

    Kendall's τ compares the rankings on two orders, over the learners that were run on both.
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
    return OrderSpread(
        **_shared(study),
        learners=tuple(_spread(study, label, ranks) for label in study.learners),
        tau=taus,
        tau_mean=float(np.mean(list(known.values()))) if known else math.nan,
        tau_least=min(known, key=lambda k: known[k]) if known else None,
    )


def average_ranks(scores: Floats) -> Floats:
    """(k,) mean over blocks of each learner's rank; rank 1 is the highest score, ties share a rank.

    `scores` are (blocks, k).

    >>> average_ranks(np.array([[0.9, 0.5, 0.5], [0.4, 0.6, 0.2]]))
    array([1.5 , 1.75, 2.75])
    """
    from scipy.stats import rankdata

    ranks: Floats = rankdata(-scores, axis=1).mean(axis=0)
    return ranks


def kendall_tau(a: Sequence[float], b: Sequence[float]) -> float:
    """Kendall's τ_b of two rankings of the same items: 1 for the same order, -1 for the reverse.

    NaN if all items of a ranking are tied, or if there are fewer than two items.

    **Source**: Kendall (1945): (concordant - discordant) / √((pairs - ties in a)(pairs - ties in
    b)).

    >>> round(kendall_tau([1, 2, 3], [1, 3, 2]), 12)
    0.333333333333
    """
    from scipy.stats import kendalltau

    return float(kendalltau(a, b).statistic) if len(a) > 1 else math.nan


def _ranks_on(means: dict[str, dict[str, float]], order: str, sign: int) -> dict[str, float]:
    there = {label: sign * m[order] for label, m in means.items() if order in m}
    values = average_ranks(np.array([list(there.values())]))
    return dict(zip(there, values.tolist(), strict=True))


def _spread(
    study: ComparisonStudy, label: str, ranks: dict[str, dict[str, float]]
) -> LearnerByOrder:
    """Spread over orders (of the means over seeds) and over the seeds of an order (pooled)."""
    scores = study.by_order(label)
    means = {order: float(np.mean(values)) for order, values in scores.items()}
    return LearnerByOrder(
        learner=label,
        mean=study.mean(label),
        by_order=means,
        ranks={order: ranks[order][label] for order in means},
        least=min(means.values()),
        most=max(means.values()),
        sd_orders=float(np.std(list(means.values()), ddof=1)) if len(means) > 1 else math.nan,
        sd_seeds=Spread.of(list(scores.values())).sd,
    )
