"""The flags of a run, which mark it in tables: no problem is averaged away unseen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from embedbench.arrays import Floats, Ints

from .label_sets import AnyPredictions, LabelSets
from .matrix import ScoreMatrix
from .predictions import Predictions
from .run_record import Unscored

FLAGS = (
    "nan",
    "diverged",
    "test-validation",
    "session-id",
    "imported",
    "not-learned",
    "chance-level",
)


def flags_of(record: Unscored, p: AnyPredictions, scores: ScoreMatrix) -> list[str]:
    """The words of `FLAGS` that hold for a run.

    `nan`: some scores were NaN. `chance-level`: the final score is under 1.5 times chance.
    `not-learned`: right after they were learned, new sessions score under twice chance, so a high
    Ω_all only means that there was nothing to forget. `diverged`: a training loss was not finite.
    `test-validation`: test data could stop training. `session-id`: the learner got the session of
    every test sample. `imported`: another tool gave the answers.
    """
    flags = []
    if (p.undecided if isinstance(p, LabelSets) else p.answer < 0).any():
        flags.append("nan")
    if any(s.log.get("stopped") == "diverged" for s in record.sessions):
        flags.append("diverged")
    if record.validation == "test":
        flags.append("test-validation")
    if record.session_id_at_test:
        flags.append("session-id")
    if record.imported is not None:
        flags.append("imported")
    if record.learns and isinstance(p, Predictions):  # label sets have no single chance level
        limits = record.n_candidates or [None] * len(scores.n_classes)
        chance = guessing(scores.classes_seen[scores.ends][:, None], limits)  # (T, E)
        new = np.diagonal(scores.R)
        if len(new) > 1:
            level = np.mean(np.diagonal(chance)[1:])
            # for two classes, twice chance is 1: take the middle between chance and 1
            if np.mean(new[1:]) < min(2 * level, (1 + level) / 2):
                flags.append("not-learned")
        if scores.pooled[-1] < 1.5 * np.average(chance[-1], weights=scores.n_classes):
            flags.append("chance-level")
    return flags


def guessing(seen: int | Ints, limits: Sequence[int | None]) -> Floats:
    """(…, E) expected accuracy of a uniform draw among the candidates of each eval set.

    Parameters
    ----------
    seen : int or array of int
        (…, 1) classes seen so far.
    limits : sequence of int or None
        (E,) candidates of each eval set; None: all classes seen.
    """
    most = np.array([np.inf if n is None else n or np.inf for n in limits])
    chances: Floats = 1.0 / np.minimum(seen, most)
    return chances
