"""The two levels that every learner is compared with: chance, and the offline reference."""

from __future__ import annotations

import math

import numpy as np

from .answers import has_labels
from .rows import Group


def chance(group: Group) -> float:
    """The final score of guessing: that of the chance runs of a table, or 1 / classes.

    An answer is guessed among the classes seen, or among the candidates of its eval set where
    those are fewer. NaN where answers are label sets and the table has no chance run.
    """
    drawn = [r.metrics["final_accuracy"] for r in group.records if not r.learns]
    if drawn:
        return float(np.mean(drawn))
    run = group.first
    by_class = run.n_train_by_class
    seen = sum(n > 0 for n in by_class) if by_class else sum(map(len, run.classes))
    if has_labels(run) or not seen:
        return math.nan
    return float(np.mean([1 / min(seen, n or seen) for n in run.n_candidates or [seen]]))


def offline(group: Group) -> float:
    """α_ideal; NaN where it was not measured, or where each session has its own."""
    return group.ideals[0] if len(group.ideals) == 1 else math.nan
