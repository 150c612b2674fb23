"""Runs with answers of format 1.1 that follow from logits, for tests of confidence."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from pinned_runs import write_run
from report_records import HEX
from toy import Array, predictions, random_predictions

from embedbench.scores.predictions import Predictions

FLOATS = ("score", "logp", "true_logp", "squares")


def log_softmax(scores: Array) -> Array:
    top = scores - scores.max(axis=-1, keepdims=True)
    return np.asarray(top - np.log(np.exp(top).sum(axis=-1, keepdims=True)))


def from_scores(
    scores: Array,
    truth: Sequence[Sequence[int]],
    groups: Sequence[Sequence[int]],
    far: Array | None = None,
) -> Predictions:
    """What a run with these (T, n, C) logits stores; `far` are those of far samples, (T, k, C)."""
    within = np.tile(np.concatenate(truth), (len(scores), 1))
    return _answered(predictions(truth, within, groups, within=within), scores, far)


def _answered(made: Predictions, scores: Array, far: Array | None = None) -> Predictions:
    """The predictions with the answers that follow from logits."""
    logs = log_softmax(np.where(made.seen[:, None], scores, -np.inf))
    best, y = logs.argmax(axis=2), made.y[None, :, None]
    true = np.take_along_axis(logs, np.broadcast_to(y, (len(logs), len(made.y), 1)), 2)
    before = np.arange(logs.shape[2]) < y
    rank = ((logs > true) | ((logs == true) & before)).sum(axis=2)
    known = np.isfinite(true[..., 0])
    tables = {
        "score": np.take_along_axis(scores, best[..., None], 2)[..., 0],
        "logp": logs.max(axis=2),
        "true_logp": np.where(known, true[..., 0], np.nan),
        "squares": (np.exp(logs) ** 2).sum(axis=2),
    }
    made = replace(
        made,
        answer=best.astype(np.int32),
        rank=np.where(known, rank, 65535).astype(np.uint16),
        **{name: table.astype(np.float32) for name, table in tables.items()},
    )
    if far is not None:
        among = np.where(made.seen[:, None], far, -np.inf)
        made = replace(
            made,
            far_ids=np.arange(far.shape[1]),
            far_score=among.max(axis=2).astype(np.float32),
            far_logp=log_softmax(among).max(axis=2).astype(np.float32),
        )
    made.check()
    return made


def confident_predictions(
    seed: int, *, permutation: bool = False, logits: bool = True, groups: bool = True
) -> Predictions:
    """Answers of version 1.1 from random scores; some scores are NaN, many are equal.

    Without `logits` there are no probabilities; without `groups` the samples have no `group`.
    """
    made, rng = random_predictions(seed, permutation=permutation), np.random.default_rng(seed)
    scores = rng.integers(-4, 5, (*made.answer.shape, made.seen.shape[1])) / 2
    made, none = _answered(made, scores), rng.random(made.answer.shape) < 0.1
    blank = {"answer": -1, "within": -1, "rank": 65535} | dict.fromkeys(FLOATS, np.nan)
    tables = {name: np.where(none, value, getattr(made, name)) for name, value in blank.items()}
    if not logits:
        tables |= dict.fromkeys(FLOATS[1:])
    return replace(made, **tables, group=rng.integers(0, 4, len(made.y)) if groups else None)


def hinted_run(seed: int, hint: float) -> Predictions:
    """Answers to 100 samples; logits are higher for the true class once it was learned."""
    truth = [[0] * 20 + [1] * 20 + [2] * 20, [3] * 20, [4] * 20]
    y = np.concatenate(truth)
    scores = np.random.default_rng([seed, int(hint)]).normal(size=(3, len(y), 5))
    for t in range(3):
        learned = np.flatnonzero(y < 3 + t)
        scores[t, learned, y[learned]] += hint
    return from_scores(scores, truth, [[0, 1, 2], [3], [4]])


def random_run(seed: int, n_classes: int = 9) -> tuple[Predictions, Array]:
    """A run of three sessions with random logits, many of them equal, and these; 7 far samples."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(n_classes)
    groups = [sorted(map(int, g)) for g in np.split(order, [n_classes - 3, n_classes - 1])]
    truth = [[*g, *map(int, rng.choice(g, rng.integers(3, 15)))] for g in groups]
    scores = rng.integers(-5, 6, (3, sum(map(len, truth)), n_classes)) / 2
    far = np.random.default_rng(seed).integers(-5, 6, (3, 7, n_classes)) / 2
    return from_scores(scores, truth, groups, far), scores


def keep_runs(root: Path, runs: Mapping[str, Sequence[Predictions]]) -> None:
    """Records of runs on one stream: learner → the predictions of its seeds."""
    for learner, each in runs.items():
        for seed, p in enumerate(each):
            seeds = dict.fromkeys(("order", "init", "batches", "memory"), seed)
            how = {"learner": learner, "seed": seed, "seeds": seeds}
            digests = HEX | {"train": f"{seed:064x}"}
            write_run(root, f"stream-1/{learner}/seed-{seed}", p, **how, digests=digests)
