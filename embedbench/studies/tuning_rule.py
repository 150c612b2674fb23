"""The rule of a search: which settings it tries, and which of them is used."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from embedbench.array_types import Floats
from embedbench.config.describe_settings import format_setting
from embedbench.learning.learner import Learner

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


def _number(text: str) -> float:
    """The number in a text; NaN if it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def rises(tried: Sequence[Candidate], means: Sequence[float], best: Candidate, name: str) -> bool:
    """Whether a setting's value is the first or last in size and scored above the next.

    The next is the neighbour among the numbers tried with the other settings of `best`; there must
    be three of them.
    """
    line = []  # the numbers tried and their means, by size
    for candidate, mean in zip(tried, means, strict=True):
        number = _number(candidate[name])
        if {**candidate, name: best[name]} == best and not math.isnan(number):
            line.append((number, mean))
    line.sort()
    value = _number(best[name])
    if len(line) < 3 or value not in (line[0][0], line[-1][0]):
        return False
    if value == line[-1][0]:
        line.reverse()
    _, mine = line[0]
    _, beside = line[1]
    return mine > beside and not is_equal(mine, beside)


def best_of_grid(
    tried: Sequence[Candidate], means: Sequence[float], grid: Mapping[str, Sequence[str]]
) -> Candidate:
    """The settings with the highest mean among those of the grid, without the default."""
    scored = zip(tried, means, strict=True)
    of_grid = [pair for pair in scored if all(pair[0][name] in grid[name] for name in grid)]
    return max(of_grid, key=lambda pair: pair[1])[0]


def is_equal(score: float, other: float) -> bool:
    """Whether two scores are the same, up to rounding."""
    return math.isclose(score, other, rel_tol=ROUNDING)
