"""Which kind of seed decides a result: `report --by seeds`.

Runs that agree in three of their four seeds differ by the fourth alone, so the variance among them
is that seed's. `run --vary` makes such runs: one seed at a time, the others those of the first run.

What this can say: main effects at one setting of the other seeds. What it cannot: interactions (an
initialisation that is bad for one class order only). They show as the difference between the sum
of the variances and the variance where all four seeds differ, where there are such runs too.

**Source**: Bouthillier et al. (2021) randomise one source of variance with all others held at their
first values. **Departs**: the shares and the intervals are ours.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.errors import UserError, unknown
from embedbench.scores.record import Record
from embedbench.scores.stats import number
from embedbench.seeds import Seeds

from .collect import collect
from .rows import LEFT_OUT, Row, groups

KINDS = tuple(f.name for f in dataclasses.fields(Seeds))
COMMAND = "embedbench run … --vary order,init,batches,memory --seeds 0-4"


@dataclass(frozen=True)
class Spread:
    """A standard deviation with its 95 % interval; NaN where no two runs tell it.

    Parameters
    ----------
    sd : pooled over groups of runs, each about the mean of its group
    low, high : chi-square interval, which takes the values for normally distributed
    n : runs behind it
    """

    sd: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, found: Sequence[Sequence[float]]) -> Spread:
        """From the values of each group; groups of one tell nothing and do not count.

        With f = Σ (n_g - 1) degrees of freedom, sd² = Σ_g Σ (x - mean_g)² / f and the interval is
        sd √(f / χ²(0.975, f)) to sd √(f / χ²(0.025, f)).
        """
        from scipy.special import chdtri  # χ² with f degrees of freedom above which lies p

        told = [values for values in found if len(values) > 1]
        free = sum(len(values) - 1 for values in told)
        if not free:
            return cls(math.nan, math.nan, math.nan, 0)
        sd = math.sqrt(sum(float(np.var(v)) * len(v) for v in told) / free)
        low, high = (sd * math.sqrt(free / float(chdtri(free, p))) for p in (0.025, 0.975))
        return cls(sd, low, high, sum(map(len, told)))

    def to_json(self) -> dict[str, Any]:
        return {"sd": self.sd, "low_95": self.low, "high_95": self.high, "n": self.n}


def by_seeds(root: Path, metric: str = "final_accuracy") -> list[dict[str, Any]]:
    """For each table and learner the spread due to each kind of seed, as plain data.

    A share is a kind's part of the summed variances of the kinds that were varied; NaN where all
    are 0. `sum` is the root of that sum: the spread without interactions, of these kinds together.

    Raises
    ------
    UserError
        There are no runs that agree in three of their four seeds, or the metric is unknown.
    """
    rows = [row for row in collect(root) if row.learns]
    names = {name for row in rows for name in row.metrics}
    if metric not in names:
        raise unknown("metric", metric, names)
    found = []
    for group in groups(rows):
        own = [_learner(row, metric) for row in rows if row.group is group]
        told = [entry for entry in own if any(s["n"] for s in entry["seeds"].values())]
        if told:
            found.append({"title": group.title, "metric": metric, "learners": told})
    if not found:
        raise UserError(
            f"--by seeds needs runs of {metric} that differ by one of their four seeds only, and "
            f"{root} has none; make some: {COMMAND}"
        )
    return found


def _learner(row: Row, metric: str) -> dict[str, Any]:
    """The spreads of one learner."""
    varied = [r for r in row.varied if not any(f in LEFT_OUT for f in r["flags"])]
    runs = [r for r in (*row.used, *varied) if not math.isnan(number(r["metrics"].get(metric)))]
    spreads = {kind: Spread.of(_alike(runs, kind, metric)) for kind in KINDS}
    variances = {kind: s.sd**2 for kind, s in spreads.items() if s.n}
    total = sum(variances.values())
    shares = {kind: v / total if total else math.nan for kind, v in variances.items()}
    return {
        "learner": row.label,
        "seeds": {
            kind: {**s.to_json(), "share": shares.get(kind, math.nan)}
            for kind, s in spreads.items()
        },
        "sum": math.sqrt(total) if variances else math.nan,
        "all": Spread.of([_independent(runs, metric)]).to_json(),
    }


def _alike(runs: Sequence[Record], kind: str, metric: str) -> list[list[float]]:
    """Values of the runs that agree in all seeds but one kind, group by group."""
    found: dict[tuple[int, ...], list[float]] = {}
    for r in runs:
        others = tuple(r["seeds"][k] for k in KINDS if k != kind)
        found.setdefault(others, []).append(number(r["metrics"][metric]))
    return list(found.values())


def _independent(runs: Sequence[Record], metric: str) -> list[float]:
    """Values of the runs whose four seeds are all drawn from their one seed: they share none."""
    drawn = [r for r in runs if r["seeds"] == dataclasses.asdict(Seeds.of(r["seed"]))]
    return [number(r["metrics"][metric]) for r in drawn]
