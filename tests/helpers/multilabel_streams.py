"""Small multi-label streams for tests: one label at a time, of samples that have one or two."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from toy import context

from embedbench.array_types import Bools
from embedbench.config.run_seeds import Seeds
from embedbench.learning.learner import Learner, learn_session
from embedbench.streams.feature_tables import Table
from embedbench.streams.stream import EvalSet, Session, Stream, StreamSpec
from embedbench.streams.view import View

# Two superclasses over three and two subclasses, and a class without a superclass.
PARENTS = np.array([-1, -1, 0, 0, 0, 1, 1, -1])
GROUPS = ((0, 1), (2, 5, 7), (3, 6), (4,))
N_CLASSES, WIDTH = len(PARENTS), 10
LEAVES = (2, 3, 4, 5, 6, 7)


def hierarchy_stream(
    *, n_train: int = 20, n_val: int = 5, n_test: int = 10, seed: int = 0, spread: float = 0.3
) -> Stream:
    """A stream of incomplete information.

    Of a subclass's samples the first 40 % are shown with the superclass's label, the last 80 % with
    its own: a fifth is shown twice, under two labels.
    """
    leaf = np.repeat(LEAVES, n_train + n_val + n_test)
    place = np.tile(np.arange(n_train + n_val + n_test), len(LEAVES))
    draw = np.random.default_rng(seed)
    centres = np.random.default_rng(7).normal(size=(N_CLASSES, WIDTH))
    below = PARENTS[leaf] >= 0
    values = centres[leaf] + below[:, None] * centres[PARENTS[leaf]]
    table = Table((values + draw.normal(scale=spread, size=values.shape)).astype(np.float32))
    complete = np.zeros((len(leaf), N_CLASSES), dtype=np.bool_)
    complete[np.arange(len(leaf)), leaf] = True
    complete[below, PARENTS[leaf[below]]] = True
    starts, sizes = (0, n_train, n_train + n_val), (n_train, n_val, n_test)
    part = np.digitize(place, starts[1:])

    def shown(c: int, k: int) -> Bools:
        """Rows of the training (0) or validation (1) part that are shown with the label c."""
        share = (place - starts[k]) / sizes[k]
        here: Bools = complete[:, c] & (part == k)
        if c not in LEAVES:
            return here & (share < 0.4)
        return here & (share >= 0.2) if PARENTS[c] >= 0 else here

    def session(classes: Sequence[int], labels: Sequence[Bools], seen: Bools) -> Session:
        """A session of the samples with a label, (N, C) of training and of validation."""
        rows = [np.flatnonzero(of_part.any(axis=1)) for of_part in labels]
        (x, val_x), (y, val_y) = (
            [View(table, r, WIDTH) for r in rows],
            [of_part[r] for of_part, r in zip(labels, rows, strict=True)],
        )
        return Session(x, y, val_x, val_y, rows[0], np.array(classes), loss_classes=seen)

    sessions, seen = [], np.zeros(N_CLASSES, dtype=np.bool_)
    for group in GROUPS:
        seen = seen | np.isin(np.arange(N_CLASSES), group)
        labels = [np.zeros_like(complete) for _ in range(2)]
        for c, k in itertools.product(group, range(2)):
            labels[k][:, c] = shown(c, k)
        sessions.append(session(group, labels, seen))
    every = np.ones(N_CLASSES, dtype=np.bool_)
    parts = [complete & (part == k)[:, None] for k in range(2)]
    test = np.flatnonzero(part == 2)
    return Stream(
        spec=StreamSpec((WIDTH,), N_CLASSES, multilabel=True),
        sessions=tuple(sessions),
        eval_sets=(EvalSet(View(table, test, WIDTH), complete[test], test, every),),
        recipe="hierarchy",
        features=f"hierarchy {seed}",
        samples=("hierarchy",),
        observe_batch=0,
        whole=(session(range(N_CLASSES), parts, every),),
        parents=PARENTS,
    )


def teach(learner: Learner, sessions: Sequence[Session], spec: StreamSpec, seed: int = 0) -> Any:
    """The learner, started and taught the sessions; its logs."""
    learner.start(spec, Seeds.of(seed), "cpu")
    return [learn_session(learner, s, context()) for s in sessions]


def plain_pw_js(scores: Any, y: Bools, seen: Sequence[int]) -> float:
    """Mean pw-JS of the answers {c seen: score > 0}, a sample at a time."""
    values = []
    for row, true in zip(scores, y, strict=True):
        answer = {c for c in seen if row[c] > 0}
        labels = {c for c in seen if true[c]}
        common = len(answer & labels)
        values.append(common / len(answer | labels) * common / len(answer) if answer else 0.0)
    return float(np.mean(values))
