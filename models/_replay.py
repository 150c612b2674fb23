"""One step, and one session, on new samples and then on samples from memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from embedbench.learning.augmentation import Views
from embedbench.learning.learner import Context
from embedbench.learning.loss import Objective, batch_loss
from embedbench.learning.net_settings import augmented_views
from embedbench.streams.stream import Session

# Adds the gradients of samples from memory to those of the new samples, which the parameters hold.
Replay = Callable[[np.random.Generator, Views], None]


def plainly(learner: Any, classes: Tensor | None) -> Objective:
    """The loss of a batch over `classes` (k,), or over all if None."""
    return lambda x, y: batch_loss(learner.net(x), y, classes)


def random_replay(learner: Any, classes: Tensor | None) -> Replay:
    """Replay `batch_size` random samples; the loss is over `classes` (k,), or all if None."""

    def replay(draw: np.random.Generator, view: Views) -> None:
        x, y, _ = learner.exemplars.sample(learner.batch_size, draw)
        loss = batch_loss(learner.net(view(x)), y, classes)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped

    return replay


def replay_step(learner: Any, x: Tensor, y: Tensor, loss: Objective, replay: Replay) -> None:
    """One step of the optimiser on a batch x (b, D), y (b,), and on samples from memory.

    The memory is left as it is; `learner.steps` counts the step.

    Parameters
    ----------
    learner : Learner
        Has `net`, `optimiser_`, `exemplars`, `seeds` and `steps`.
    loss : Objective
        The loss of the batch.
    replay : Replay
        Called after the gradients of the batch, if the memory holds anything.
    """
    draw = np.random.default_rng([learner.seeds.batches, learner.steps])
    view = augmented_views(learner, learner.steps)
    learner.net.train()
    learner.optimiser_.zero_grad(set_to_none=True)
    loss(view(x), y).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    if len(learner.exemplars):
        replay(draw, view)
    learner.optimiser_.step()
    learner.steps += 1


def replay_session(
    learner: Any, session: Session, ctx: Context, loss: Objective, replay: Replay
) -> dict[str, Any]:
    """Train on a whole session, with samples from memory in every step; return the log.

    The memory is left as it is.
    """
    draw = np.random.default_rng([learner.seeds.batches, learner.learned])
    more = {"regularise": lambda: replay(draw, augmented_views(learner, learner.learned, draw))}
    hooks = {"draws": draw, **more} if len(learner.exemplars) else {}
    log: dict[str, Any] = learner.train(session, ctx, objective=loss, **hooks)
    return log
