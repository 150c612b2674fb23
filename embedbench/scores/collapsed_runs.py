"""Runs of a row that fell far below the others."""

import math
from collections.abc import Sequence

import numpy as np

LEAST = 3  # runs, of which one can be said to differ from the others
SHARE = 0.5  # of what the median has above chance
GAP = 0.05  # below the median, so that no row near chance has such runs


def find_collapsed(scores: Sequence[float], chance: float) -> list[int]:
    """Which runs have under half of what the median run has above chance, and 5 points less.

    The standard error of a row with such runs is right in the mean alone: while none was drawn it
    is far too small. `chance` may be NaN, which is 0.

    >>> find_collapsed([0.80, 0.12, 0.79], chance=0.1)
    [1]
    >>> find_collapsed([0.80, 0.60, 0.79], chance=0.1)
    []
    """
    if len(scores) < LEAST:
        return []
    least = 0.0 if math.isnan(chance) else chance
    middle = float(np.median(scores))
    limit = min(least + SHARE * (middle - least), middle - GAP)
    return [i for i, score in enumerate(scores) if score < limit]
