"""Small multi-label streams for tests: one label at a time, of samples that have one or two."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from toy import context

from embedbench.array_types import Bools
from embedbench.config.run_seeds import Seeds
from embedbench.learning.learner import Learner, learn_session
from embedbench.streams.feature_tables import Table
from embedbench.streams.stream import EvalSet, Session, Stream, StreamSpec
from embedbench.streams.view import View, rows_of

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
    values = centres[leaf] + (PARENTS[leaf] >= 0)[:, None] * centres[PARENTS[leaf]]
    table = Table((values + draw.normal(scale=spread, size=values.shape)).astype(np.float32))
    complete = np.zeros((len(leaf), N_CLASSES), dtype=np.bool_)
    complete[np.arange(len(leaf)), leaf] = True
    below = PARENTS[leaf] >= 0
    complete[below, PARENTS[leaf][below]] = True
    parts = (place < n_train, (place >= n_train) & (place < n_train + n_val))
    starts, sizes = (0, n_train), (n_train, n_val)

    def shown(c: int, part: int) -> Bools:
        """Rows of the training (0) or validation (1) part that are shown with the label c."""
        share = (place - starts[part]) / sizes[part]
        mine = leaf == c if c in LEAVES else PARENTS[leaf] == c
        here: Bools = parts[part] & mine
        if c not in LEAVES:
            return here & (share < 0.4)
        return here & (share >= 0.2) if PARENTS[c] >= 0 else here

    sessions = []
    seen = np.zeros(N_CLASSES, dtype=np.bool_)
    for group in GROUPS:
        seen = seen.copy()
        seen[list(group)] = True
        views, labels = [], []
        for part in (0, 1):
            masks = np.stack([shown(c, part) for c in group], axis=1)  # (N, k)
            rows = np.flatnonzero(masks.any(axis=1))
            y = np.zeros((len(rows), N_CLASSES), dtype=np.bool_)
            y[:, list(group)] = masks[rows]
            views.append(View(table, rows, WIDTH))
            labels.append(y)
        sessions.append(
            Session(
                x=views[0],
                y=labels[0],
                val_x=views[1],
                val_y=labels[1],
                ids=rows_of(views[0]),
                classes=np.array(group),
                loss_classes=seen,
            )
        )
    test = np.flatnonzero(place >= n_train + n_val)
    every = np.ones(N_CLASSES, dtype=np.bool_)
    rows = np.flatnonzero(parts[0])
    whole = Session(
        x=View(table, rows, WIDTH),
        y=complete[rows],
        val_x=View(table, np.flatnonzero(parts[1]), WIDTH),
        val_y=complete[parts[1]],
        ids=rows,
        classes=np.arange(N_CLASSES),
        loss_classes=every,
    )
    return Stream(
        spec=StreamSpec((WIDTH,), N_CLASSES, multilabel=True),
        sessions=tuple(sessions),
        eval_sets=(EvalSet(View(table, test, WIDTH), complete[test], test, every),),
        recipe="hierarchy",
        features=f"hierarchy {seed}",
        samples=("hierarchy",),
        observe_batch=0,
        whole=(whole,),
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
