"""The rule of a search: which settings it tries, and which of them is used."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from embedbench.array_types import Floats
from embedbench.config.describe_settings import format_setting
from embedbench.learning.learner import Learner

from .resolve import Grid

Candidate = dict[str, str]
ROUNDING = 1e-12


def default_of(learner: Learner, names: Iterable[str]) -> Candidate:
    """The values that a learner has without a search, as text; dots reach into nested ones."""
    result = {}
    for name in names:
        value: Any = learner
        for part in name.split("."):
            value = getattr(value, part.replace("-", "_"))
        result[name] = format_setting(value)
    return result


@dataclass(frozen=True)
class Choice:
    """The settings that a search uses: which of those tried.

    `gain` is how much better the best one scored than the default, in the mean over seeds, and
    `error` the standard error of that; NaN where there is no default, or the best is the default.
    """

    index: int
    gain: float = math.nan
    error: float = math.nan


def means(scores: Floats) -> list[float]:
    """The mean of each row; -inf where it is undefined."""
    return [-math.inf if math.isnan(mean) else mean for mean in scores.mean(1).tolist()]


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
    each = means(scores)
    best = int(np.argmax(each))
    if default is None or best == default or each[default] == -math.inf:
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
