"""The choice between learners of all data, by their answers to samples that they did not learn.

These are the validation samples. Where they are few, they are the training samples, a fifth at a
time: forty samples do not tell learners apart, and a network that returns to the best of its epochs
on them looks better there than it is.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from embedbench.array_types import Ints, Labels
from embedbench.learning import Context, Learner, Session, StreamSpec
from embedbench.learning.learner import learn_session, learns_sessions
from embedbench.learning.sample_containers import blocks

from .mlp import MLP
from .ranpac import RanPAC
from .slda import SLDA

MODELS: dict[str, type[Learner]] = {"mlp": MLP, "slda": SLDA, "ranpac": RanPAC}
ENOUGH = 1000  # validation samples that tell learners apart by themselves
FOLDS = 5
WIDEST = 4096  # features; for more, the (D, D) covariance of SLDA takes longer than the MLP
BATCH = 1024  # samples that a learner of batches gets at once


@dataclass(frozen=True)
class Candidates:
    """The learners to choose from on one session, each taught by `teach`.

    Parameters
    ----------
    start : callable
        Takes a name of `MODELS` and returns that learner, started.
    session : Session
        All data.
    ctx : Context
        What the runner offers the learner that asks.
    device : str
        The device of the learners.
    """

    start: Callable[[str], Learner]
    session: Session
    ctx: Context
    device: str

    @property
    def names(self) -> list[str]:
        """The names of the learners; the first of equally good ones is chosen."""
        wide = self.session.x.shape[0] > WIDEST
        return [name for name in MODELS if not (wide and name == "slda")]

    def best(self) -> tuple[Learner, dict[str, Any]]:
        """The learner that has the most right answers, taught all data; and its log.

        The log also has its name, `learner`; the share of right answers by name, `judged`; and of
        how many samples they are, `judged_samples`.
        """
        whole = self.session
        taught = dict[str, tuple[Learner, dict[str, Any]]]()
        if len(whole.val_y) >= ENOUGH:
            n = len(whole.val_y)
            taught = {name: self._teach(name, whole) for name in self.names}
            right = {
                name: count_right(model, whole.val_x, whole.val_y, self.device)
                for name, (model, _) in taught.items()
            }
        else:
            parts = list(fifths(whole))
            n = sum(len(y) for _, _, y in parts)
            right = {name: self._right(name, parts) for name in self.names}
        chosen = max(right, key=lambda name: right[name])  # of equal ones the first
        model, log = taught.get(chosen) or self._teach(chosen, whole)
        shares = {name: count / max(n, 1) for name, count in right.items()}
        return model, {**log, "learner": chosen, "judged": shares, "judged_samples": n}

    def _right(self, name: str, parts: list[tuple[Session, Any, Labels]]) -> int:
        """How many samples a learner answers right, each part by a new one taught the rest."""
        total = 0
        for session, x, y in parts:
            model, _ = self._teach(name, session)
            total += count_right(model, x, y, self.device)
        return total

    def _teach(self, name: str, session: Session) -> tuple[Learner, dict[str, Any]]:
        """A new learner that has learned a session, ready to answer; and its log."""
        model = self.start(name)
        log = teach(model, session, self.ctx, self.device)
        model.prepare()
        return model, log


def can_choose(spec: StreamSpec, session: Session, ctx: Context) -> bool:
    """Whether a stream has several learners to choose from, and validation samples.

    Test samples in the place of validation samples choose nothing.
    """
    plain = not spec.multilabel and len(spec.input_shape) == 1
    return plain and ctx.validation == "train" and len(session.val_y) > 0


def fifths(session: Session) -> Iterator[tuple[Session, Any, Labels]]:
    """Yield a session without a fifth of its training samples, and these, x and y; five times.

    Each class is dealt out evenly, the same for every seed; samples that are `together`, such as an
    image and its flipped copy, stay so. Validation samples stay where they are.
    """
    fold = deal_groups(session)
    for k in range(FOLDS):
        held = np.flatnonzero(fold == k)
        rest = np.flatnonzero(fold != k)
        if len(held) and len(rest):
            yield without(session, rest), session.x.select(held), session.y[held]


def deal_groups(session: Session) -> Ints:
    """(n,) the fifth of each training sample, one for all that are `together`.

    A group of several classes is dealt with the first of them.
    """
    group = np.arange(len(session.y))  # each by itself
    if session.together is not None:
        group = np.unique(session.together, return_inverse=True)[1]
    fold = np.full(len(group), -1)  # of each group
    dealt = 0
    for c in np.unique(session.y):
        free = np.flatnonzero((session.y == c) & (fold[group] < 0))
        drawn = group[np.random.default_rng(0).permutation(free)]
        _, first = np.unique(drawn, return_index=True)
        new = drawn[np.sort(first)]  # each group once, in the order of its first sample
        fold[new] = (dealt + np.arange(len(new))) % FOLDS  # small classes fill every fifth, too
        dealt += len(new)
    dealt_out: Ints = fold[group]
    return dealt_out


def without(session: Session, rest: Ints) -> Session:
    """The session with the training samples `rest` alone."""
    together = None if session.together is None else session.together[rest]
    x = session.x.select(rest)
    return replace(session, x=x, y=session.y[rest], ids=session.ids[rest], together=together)


@torch.no_grad()
def count_right(model: Learner, x: Any, y: Labels, device: str) -> int:
    """How many samples x (n, D), read like a `View`, a learner answers with their classes y (n,).

    An answer among NaN is wrong: the network has diverged.
    """
    scores = torch.cat([torch.as_tensor(model.scores(part)) for part in blocks(x, device)])
    answers = scores.argmax(1).masked_fill(scores.isnan().any(1), -1)
    return int((answers.cpu() == torch.from_numpy(y)).sum())


def teach(model: Learner, session: Session, ctx: Context, device: str) -> dict[str, Any]:
    """Let a learner learn a session, whole or in batches in the order of its rows; its log."""
    if learns_sessions(model):
        return learn_session(model, session, ctx)
    labels = torch.from_numpy(session.y).to(device)
    for rows in torch.split(torch.arange(len(labels), device=device), BATCH):
        model.observe(session.x.batch(rows, device), labels[rows])
    return {"epochs": 1}
