"""The flags of a run, which mark it in tables: no problem is averaged away unseen."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from embedbench.array_types import Floats
from embedbench.config.fields_added_later import EARLIER

from .run_answers import RunAnswers
from .run_record import UnscoredRun
from .score_matrix import ScoreMatrix

FLAGS = (
    "nan",
    "diverged",
    "test-validation",
    "session-id",
    "imported",
    "not-learned",
    "chance-level",
    "few-steps",
    "over-budget",
)
LEAST_STEPS = 10
UNREAD = "test_data_unread"  # in a session's log: no test data was read as validation data so far


def find_flags(record: UnscoredRun, p: RunAnswers, scores: ScoreMatrix) -> list[str]:
    """The words of `FLAGS` that hold for a run.

    `nan`: an answer is missing, as some scores were NaN, or another tool gave none for a class that
    was learned. `chance-level`: the final score is under 1.5 times chance.
    `not-learned`: the sessions after the first score under twice chance in the mean, both right
    after each of them (R[i, i]) and after the last one (R[T-1, i]), so a high Ω_all only means that
    there was nothing to forget; a learner that learns sessions later, by replay, does not have it.
    `diverged`: a training loss was not finite. `test-validation`: test data could stop training;
    runs that say that their learner never read it do not have it.
    `session-id`: the learner got the session of every test sample. `imported`: another tool gave
    the answers. `few-steps`: see `fewest_steps`. `over-budget`: after some session the learner held
    more than the `--budget-mb` of the run.
    """
    holds = {
        "nan": p.find_unanswered().any(),
        "diverged": any(s.log.get("stopped") == "diverged" for s in record.sessions),
        "test-validation": record.validation == "test" and not _unread(record),
        "session-id": record.session_id_at_test,
        "imported": record.imported is not None,
        "few-steps": fewest_steps(record) is not None,
        "over-budget": record.budget_mb is not None and most_held(record) > record.budget_mb,
    }
    limits = record.n_candidates or [None] * len(scores.n_classes)
    chance = p.guess(scores.classes_seen[scores.ends][:, None], limits)  # (T, E)
    if record.learns and chance is not None:
        holds["not-learned"] = min(scores.R.shape) > 1 and not _learned(scores.R, chance)
        level = np.average(chance[-1], weights=scores.n_classes)
        holds["chance-level"] = scores.pooled[-1] < 1.5 * level
    return [flag for flag, is_raised in holds.items() if is_raised]


def _unread(record: UnscoredRun) -> bool:
    """Whether the learner never read the test data that it had as validation data."""
    return bool(record.sessions) and all(s.log.get(UNREAD) is True for s in record.sessions)


def most_held(record: UnscoredRun) -> float:
    """The most that the learner held after a session, MB; 0 where that is not known."""
    held = [sum(session.footprint.values()) / 1e6 for session in record.sessions]
    return max((size for size in held if not math.isnan(size)), default=0.0)


def fewest_steps(record: UnscoredRun) -> int | None:
    """The fewest optimiser steps in a session with training data, if under `LEAST_STEPS`.

    None for learners that take no such steps: the log of a training has `stopped`, and online
    learners that take steps have the setting `updates`.
    """
    online = "updates" in record.learner_params
    logs = [s.log for s, n in zip(record.sessions, record.n_train, strict=False) if n]
    counted = [log["steps"] for log in logs if "steps" in log and ("stopped" in log or online)]
    few = [n for n in counted if isinstance(n, int) and n < LEAST_STEPS]
    return min(few, default=None)


def _learned(scores: Floats, chance: Floats) -> bool:
    """Whether the sessions after the first score twice chance, when they are new or at the end.

    `scores` and `chance` are (T, E): R[i, j], and what guessing has on average.
    """
    sessions = min(scores.shape)
    for moment in (np.arange(1, sessions), -1):
        score = np.mean(scores[moment, np.arange(1, sessions)])
        level = np.mean(chance[moment, np.arange(1, sessions)])
        # for two classes, twice chance is 1: take the middle between chance and 1
        if not score < min(2 * level, (1 + level) / 2):
            return True
    return False


def optimiser_steps(record: UnscoredRun, log: Mapping[str, Any]) -> float:
    """The optimiser's steps in a session, by the learner's log; NaN for what takes none.

    Records before 2026-11-29 have under `steps`, of learners with a closed form on online streams,
    the number of batches that they saw; so have those of `exstream`, which took more steps.
    """
    of_batches = log.keys() == {"steps", "epochs"} and log["epochs"] == 1
    settings = EARLIER["learner"].get(record.learner, {}) | record.learner_params
    if of_batches and "updates" not in settings:
        return math.nan
    return float(log.get("steps", math.nan))
