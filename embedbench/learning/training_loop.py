"""The one training loop: mini-batches, one optimiser, and a named stopping rule."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from embedbench.config.run_seeds import generator
from embedbench.streams.stream import Session

from .image_augmentation import Views
from .image_training import PLAIN, augmented_views
from .learner import NO_CHECKPOINT, Checkpoint, Context
from .loss import Objective, plain_loss
from .optimisers import fresh_optimiser
from .stopping import Best, Stop, validation_value

AS_LONG = Stop(rule="epochs", epochs=100_000)  # until as many samples were presented


@dataclass(frozen=True)
class Loop:
    """The settings of one training.

    Parameters
    ----------
    batch_size : int
        Samples per step; the last batch of an epoch may be smaller.
    stop : Stop
        When training ends, and which epoch's weights the net keeps.
    generator : torch.Generator
        Draws the order of the samples in each epoch.
    device : str
        The device of the net.
    first : bool
        Whether this is the first session, which may have a different limit of epochs.
    views : Views
        Augments the images of a batch before the objective receives them.
    presented : float
        The step in which as many samples were presented is the last, those from memory included.
    """

    batch_size: int
    stop: Stop
    generator: torch.Generator
    device: str
    first: bool = False
    views: Views = PLAIN
    presented: float = math.inf

    @property
    def cap(self) -> int:
        """The largest number of epochs."""
        return self.stop.cap(first=self.first)


def nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Hooks:
    """A method's additions to the loop; by default there are none.

    If these functions keep state from step to step, it must be in buffers of the net or in `draws`,
    because a checkpoint holds only these.

    Parameters
    ----------
    objective : Objective or None
        Takes x (b, D) and y (b,) or (b, C) and returns their mean loss; None: `plain_loss`.
    regularise : callable
        Called between backward and step; may change the gradients or the parameters.
    stepped : callable
        Called after every step of the optimiser.
    validate : callable or None
        Returns the monitored value, lower is better; None: the value on the session's validation
        data.
    draws : numpy.random.Generator or None
        The random generator that these functions use.
    replayed : callable
        Returns how many samples these functions have drawn from memory so far.
    """

    objective: Objective | None = None
    regularise: Callable[[], None] = nothing
    stepped: Callable[[], None] = nothing
    validate: Callable[[], float] | None = None
    draws: np.random.Generator | None = None
    replayed: Callable[[], int] = lambda: 0


@dataclass(frozen=True)
class Log:
    """The result of a training.

    Parameters
    ----------
    epochs, steps : int
        Epochs trained, and steps of the optimiser.
    stopped : str
        Why it ended: "epochs", "patience", "perfect", "trained", "lr_min", "presented" or
        "diverged".
    train_loss : float
        Mean loss of the last epoch.
    kept_epoch, kept_steps : int or None
        The epoch whose weights the net has, and the optimiser steps up to it. None where the rule
        uses no validation value; then `monitor` and `best` are None, too.
    monitor : str or None
        The monitored value: "loss", "accuracy", "pw_js", or "train_loss" without validation data.
    best : float or None
        The best monitored value; NaN where no epoch was monitored.
    lr : float or None
        The final learning rate; None where the rule does not lower it.
    presented : int or None
        Samples presented, those from memory included; None where `passes` does not limit them.
    """

    epochs: int
    steps: int
    stopped: str
    train_loss: float
    kept_epoch: int | None = None
    kept_steps: int | None = None
    monitor: str | None = None
    best: float | None = None
    lr: float | None = None
    presented: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The entries that are not None, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, entries: dict[str, Any]) -> Self:
        """The log that `to_json` wrote."""
        return cls(**entries)


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

    A training that was interrupted continues after the last epoch that `checkpoint`, the session's
    `ctx.checkpoint`, holds. If it had already ended, `fit` returns at once. The net maps x (b, D)
    to logits (b, C), unless the objective says otherwise.
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
    """One training in progress; the parameters are those of `fit`.

    `parts` is what a checkpoint of an ended training holds, by name; `unfinished` has the best
    epoch and the decay, too.
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
        self.steps = math.ceil(len(session.x) / how.batch_size)  # steps per epoch
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
        self.count = _Count()
        self.unfinished = {**self.parts, "best": self.best, "decay": self.decay}
        if how.presented < math.inf:
            self.unfinished["count"] = self.count

    def epoch(self) -> float:
        """Train on every sample once, in a new order; return the mean loss.

        It ends early where no more samples may be presented.
        """
        x, how, hooks, shown = self.session.x, self.how, self.hooks, 0
        self.net.train()
        total = torch.zeros((), device=how.device)
        order = torch.randperm(len(x), generator=how.generator).to(how.device)
        for index in torch.split(order, how.batch_size):
            before = hooks.replayed()
            self.optimiser.zero_grad(set_to_none=True)
            loss = self.objective(how.views(x.batch(index, how.device)), self.y[index])
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            hooks.regularise()
            self.optimiser.step()
            hooks.stepped()
            total += loss.detach() * len(index)
            shown += len(index)
            self.count.add(len(index) + hooks.replayed() - before)
            if self.count.samples >= how.presented:
                break
        return float(total) / shown

    def verdict(self, epoch: int, loss: float) -> str:
        """Why training ends after this epoch with mean loss `loss`; "" if it continues."""
        stop, at_cap = self.how.stop, "epochs" if epoch == self.how.cap else ""
        if self.count.samples >= self.how.presented:
            at_cap = "presented"
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
        ended = "perfect" if self.is_perfect(value) else at_cap
        return "patience" if self.best.waited > stop.patience else ended

    def is_perfect(self, value: float) -> bool:
        """Whether all of `perfect` epochs in a row, the last with this value, were all right."""
        stop, session = self.how.stop, self.session
        if not stop.perfect or not len(session.val_x):
            return False
        score = "pw_js" if session.val_y.ndim == 2 else "accuracy"
        if stop.monitor != score or self.hooks.validate is not None:
            value = validation_value(self.net, session, score, self.objective, self.how.device)
        self.best.right = self.best.right + 1 if value == -1.0 else 0
        return self.best.right >= stop.perfect

    def monitored(self, loss: float) -> float:
        """The monitored value: without validation data it is the training loss."""
        if self.hooks.validate is not None:
            return self.hooks.validate()
        if not len(self.session.val_x):
            return loss
        monitor, device = self.how.stop.monitor, self.how.device
        return validation_value(self.net, self.session, monitor, self.objective, device)

    def close(self, epoch: int, loss: float, reason: str) -> Log:
        """Restore the best weights, unless training diverged, and the initial learning rate."""
        stop, best = self.how.stop, self.best
        weights = None if reason == "diverged" else best.weights
        if weights is not None:
            self.net.load_state_dict(weights)
        self.net.eval()
        log = Log(epoch, epoch * self.steps, reason, loss)
        if self.how.presented < math.inf:
            log = replace(log, steps=self.count.steps, presented=self.count.samples)
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
                group["lr"] = rate  # for the next session, if the optimiser is kept
        return log


