"""Small streams and predictions for tests: made here, in memory, in milliseconds."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedbench.learning.learner import Context
from embedbench.scores.predictions import Predictions
from embedbench.scores.score_matrix import ScoreMatrix
from embedbench.streams.feature_tables import Table
from embedbench.streams.stream import EvalSet, Session, Stream, StreamSpec
from embedbench.streams.view import View

Array = NDArray[Any]


def blobs(labels: Sequence[int] | Array, width: int, seed: int, spread: float = 0.3) -> Array:
    """(n, width) float32: one Gaussian blob per class; the centres depend on the class alone."""
    labels = np.asarray(labels)
    centres = np.stack([np.random.default_rng(1000 + c).normal(size=width) for c in labels])
    noise = np.random.default_rng(seed).normal(scale=spread, size=centres.shape)
    return (centres + noise).astype(np.float32)


def session(
    x: Array, y: Sequence[int] | Array, *, n_val: int = 0, loss_classes: Array | None = None
) -> Session:
    """A session over its own table; the last `n_val` samples are its validation data."""
    table, y = Table(np.ascontiguousarray(x, dtype=np.float32)), np.asarray(y, dtype=np.int64)
    rows, val_rows = np.split(np.arange(len(y)), [len(y) - n_val])
    views = [View(table, part, x.shape[1]) for part in (rows, val_rows)]
    return Session(
        views[0], y[rows], views[1], y[val_rows], rows, np.unique(y), loss_classes=loss_classes
    )


def class_stream(
    groups: Sequence[Sequence[int]],
    *,
    width: int = 6,
    n_train: int = 20,
    n_val: int = 4,
    n_test: int = 10,
    seed: int = 0,
    spread: float = 0.3,
) -> Stream:
    """A class-incremental stream of blobs over one table, one session a group of classes."""
    n_classes = max(c for g in groups for c in g) + 1
    per_class = n_train + n_val + n_test
    labels = np.repeat(np.arange(n_classes), per_class)
    table = Table(blobs(labels, width, seed, spread))
    part = np.digitize(np.tile(np.arange(per_class), n_classes), [n_train, n_train + n_val])
    sessions, sets = [], []
    for group in groups:
        rows = [np.flatnonzero(np.isin(labels, group) & (part == k)) for k in range(3)]
        x, val_x, test_x = (View(table, of_part, width) for of_part in rows)
        y, val_y, test_y = (labels[of_part] for of_part in rows)
        sessions.append(Session(x, y, val_x, val_y, rows[0], np.array(group)))
        mask = np.isin(np.arange(n_classes), group)
        sets.append(EvalSet(test_x, test_y, rows[2], mask))
    return Stream(
        spec=StreamSpec((width,), n_classes),
        sessions=tuple(sessions),
        eval_sets=tuple(sets),
        recipe="toy",
        features=f"toy {seed}",
        samples=("toy",),
    )


def context(
    validate: Callable[[Any], float] = lambda _: float("nan"), validation: str = "train"
) -> Context:
    """What the runner would offer; `validate` is scripted by the test."""
    return Context(validate=validate, validation=validation)


def predictions(
    truth: Sequence[Sequence[int]],
    answers: Sequence[Sequence[int]] | Array,
    groups: Sequence[Sequence[int]],
    *,
    seen_at_once: bool = False,
    within: Array | None = None,
) -> Predictions:
    """Predictions by hand.

    `truth`: the true classes, one list an eval set; `answers`: one row a session over all samples;
    `groups`: the classes of each set. `seen_at_once`: all classes are introduced in session 0.
    """
    n_classes = max(c for g in groups for c in g) + 1
    masks = np.zeros((len(groups), n_classes), dtype=np.bool_)
    for e, group in enumerate(groups):
        masks[e, list(group)] = True
    seen = np.logical_or.accumulate(masks, axis=0)
    if seen_at_once:
        seen[:] = masks.any(axis=0)
    answer = np.asarray(answers, dtype=np.int32)
    y = np.concatenate([np.asarray(t, dtype=np.int64) for t in truth])
    return Predictions(
        ids=np.arange(len(y)),
        y=y,
        eval_set=np.repeat(np.arange(len(truth)), [len(t) for t in truth]),
        set_classes=masks,
        session=np.arange(len(groups)),
        samples_seen=np.arange(1, len(groups) + 1) * 10,
        seen=seen,
        answer=answer,
        within=answer if within is None else np.asarray(within, dtype=np.int32),
    )


def random_predictions(seed: int, *, permutation: bool = False) -> Predictions:
    """Random answers on eval sets of unequal size, some of them -1 (the scores were NaN)."""
    rng = np.random.default_rng(seed)
    n_sets = int(rng.integers(2, 6))
    if permutation:
        everything = list(range(int(rng.integers(2, 6))))
        groups = [everything] * n_sets
    else:
        sizes = rng.integers(1, 4, n_sets)
        groups = [list(map(int, g)) for g in np.split(rng.permutation(sizes.sum()), sizes.cumsum())]
        groups = groups[:n_sets]
    truth = []
    for group in groups:  # every class at least once, and then some
        extra = rng.choice(group, int(rng.integers(0, 20)))
        truth.append([*group, *map(int, extra)])
    made = predictions(truth, np.zeros((n_sets, 0)), groups, seen_at_once=permutation)
    n = len(made.y)
    answer, within = np.empty((n_sets, n), np.int32), np.empty((n_sets, n), np.int32)
    for m in range(n_sets):
        for i in range(n):
            answer[m, i] = rng.choice(np.flatnonzero(made.seen[m]))
            within[m, i] = rng.choice(groups[made.eval_set[i]])
            if rng.random() < 0.4:  # often right
                within[m, i] = made.y[i]
                if made.seen[m, made.y[i]]:
                    answer[m, i] = made.y[i]
            if rng.random() < 0.1:
                answer[m, i] = within[m, i] = -1
    return predictions(truth, answer, groups, seen_at_once=permutation, within=within)


def plain(p: Predictions) -> Predictions:
    """The answers alone, as version 1.0 has them."""
    nothing: dict[str, Any] = dict.fromkeys(Predictions.optional())
    return replace(p, **nothing)


def keep_samples(p: Predictions, mask: Array) -> Predictions:
    """The predictions of some of the samples."""
    names = [n for n in p.optional() if not n.startswith("far_")]
    tables = {n: v for n in names if (v := getattr(p, n)) is not None}
    by_sample = {"ids": p.ids, "y": p.y, "eval_set": p.eval_set}
    by_answer = {"answer": p.answer, "within": p.within, **tables}
    kept = {name: values[..., mask] for name, values in (by_sample | by_answer).items()}
    return replace(p, **kept)


def until(scores: ScoreMatrix, session: int) -> ScoreMatrix:
    """The scores known after `session`: its moments, and the eval sets introduced so far."""
    m, e = scores.session <= session, scores.learned <= session
    names = ("pooled", "session", "samples_seen", "classes_seen", "per_class")
    parts = {name: getattr(scores, name)[m] for name in names}
    parts |= {name: getattr(scores, name)[e] for name in ("n_samples", "n_classes", "learned")}
    return replace(scores, values=scores.values[m][:, e], **parts)
