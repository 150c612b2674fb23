"""The rule of a search: which settings it tries, and which of them is used."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from embedbench.array_types import Floats
from embedbench.errors import UserError
from embedbench.learning.learner import Learner

from .resolve import Grid

Candidate = dict[str, str]
DIGITS = 4  # of a point of a range
MOST_TRIALS = 2**12
ROUNDING = 1e-12


def make_candidates(grid: Grid, learner: Learner, points: int | None) -> list[Candidate]:
    """Every combination of a grid; where it has a range `low..high`, scrambled Sobol points.

    A range is on a log scale. Beside one, a list of values is divided evenly. The learner's values
    say which settings are whole numbers. The number of points is a power of two; without a range it
    is not read.
    """
    ranges = {name: bounds for name, v in grid.items() if (bounds := parse_range(name, v))}
    if not ranges:
        return [dict(zip(grid, v, strict=True)) for v in itertools.product(*grid.values())]
    if points is None or not 2 <= points <= MOST_TRIALS or points & (points - 1):
        got = "none was given" if points is None else f"got {points}"
        raise UserError(
            f"{next(iter(ranges))} has a range, which needs --trials, a power of two from 2 to "
            f"{MOST_TRIALS}, such as 16; {got}"
        )
    from scipy.stats import qmc

    sobol = qmc.Sobol(len(grid), seed=np.random.default_rng(0)).random(points)
    columns = [
        [_point(ranges[name], u, type(value_of(learner, name)) is int) for u in column]
        if name in ranges
        else [values[int(u * len(values))] for u in column]
        for (name, values), column in zip(grid.items(), sobol.T, strict=True)
    ]
    every = [dict(zip(grid, values, strict=True)) for values in zip(*columns, strict=True)]
    return list({tuple(each.items()): each for each in every}.values())


def parse_range(name: str, values: Sequence[str]) -> tuple[float, float] | None:
    """The bounds of a range `low..high`; None for a list of values."""
    if not any(".." in value for value in values):
        return None
    low, _, high = values[0].partition("..")
    try:
        bounds = float(low), float(high)
    except ValueError:
        bounds = (0.0, 0.0)
    if len(values) > 1 or not 0 < bounds[0] < bounds[1] < math.inf:
        raise UserError(
            f"a range to tune is LOW..HIGH with 0 < LOW < HIGH, alone, such as {name}=1..1e6; got "
            f"{','.join(values)!r}"
        )
    return bounds


def _point(bounds: tuple[float, float], share: float, whole: bool) -> str:
    low, high = bounds
    value = low * (high / low) ** share
    return str(round(value)) if whole else f"{value:.{DIGITS}g}"


def value_of(learner: Learner, name: str) -> Any:
    """The value of a setting of a learner; dots reach into nested ones."""
    value: Any = learner
    for part in name.split("."):
        value = getattr(value, part.replace("-", "_"))
    return value


def default_of(learner: Learner, names: Mapping[str, Any]) -> Candidate:
    """The values that a learner has without a search, as text."""
    texts = {None: "none", True: "true", False: "false"}
    values = {name: value_of(learner, name) for name in names}
    return {k: texts[v] if v is None or isinstance(v, bool) else str(v) for k, v in values.items()}


@dataclass(frozen=True)
class Choice:
    """The settings that a search uses.

    Parameters
    ----------
    index : int
        Which of those tried.
    gain, error : float
        How much better the best one scored than the default, in the mean over seeds, and the
        standard error of that; NaN where there is no default, or the best is the default.
    """

    index: int
    gain: float = math.nan
    error: float = math.nan


def choose(scores: Floats, default: int | None) -> Choice:
    """The best mean score; the default, unless the best is above it by a standard error.

    The error is that of the mean difference, paired by seed: all settings get the same seeds, and
    what an order of the classes does to all of them decides nothing. Of equal means the first is
    best. An undefined score is below all others.

    Parameters
    ----------
    scores : array of float
        (k, n), of k settings on n seeds.
    default : int or None
        Which of them is what the learner has without a search; None: the best one alone decides, as
        with a single seed, which knows no standard error.
    """
    means = np.where(np.isnan(scores).any(1), -np.inf, scores.mean(1))
    best = int(means.argmax())
    if default is None or best == default or means[default] == -np.inf:
        return Choice(best)
    differences = scores[best] - scores[default]
    gain = float(differences.mean())
    error = float(differences.std(ddof=1) / math.sqrt(len(differences)))
    kept = gain <= error + ROUNDING
    return Choice(default if kept else best, gain, error)


def beyond(grid: Grid, tried: Sequence[Candidate], means: Sequence[float]) -> list[Candidate]:
    """The settings a step beyond the grid, for each of whose edges the best one lies at.

    `means` are the mean scores of those tried; -inf where undefined.
    """
    best = tried[int(np.argmax(means))]
    further = []
    for name, values in grid.items():
        numbers = _numbers(values)
        if best[name] not in values or len(numbers) < 2:
            continue
        if rises(tried, means, best, name, least=2):
            value = step_beyond(numbers, float(best[name]))
            further.append({**best, name: f"{value:.10g}"})
    return further


def _numbers(values: Sequence[str]) -> list[float]:
    """The different numbers in a list; none unless all are numbers."""
    try:
        return sorted({float(value) for value in values})
    except ValueError:
        return []


def step_beyond(numbers: Sequence[float], edge: float) -> float:
    """The next number after an edge of a grid: by its difference, or on a log scale by its ratio.

    Three numbers or more at equal distances go on by that difference. All others go on by the ratio
    of the last two, or their difference where one of them is 0 or of another sign.

    >>> [step_beyond([1, 2, 3], 3), step_beyond([1, 10, 100], 1), step_beyond([0, 0.5], 0)]
    [4, 0.1, -0.5]
    """
    ordered = sorted(numbers, reverse=edge == min(numbers))
    last, before = ordered[-1], ordered[-2]
    steps = np.diff(ordered)
    even = len(ordered) > 2 and np.allclose(steps, steps[0], rtol=1e-6, atol=0)
    return last + (last - before) if even or last * before <= 0 else last * last / before


def rises(
    tried: Sequence[Candidate],
    means: Sequence[float],
    best: Candidate,
    name: str,
    *,
    least: int = 3,
) -> bool:
    """Whether a setting's value is the first or last in size and scored above the next.

    The next is the neighbour among the numbers tried with the other settings of `best`; there must
    be `least` of them.
    """
    rest = {k: v for k, v in best.items() if k != name}
    line = sorted(
        (_numbers([t[name]]), mean)
        for t, mean in zip(tried, means, strict=True)
        if _numbers([t[name]]) and {k: v for k, v in t.items() if k != name} == rest
    )
    value = _numbers([best[name]])
    if len(line) < least or value not in (line[0][0], line[-1][0]):
        return False
    if value == line[-1][0]:
        line.reverse()
    (_, mine), (_, beside) = line[:2]
    return mine > beside and not is_equal(mine, beside)


def is_equal(score: float, other: float) -> bool:
    """Whether two scores are the same, up to rounding."""
    return math.isclose(score, other, rel_tol=ROUNDING)
