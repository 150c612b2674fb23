"""The two levels that every learner is compared with: chance, and the offline reference."""

import math
from collections.abc import Sequence

import numpy as np

from embedbench.scores.run_flags import guessing
from embedbench.scores.run_record import FINAL

from .compare_learners import TableVerdicts
from .result_rows import Group, Row, has_labels


def chance(group: Group) -> float:
    """The final score of guessing, the same in every table, figure and sentence: 1 / classes.

    That is the expected accuracy of a uniform draw among the classes seen, or among the candidates
    of an eval set where those are fewer; eval sets count by their classes, as in the final score.
    It does not depend on which runs there are: those of the learner `chance` are draws around it,
    and have a row of their own. Where answers are label sets no formula holds, and the level is the
    mean of these runs; NaN without any.
    """
    run = group.first
    if has_labels(run):
        drawn = [r.metrics[FINAL] for r in group.records if not r.learns]
        return float(np.mean(drawn)) if drawn else math.nan
    by_class = run.n_train_by_class
    seen = sum(n > 0 for n in by_class) if by_class else sum(map(len, run.classes))
    if not seen:
        return math.nan
    limits = run.n_candidates or [None]
    sizes = run.n_classes or ()
    weights = sizes if any(sizes) and len(sizes) == len(limits) else None
    return float(np.average(guessing(seen, limits), weights=weights))


def offline(group: Group) -> float:
    """α_ideal; NaN where it was not measured, or where each session has its own."""
    return group.ideals[0] if len(group.ideals) == 1 else math.nan


def describe_weak_reference(rows: Sequence[Row], judged: TableVerdicts) -> list[str]:
    """A sentence where learners are above α_ideal by more than their interval; or none."""
    ideal = offline(rows[0].group)
    each = zip(rows, judged.rows, strict=True)
    above = [row.label for row, v in each if v is not None and v.mean - v.half > ideal]
    if not above:
        return []
    name = " or ".join(rows[0].group.omega_references) or "offline"
    return [
        f"the reference of Ω ({name}, {100 * ideal:.1f} %) is weak here: {', '.join(above)} "
        f"{'is' if len(above) == 1 else 'are'} above it by more than the interval; run with "
        "--omega-reference names another one"
    ]