class _Count:
    """The steps of a training, and the samples presented in them."""

    def __init__(self) -> None:
        self.steps = self.samples = 0

    def add(self, samples: int) -> None:
        """Count a step."""
        self.steps += 1
        self.samples += samples

    def state_dict(self) -> dict[str, Any]:
        """The counts, for a checkpoint."""
        return dict(vars(self))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state`."""
        vars(self).update(state)


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
    lr: float | None = None,
) -> dict[str, Any]:
    """`fit` a learner's net with the shared settings of gradient learners (see `NetLearner`).

    The optimiser is new unless the learner's `optimiser_state` is "kept".

    Parameters
    ----------
    learner : Learner
        Has `net`, `optimiser_`, `seeds`, `device` and `learned`, the number of earlier sessions.
    objective, regularise, stepped, validate, draws
        The same as in `Hooks`; None: the default there.
    lr : float or None
        The learning rate of this session; None: the optimiser's.
    """
    if learner.optimiser_state == "fresh":
        learner.optimiser_ = fresh_optimiser(learner, learner.net)
    for group in learner.optimiser_.param_groups:
        group["lr"] = group["lr"] if lr is None else lr
    passes, exemplars = getattr(learner, "passes", 0.0), getattr(learner, "exemplars", None)
    how = Loop(
        learner.batch_size,
        AS_LONG if passes else learner.stop,
        generator(learner.seeds.batches, learner.learned),
        learner.device,
        first=learner.learned == 0,
        views=augmented_views(learner, learner.learned),
        presented=passes * (ctx.samples or len(session.x)) if passes else math.inf,
    )
    hooks = Hooks(objective, regularise or nothing, stepped or nothing, validate, draws)
    if passes and exemplars is not None:
        hooks = replace(hooks, replayed=lambda: exemplars.presented)
    log = fit(learner.net, learner.optimiser_, session, how, hooks=hooks, checkpoint=ctx.checkpoint)
    return log.to_json()
