"""Where no seed changes anything: rows of a table whose answers are the same, bit for bit."""

import itertools
from collections.abc import Sequence

import numpy as np

from embedbench.array_types import Bools

Answers = Sequence[Sequence[Sequence[str | None]]]  # learner × unit: SHA-256 of each run's answers


def find_alike(cells: Answers) -> Bools:
    """(k, k) whether equal differences of two rows are proof, as their answers are equal.

    The answers of each are the same in every unit, or those of both are the same in each unit that
    they share; `scores.learner_verdicts` says why it matters. On the diagonal is whether a row's
    answers are the same in every unit.
    """
    rows = [[_each_once(answers) for answers in row] for row in cells]
    steady = np.array([None not in row and len({*row} - {()}) == 1 for row in rows])
    alike = np.asarray(steady[:, None] & steady, dtype=np.bool_)
    for i, j in itertools.combinations(range(len(rows)), 2):
        shared = [(a, b) for a, b in zip(rows[i], rows[j], strict=True) if () not in (a, b)]
        if shared and all(a == b and a is not None for a, b in shared):
            alike[i, j] = alike[j, i] = True
    return alike


def _each_once(answers: Sequence[str | None]) -> tuple[str, ...] | None:
    """The answers of a unit, each once; () without a run, None where not all are known."""
    known = [one for one in answers if one is not None]
    return tuple(sorted(set(known))) if len(known) == len(answers) else None
