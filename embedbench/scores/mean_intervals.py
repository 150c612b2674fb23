"""Means over runs with their 95 % intervals."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from embedbench.config.json_records import JsonRecord


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
        One for each run.
    """

    mean: float
    half: float = field(metadata={"key": "half_95"})
    sd: float
    values: tuple[float, ...]

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
        n = len(self.values)
        return t_quantile(n) * self.sd * math.sqrt(1 / runs + 1 / n)


def t_quantile(n: int) -> float:
    """The 97.5 % quantile of Student's t with n - 1 degrees of freedom."""
    from scipy.special import stdtrit  # scipy.stats takes ten times as long to import

    return float(stdtrit(n - 1, 0.975))
