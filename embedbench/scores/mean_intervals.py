"""Means over runs with their 95 % intervals."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from embedbench.config.json_records import UNWRITTEN, JsonRecord


@dataclass(frozen=True)
class Stat(JsonRecord):
    """One number over the runs of a row: mean, interval and standard deviation.

    Parameters
    ----------
    mean : float
        NaN where the number is undefined in any run, or where there is no run.
    half : float
        Half-width of the 95 % t-interval of the mean; NaN under two runs.
    sd : float
        Standard deviation over the runs (n - 1); NaN under two runs.
    values : tuple of float
        One for each measurement: runs that share a seed, or gave equal answers, are one.
    count : int or None
        Number of measurements where these are not known, as of a printed mean.
    """

    mean: float
    half: float = field(metadata={"key": "half_95"})
    sd: float
    values: tuple[float, ...]
    count: int | None = field(default=None, metadata=UNWRITTEN)

    @classmethod
    def printed(
        cls, mean: float, n: int, *, sd: float = math.nan, half: float = math.nan
    ) -> "Stat":
        """A mean that somebody printed, of n runs, with their sd or the half-width."""
        if n > 1 and math.isnan(half):
            half = t_quantile(n) * sd / math.sqrt(n)
        elif n > 1:
            sd = half * math.sqrt(n) / t_quantile(n)
        return cls(mean, half, sd, (), n)

    @property
    def n(self) -> int:
        """Number of measurements."""
        return len(self.values) if self.count is None else self.count

    @classmethod
    def of(cls, values: Iterable[float]) -> "Stat":
        """Mean, interval t(0.975, n - 1)·sd/√n, and sd."""
        x = np.array(list(values), dtype=np.float64)
        n = len(x)
        mean = float(np.mean(x)) if n else math.nan
        sd = float(np.std(x, ddof=1)) if n > 1 else math.nan
        half = t_quantile(n) * sd / math.sqrt(n) if n > 1 else math.nan
        return cls(mean, half, sd, tuple(x.tolist()))

    def prediction_half(self, runs: int) -> float:
        """Half-width of the 95 % prediction interval of a mean of so many further runs.

        That is t(0.975, n - 1)·sd·√(1/runs + 1/n).
        """
        n = self.n
        return t_quantile(n) * self.sd * math.sqrt(1 / runs + 1 / n)


@cache
def t_quantile(n: int) -> float:
    """The 97.5 % quantile of Student's t with n - 1 degrees of freedom."""
    from scipy.special import stdtrit  # scipy.stats takes ten times as long to import

    return float(stdtrit(n - 1, 0.975))
