"""The one training loop: mini-batches, one optimiser, and a named rule that says when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from embedbench.streams.stream import Session

from .augment import Views
from .learner import NO_CHECKPOINT, Checkpoint, Context
from .log import Log
from .loss import Objective, plain_loss, validation_value
from .net import PLAIN, generator, views_of
from .optimisers import optimiser_of
from .stop import Best, Stop


@dataclass(frozen=True)
class Loop:
    """How one training goes.

    Parameters
    ----------
    batch_size : int
        Samples per step; the last batch of an epoch may be smaller.
    stop : Stop
        When training ends, and which of its epochs is kept.
    generator : torch.Generator
        Draws the order of the samples, epoch by epoch.
    device : str
        Where the net lies.
    first : bool
        Whether this is the first session, which may have a cap of its own.
    views : Views
        Augments the images of a batch before the objective receives them.
    """

    batch_size: int
    stop: Stop
    generator: torch.Generator
    device: str
    first: bool = False
    views: Views = PLAIN

    @property
    def cap(self) -> int:
        """Epochs at most."""
        return self.stop.cap(first=self.first)


def nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Hooks:
    """What a method adds to the loop; by default nothing.

    What these functions remember from step to step must lie in buffers of the net or in `draws`:
    a checkpoint holds both.

    Parameters
    ----------
    objective : Objective or None
        Takes x (b, D) and y (b,) or (b, C) and returns their mean loss; None:
        `plain_loss`.
    regularise : callable
        Called between backward and step; may change the gradients or the parameters.
    stepped : callable
        Called after every step of the optimiser.
    validate : callable or None
        Returns the monitored value, lower is better; None: that of the session's validation data.
    draws : numpy.random.Generator or None
        What these functions draw from.
    """

    objective: Objective | None = None
    regularise: Callable[[], None] = nothing
    stepped: Callable[[], None] = nothing
    validate: Callable[[], float] | None = None
    draws: np.random.Generator | None = None


def fit(
    net: nn.Module,
    optimiser: torch.optim.Optimizer,
    session: Session,
    how: Loop,
    *,
    hooks: Hooks = Hooks(),
    checkpoint: Checkpoint = NO_CHECKPOINT,
) -> Log:
    """Train `net` on a session until the stopping rule ends it.

    A training that was cut off goes on after the last epoch that `checkpoint` holds. One that had
    ended ends at once.

    Parameters
    ----------
    net : nn.Module
        From x (b, D) to logits (b, C), unless the objective says otherwise.
    optimiser : torch.optim.Optimizer
        Of the net's parameters.
    session : Session
        What is trained on.
    how : Loop
        Batches, stopping rule, device.
    hooks : Hooks
        What a method adds.
    checkpoint : Checkpoint
        `ctx.checkpoint`.

    Returns
    -------
    Log
        What the training came to.
    """
    training = Training(net, optimiser, session, how, hooks)
    done, ended = checkpoint.resume(training.unfinished)
    if ended is not None:
        net.eval()
        return Log.from_json(ended)
    for epoch in range(done + 1, how.cap + 1):
        loss = training.epoch()
        reason = training.verdict(epoch, loss)
        if reason:
            break
        checkpoint.save_epoch(epoch, training.unfinished)
    log = training.close(epoch, loss, reason)
    checkpoint.save_end(log.to_json(), training.parts)
    return log


class Training:
    """One training at work; the parameters are those of `fit`.

    Attributes
    ----------
    parts : dict
        What a checkpoint of an ended training holds, by name.
    unfinished : dict
        What a checkpoint inside a training holds: the parts, the best epoch and the decay.
    """

    def __init__(
        self,
        net: nn.Module,
        optimiser: torch.optim.Optimizer,
        session: Session,
        how: Loop,
        hooks: Hooks,
    ) -> None:
        self.net, self.optimiser, self.session = net, optimiser, session
        self.how, self.hooks = how, hooks
        self.y = torch.from_numpy(session.y).to(how.device)
        self.steps = math.ceil(len(session.x) / how.batch_size)  # an epoch
        self.objective = hooks.objective or plain_loss(net, session, how.device)
        self.best, self.decay = Best(how.stop), how.stop.decay(optimiser)
        self.rates = [group["lr"] for group in optimiser.param_groups]
        self.parts = {
            "net": net,
            "optimiser": optimiser,
            "generator": how.generator,
            "draws": hooks.draws,
            "views": how.views.generator,
        }
        self.unfinished = {**self.parts, "best": self.best, "decay": self.decay}

    def epoch(self) -> float:
        """Train on every sample once, in a new order; returns the mean loss."""
        x, how, hooks = self.session.x, self.how, self.hooks
        self.net.train()
        total = torch.zeros((), device=how.device)
        order = torch.randperm(len(x), generator=how.generator).to(how.device)
        for index in torch.split(order, how.batch_size):
            self.optimiser.zero_grad(set_to_none=True)
            loss = self.objective(how.views(x.batch(index, how.device)), self.y[index])
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            hooks.regularise()
            self.optimiser.step()
            hooks.stepped()
            total += loss.detach() * len(index)
        return float(total) / len(x)

    def verdict(self, epoch: int, loss: float) -> str:
        """Why training ends with this epoch, whose mean loss is given; "" if it goes on."""
        stop, at_cap = self.how.stop, "epochs" if epoch == self.how.cap else ""
        if not math.isfinite(loss):
            return "diverged"
        if epoch * self.steps < stop.min_steps or stop.rule == "epochs":
            return at_cap
        if stop.rule == "trained":
            return "trained" if loss <= stop.target else at_cap
        value = self.monitored(loss)
        self.best.see(value, epoch, self.net)
        if self.decay is not None:
            return "lr_min" if self.best.lower(self.decay, value, self.net) else at_cap
        return "patience" if self.best.waited > stop.patience else at_cap

    def monitored(self, loss: float) -> float:
        """The value that the rule watches; without validation data the training loss."""
        if self.hooks.validate is not None:
            return self.hooks.validate()
        if not len(self.session.val_x):
            return loss
        monitor, device = self.how.stop.monitor, self.how.device
        return validation_value(self.net, self.session, monitor, self.objective, device)

    def close(self, epoch: int, loss: float, reason: str) -> Log:
        """Go back to the best weights, unless training diverged, and to the learning rate."""
        stop, best = self.how.stop, self.best
        weights = None if reason == "diverged" else best.weights
        if weights is not None:
            self.net.load_state_dict(weights)
        self.net.eval()
        log = Log(epoch, epoch * self.steps, reason, loss)
        if stop.watches:
            kept = epoch if weights is None else best.epoch
            watched = self.hooks.validate is not None or len(self.session.val_x)
            monitor = stop.monitor if watched else "train_loss"
            value = best.value if best.epoch else math.nan
            value = value if monitor.endswith("loss") else -value
            steps = kept * self.steps
            log = replace(log, kept_epoch=kept, kept_steps=steps, monitor=monitor, best=value)
        if self.decay is not None:
            log = replace(log, lr=self.optimiser.param_groups[0]["lr"])
            for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
                group["lr"] = rate  # or a kept optimiser would begin the next session with it
        return log


def train(
    learner: Any,
    session: Session,
    ctx: Context,
    *,
    objective: Objective | None = None,
    regularise: Callable[[], None] | None = None,
    stepped: Callable[[], None] | None = None,
    validate: Callable[[], float] | None = None,
    draws: np.random.Generator | None = None,
) -> dict[str, Any]:
    """`fit` a learner's net with the settings that gradient learners share (see `mlp`).

    The optimiser is a fresh one unless the learner's `optimiser_state` is "kept".

    Parameters
    ----------
    learner : Learner
        Has `net`, `optimiser_`, `seeds`, `device` and `learned`, the number of sessions learned
        before.
    session : Session
        What is trained on.
    ctx : Context
        Of the session.
    objective, regularise, stepped, validate, draws
        As in `Hooks`; None: its default.

    Returns
    -------
    dict
        The log, as `Log.to_json` writes it.
    """
    if learner.optimiser_state == "fresh":
        learner.optimiser_ = optimiser_of(learner, learner.net)
    how = Loop(
        learner.batch_size,
        learner.stop,
        generator(learner.seeds.batches, learner.learned),
        learner.device,
        first=learner.learned == 0,
        views=views_of(learner, learner.learned),
    )
    hooks = Hooks(objective, regularise or nothing, stepped or nothing, validate, draws)
    log = fit(learner.net, learner.optimiser_, session, how, hooks=hooks, checkpoint=ctx.checkpoint)
    return log.to_json()
