"""The one training loop: mini-batches, one optimiser, and a named stopping rule."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypedDict, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from embedbench.config.run_seeds import Seeds, generator
from embedbench.streams.stream import Session

from .footprint import Stateful
from .image_augmentation import Views
from .image_training import PLAIN, augmented_views
from .learner import NO_CHECKPOINT, Checkpoint, Context
from .loss import Objective, batch_loss, loss_classes
from .optimisers import fresh_optimiser
from .stopping import Best, Stop, validation_value

AS_LONG = Stop(rule="epochs", epochs=100_000)  # until as many samples were presented


class _Count(Stateful):
    """The steps of a training, and the samples presented in them."""

    state: ClassVar[dict[str, str]] = {"steps": "transient", "samples": "transient"}
    steps = samples = 0


@dataclass
class Training:
    """One training of a net on a session; a method adds functions to it.

    If these functions keep state from step to step, it must be in buffers of the net, in `draws` or
    in `kept`, because a checkpoint holds only these.

    Parameters
    ----------
    net : Module
        Maps x (b, D) to logits (b, C), unless the objective says otherwise.
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
    objective : Objective or None
        Takes x (b, D) and y (b,) or (b, C) and returns their mean loss; None: `batch_loss`
        over the classes that the session allows the loss to use.
    step_loss : callable or None
        Takes x, y and `views`, and returns the loss of a step, if that is not the objective of the
        augmented batch: the objective is then for validation alone.
    regularise : callable or None
        Called between backward and step; may change the gradients or the parameters.
    stepped : callable or None
        Called after every step of the optimiser.
    store : callable or None
        Takes the batch x, y of every step after it, not augmented.
    store_once : bool
        Whether only the batches of the first epoch are stored.
    kept : Stateful or None
        The further state that these functions change.
    validate : callable or None
        Returns the monitored value, lower is better; None: the value on the session's validation
        data.
    draws : numpy.random.Generator or None
        The random generator that these functions use.
    replayed : callable
        Returns how many samples these functions have drawn from memory so far.
    """

    net: nn.Module
    optimiser: torch.optim.Optimizer
    session: Session
    batch_size: int
    stop: Stop
    generator: torch.Generator
    device: str
    first: bool = False
    views: Views = PLAIN
    presented: float = math.inf
    objective: Objective | None = None
    step_loss: Callable[[Tensor, Tensor, Views], Tensor] | None = None
    regularise: Callable[[], None] | None = None
    stepped: Callable[[], None] | None = None
    store: Callable[[Tensor, Tensor], None] | None = None
    store_once: bool = False
    kept: Stateful | None = None
    validate: Callable[[], float] | None = None
    draws: np.random.Generator | None = None
    replayed: Callable[[], int] = lambda: 0

    def __post_init__(self) -> None:
        self.y = torch.from_numpy(self.session.y).to(self.device)
        classes = loss_classes(self.session, self.device)
        self.loss = self.objective or (lambda x, y: batch_loss(self.net(x), y, classes))
        self.best = Best(self.stop)
        self.decay = self.stop.decay(self.optimiser)
        self.rates = [group["lr"] for group in self.optimiser.param_groups]
        self.count = _Count()
        self.cap = self.stop.epochs
        if self.first and self.stop.first_epochs is not None:
            self.cap = self.stop.first_epochs

    def run(self, checkpoint: Checkpoint = NO_CHECKPOINT) -> dict[str, Any]:
        """Train until the stopping rule ends it; return the log.

        A training that was interrupted continues after the last epoch that `checkpoint`, the
        session's `ctx.checkpoint`, holds. If it had already ended, this returns at once.

        Returns
        -------
        dict
            `epochs`, `steps` (of the optimiser), `stopped` ("epochs", "patience", "perfect",
            "trained", "lr_min", "presented" or "diverged") and `train_loss`, the mean of the last
            epoch. If the rule looks at a value: `kept_epoch`, whose weights the net has;
            `kept_steps`, up to it; `monitor`, the value's name ("train_loss" without validation
            data); `best`, NaN where no epoch was monitored. `lr` if the rule lowers it.
            `presented` samples if `passes` limits them.
        """
        parts = {
            "net": self.net,
            "optimiser": self.optimiser,
            "generator": self.generator,
            "draws": self.draws,
            "views": self.views.generator,
        }
        if self.kept is not None:
            parts["kept"] = self.kept
        unfinished = {**parts, "best": self.best, "decay": self.decay}
        if self.presented < math.inf:
            unfinished["count"] = self.count
        done, ended = checkpoint.resume(unfinished)
        if ended is not None:
            self.net.eval()
            return ended
        for epoch in range(done + 1, self.cap + 1):
            loss = self.train_epoch(epoch)
            reason = self.verdict(epoch, loss)
            if reason:
                break
            checkpoint.save_training(epoch, unfinished)
        log = self.close(epoch, loss, reason)
        checkpoint.save_training(epoch, parts, log)
        return log

    @property
    def epoch_steps(self) -> int:
        return math.ceil(len(self.session.x) / self.batch_size)

    def train_epoch(self, epoch: int = 1) -> float:
        """Train on every sample once, in a new order; return the mean loss.

        It ends early where no more samples may be presented.
        """
        x = self.session.x
        device = self.device
        shown = 0
        stores = self.store is not None and (epoch == 1 or not self.store_once)
        self.net.train()
        total = torch.zeros((), device=device)
        order = torch.randperm(len(x), generator=self.generator).to(device)
        for index in torch.split(order, self.batch_size):
            before = self.replayed()
            self.optimiser.zero_grad(set_to_none=True)
            batch = x.batch(index, device)
            labels = self.y[index]
            if self.step_loss is None:
                loss = self.loss(self.views(batch), labels)
            else:
                loss = self.step_loss(batch, labels, self.views)
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            if self.regularise is not None:
                self.regularise()
            self.optimiser.step()
            if self.stepped is not None:
                self.stepped()
            if stores and self.store is not None:
                self.store(batch, labels)
            total += loss.detach() * len(index)
            shown += len(index)
            self.count.steps += 1
            self.count.samples += len(index) + self.replayed() - before
            if self.count.samples >= self.presented:
                break
        return float(total) / shown

    def verdict(self, epoch: int, loss: float) -> str:
        """Why training ends after this epoch with mean loss `loss`; "" if it continues."""
        stop = self.stop
        at_cap = "epochs" if epoch == self.cap else ""
        if self.count.samples >= self.presented:
            at_cap = "presented"
        if not math.isfinite(loss):
            return "diverged"
        if epoch * self.epoch_steps < stop.min_steps or stop.rule == "epochs":
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
        if not self.stop.perfect or not len(self.session.val_x):
            return False
        score = "pw_js" if self.session.val_y.ndim == 2 else "accuracy"
        if self.stop.monitor != score or self.validate is not None:
            value = validation_value(self.net, self.session, score, self.loss, self.device)
        self.best.right = self.best.right + 1 if value == -1.0 else 0
        return self.best.right >= self.stop.perfect

    def monitored(self, loss: float) -> float:
        """The monitored value: without validation data it is the training loss."""
        if self.validate is not None:
            return self.validate()
        if not len(self.session.val_x):
            return loss
        return validation_value(self.net, self.session, self.stop.monitor, self.loss, self.device)

    def close(self, epoch: int, loss: float, reason: str) -> dict[str, Any]:
        """Restore the best weights, unless training diverged, and the initial learning rate."""
        weights = None if reason == "diverged" else self.best.weights
        if weights is not None:
            self.net.load_state_dict(weights)
        self.net.eval()
        limited = self.presented < math.inf
        steps = self.count.steps if limited else epoch * self.epoch_steps
        log = {"epochs": epoch, "steps": steps, "stopped": reason, "train_loss": loss}
        if self.stop.watches:
            log |= self._watched_log(epoch if weights is None else self.best.epoch)
        if self.decay is not None:
            log["lr"] = self.optimiser.param_groups[0]["lr"]
            for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
                group["lr"] = rate  # for the next session, if the optimiser is kept
        if limited:
            log["presented"] = self.count.samples
        return log

    def _watched_log(self, kept: int) -> dict[str, Any]:
        """What the log says of the monitored value; `kept` is the epoch whose weights stay."""
        is_watched = self.validate is not None or len(self.session.val_x) > 0
        monitor = self.stop.monitor if is_watched else "train_loss"
        value = self.best.value if self.best.epoch else math.nan
        if not monitor.endswith("loss"):
            value = -value  # lower is better inside
        return {
            "kept_epoch": kept,
            "kept_steps": kept * self.epoch_steps,
            "monitor": monitor,
            "best": value,
        }


class Hooks(TypedDict, total=False):
    """What a method adds to a training, each as `Training` describes it."""

    objective: Objective | None
    step_loss: Callable[[Tensor, Tensor, Views], Tensor] | None
    regularise: Callable[[], None] | None
    stepped: Callable[[], None] | None
    store: Callable[[Tensor, Tensor], None] | None
    store_once: bool
    kept: Stateful | None
    validate: Callable[[], float] | None
    draws: np.random.Generator | None


class Trainable(Protocol):
    """What `train` needs of a learner; `NetLearner` has it all.

    A learner may also have `passes` and `exemplars`, as in `NetLearner` and `ReplayLearner`, and
    `images`.
    """

    optimiser_: torch.optim.Optimizer

    @property
    def net(self) -> nn.Module: ...
    @property
    def optimiser_state(self) -> str: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def stop(self) -> Stop: ...
    @property
    def seeds(self) -> Seeds: ...
    @property
    def device(self) -> str: ...
    @property
    def learned(self) -> int: ...


def train(
    learner: Trainable,
    session: Session,
    ctx: Context,
    *,
    lr: float | None = None,
    **hooks: Unpack[Hooks],
) -> dict[str, Any]:
    """Train a learner's net with the shared settings of gradient learners (see `NetLearner`).

    The optimiser is new unless the learner's `optimiser_state` is "kept". The session may hold more
    than the runner's, such as exemplars. Returns the log.

    Parameters
    ----------
    learner : Trainable
        Its `learned` is the number of earlier sessions.
    lr : float or None
        The learning rate of this session; None: the optimiser's.
    **hooks : Hooks
        What the method adds.
    """
    if learner.optimiser_state == "fresh":
        learner.optimiser_ = fresh_optimiser(learner, learner.net)
    if lr is not None:
        for group in learner.optimiser_.param_groups:
            group["lr"] = lr
    stop = learner.stop
    presented = math.inf
    passes = getattr(learner, "passes", 0.0)
    if passes:  # it alone says when training ends
        stop = AS_LONG
        presented = passes * (ctx.samples or len(session.x))
    exemplars = getattr(learner, "exemplars", None)

    def replayed() -> int:
        return exemplars.presented if passes and exemplars is not None else 0

    training = Training(
        learner.net,
        learner.optimiser_,
        session,
        learner.batch_size,
        stop,
        generator(learner.seeds.batches, learner.learned),
        learner.device,
        first=learner.learned == 0,
        views=augmented_views(learner, learner.learned),
        presented=presented,
        replayed=replayed,
        **hooks,
    )
    return training.run(ctx.checkpoint)
