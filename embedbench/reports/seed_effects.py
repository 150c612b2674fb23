"""Which kind of seed decides a result: `report --by seeds`.

Runs that agree in three of their four seeds differ by the fourth alone, so the variance among them
comes from that seed. `run --vary` makes such runs: it changes one seed at a time and keeps the
other seeds of the first run.

This shows main effects at one setting of the other seeds. It does not show interactions, such as an
initialisation that is bad for one class order only. Where there are also runs that differ in all
four seeds, interactions show as the difference between their variance and the sum of the variances.

**Source**: Bouthillier et al. (2021) randomise one source of variance and hold all others at their
first values. **Departs**: the shares and the intervals are ours.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from embedbench.config.json_records import ABSENT, JsonRecord
from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError, unknown
from embedbench.scores.run_record import RunRecord

from .result_rows import LEFT_OUT, Row, run_value, split_tables

KINDS = tuple(f.name for f in fields(Seeds))
COMMAND = "embedbench run … --vary order,init,batches,memory --seeds 0-4"


@dataclass(frozen=True)
class Spread(JsonRecord):
    """A standard deviation with its 95 % interval; NaN where no two runs can be compared.

    Parameters
    ----------
    sd, low, high : float
        The standard deviation and its interval (chi-square).
    n : int
        Runs; 0 where it was not varied.
    share : float or None
        Of the summed variances of the kinds that were varied; NaN if all are 0.
    """

    sd: float
    low: float = field(metadata={"key": "low_95"})
    high: float = field(metadata={"key": "high_95"})
    n: int
    share: float | None = field(default=None, metadata=ABSENT)

    @classmethod
    def of(cls, groups: Sequence[Sequence[float]]) -> "Spread":
        """From the values of each group; groups with one run do not count.

        With f = Σ (n_g - 1) degrees of freedom, sd² = Σ_g Σ (x - mean_g)² / f and the interval is
        sd √(f / χ²(0.975, f)) to sd √(f / χ²(0.025, f)).
        """
        from scipy.special import chdtri  # inverse of the upper tail of χ²

        several = [values for values in groups if len(values) > 1]
        free = sum(len(values) - 1 for values in several)
        if not free:
            return cls(math.nan, math.nan, math.nan, 0)
        sd = math.sqrt(sum(float(np.var(v)) * len(v) for v in several) / free)
        low, high = (sd * math.sqrt(free / float(chdtri(free, p))) for p in (0.025, 0.975))
        return cls(sd, low, high, sum(map(len, several)))


@dataclass(frozen=True)
class LearnerBySeeds(JsonRecord):
    """The spreads of one learner.

    Parameters
    ----------
    learner : str
        Its label.
    seeds : dict
        `order`, `init`, `batches`, `memory` → the spread over the runs that differ in it alone.
    sum : float
        Root of the summed variances: the spread of these kinds without interactions.
    all : Spread
        The spread over the runs that share no seed.
    """

    learner: str
    seeds: dict[str, Spread]
    sum: float
    all: Spread


@dataclass(frozen=True)
class SeedSpread(JsonRecord):
    """The spreads of a table's learners.

    Parameters
    ----------
    title, metric : str
        Of the table.
    learners : tuple of LearnerBySeeds
        One a row.
    """

    title: str
    metric: str
    learners: tuple[LearnerBySeeds, ...]


def by_seeds(rows: Sequence[Row], metric: str = "final_accuracy") -> list[SeedSpread]:
    """For each table and learner, the spread due to each kind of seed.

    Raises
    ------
    UserError
        There are no runs that agree in three of their four seeds, or the metric is unknown.
    """
    rows = [row for row in rows if row.learns]
    names = {name for row in rows for name in row.metrics}
    if metric not in names:
        raise unknown("metric", metric, names)
    result = []
    for mine in split_tables(rows):
        learners = [_learner(row, metric) for row in mine]
        varied = tuple(e for e in learners if any(s.n for s in e.seeds.values()))
        if varied:
            result.append(SeedSpread(mine[0].group.title, metric, varied))
    if not result:
        raise UserError(
            f"--by seeds needs runs of {metric} that differ by one of their four seeds only, and "
            f"there are none; make some: {COMMAND}"
        )
    return result


def _learner(row: Row, metric: str) -> LearnerBySeeds:
    """The spreads of one learner."""
    varied = [r for r in row.varied if not any(f in LEFT_OUT for f in r.flags)]
    runs = [r for r in (*row.used, *varied) if not math.isnan(run_value(r, metric))]
    spreads = {kind: Spread.of(_alike(runs, kind, metric)) for kind in KINDS}
    # those whose four seeds are all drawn from one `seed` share none
    alone = [run_value(r, metric) for r in runs if r.seeds == Seeds.of(r.seed)]
    variances = {kind: s.sd**2 for kind, s in spreads.items() if s.n}
    total = sum(variances.values())
    shares = {kind: v / total if total else math.nan for kind, v in variances.items()}
    return LearnerBySeeds(
        learner=row.label,
        seeds={k: replace(s, share=shares.get(k, math.nan)) for k, s in spreads.items()},
        sum=math.sqrt(total) if variances else math.nan,
        all=Spread.of([alone]),
    )


def _alike(runs: Sequence[RunRecord], kind: str, metric: str) -> list[list[float]]:
    """Values of the runs that agree in all seeds but one kind, one list per group."""
    alike: dict[tuple[int, ...], list[float]] = {}
    for r in runs:
        others = tuple(getattr(r.seeds, k) for k in KINDS if k != kind)
        alike.setdefault(others, []).append(run_value(r, metric))
    return list(alike.values())
