"""The settings that a search tries: combinations of a grid, or points of ranges."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from embedbench.errors import UserError
from embedbench.learning.learner import Learner

from .resolve import Grid

Candidate = dict[str, str]
DIGITS = 4  # of a point of a range
MOST_TRIALS = 2**12


def make_candidates(grid: Grid, learner: Learner, points: int | None) -> list[Candidate]:
    """Every combination of a grid; where it has a range `low..high`, scrambled Sobol points.

    A range is on a log scale. Beside one, a list of values is divided evenly. The learner's values
    say which settings are whole numbers. The number of points is a power of two; without a range it
    is not read.

    Raises
    ------
    UserError
        A range without a number of points.
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
        [_point(ranges[name], u, is_whole(learner, name)) for u in column]
        if name in ranges
        else [values[int(u * len(values))] for u in column]
        for (name, values), column in zip(grid.items(), sobol.T, strict=True)
    ]
    every = [dict(zip(grid, values, strict=True)) for values in zip(*columns, strict=True)]
    return list({tuple(each.items()): each for each in every}.values())


def parse_range(name: str, values: Sequence[str]) -> tuple[float, float] | None:
    """The bounds of a range `low..high`; None for a list of values.

    Raises
    ------
    UserError
        It is no range of two numbers above 0, the lower one first, or it stands in a list.
    """
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


def is_whole(learner: Learner, name: str) -> bool:
    """Whether a setting of a learner is a whole number now."""
    value = value_of(learner, name)
    return isinstance(value, int) and not isinstance(value, bool)


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
