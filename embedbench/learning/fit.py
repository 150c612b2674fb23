"""The one training loop: mini-batches, one optimiser, and a named rule that says when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from embedbench.streams.stream import Session

from .augment import Views
from .learner import NO_CHECKPOINT, Checkpoint, Context
from .loss import Objective, plain_loss, validation_value
from .net import PLAIN, generator, views_of
from .optimisers import optimiser_of
from .stop import Best, Stop


def fit(
    net: nn.Module,
    optimiser: torch.optim.Optimizer,
    session: Session,
    *,
    batch_size: int,
    stop: Stop,
    generator: torch.Generator,
    device: str,
    objective: Objective | None = None,
    regularise: Callable[[], None] | None = None,
    stepped: Callable[[], None] | None = None,
    validate: Callable[[], float] | None = None,
    first: bool = False,
    views: Views = PLAIN,
    draws: np.random.Generator | None = None,
    checkpoint: Checkpoint = NO_CHECKPOINT,
) -> dict[str, Any]:
    """Train `net` on a session until `stop` says so.

    Parameters
    ----------
    objective : takes x (b, D) and y (b,) or (b, C), returns their mean loss; `plain_loss` if None
    regularise : called between backward and step; may add to the parameters' gradients or change
        them
    stepped : called after every step of the optimiser
    validate : the monitored value, lower is better, instead of the one on the session's validation
        data
    first : this is the first session
    views : how the images of a batch are shown to `objective` in training
    draws : what `objective`, `regularise` and the others draw from, if they do
    checkpoint : what the runner offers as `ctx.checkpoint`

    A training that was cut off goes on after the last epoch that `checkpoint` kept, and one that
    had ended ends at once. What the functions above remember from step to
    step must lie in buffers of `net`, which are kept, or in `draws`.

    Returns the log: epochs, steps, stop reason, the best epoch, last training loss, validation
    value, and the learning rate where it was lowered.
    """
    n = len(session.x)
    an_epoch = math.ceil(n / batch_size)  # steps
    y = torch.from_numpy(session.y).to(device)
    loss_of = objective or plain_loss(net, session, device)
    best, decay = Best(stop), stop.decay(optimiser)
    rates = [group["lr"] for group in optimiser.param_groups]
    reason, value, loss_mean = "epochs", math.nan, math.nan
    parts = {"net": net, "optimiser": optimiser, "generator": generator, "draws": draws}
    parts["views"] = views.generator
    unfinished = {**parts, "best": best, "decay": decay}
    done, ended = checkpoint.take_up(unfinished)
    if ended is not None:
        net.eval()
        return ended

    def batch_mean(index: torch.Tensor) -> torch.Tensor:
        """Loss of a batch, after a step on it."""
        optimiser.zero_grad(set_to_none=True)
        loss = loss_of(views(session.x.batch(index, device)), y[index])
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        if regularise is not None:
            regularise()
        optimiser.step()
        if stepped is not None:
            stepped()
        return loss.detach()

    epoch = done
    for epoch in range(done + 1, stop.cap(first=first) + 1):
        if epoch > done + 1:
            checkpoint.keep_epoch(epoch - 1, unfinished)
        net.train()
        total = torch.zeros((), device=device)
        order = torch.randperm(n, generator=generator).to(device)
        for index in torch.split(order, batch_size):
            total += batch_mean(index) * len(index)
        loss_mean = float(total) / n
        if not math.isfinite(loss_mean):
            reason = "diverged"
            break
        if epoch * an_epoch < stop.min_steps or stop.rule == "epochs":
            continue
        if stop.rule == "trained":
            if loss_mean <= stop.target:
                reason = "trained"
                break
            continue
        if validate is not None:
            value = validate()
        elif len(session.val_x):
            value = validation_value(net, session, stop.monitor, loss_of, device)
        else:
            value = loss_mean
        best.see(value, epoch, net)
        if decay is not None:
            if best.lower(decay, value, net):
                reason = "lr_min"
                break
        elif best.waited > stop.patience:
            reason = "patience"
            break
    weights = None if reason == "diverged" else best.weights
    if weights is not None:
        net.load_state_dict(weights)
    net.eval()
    log: dict[str, Any] = {
        "epochs": epoch,
        "steps": epoch * an_epoch,
        "stopped": reason,
        "train_loss": loss_mean,
    }
    if stop.rule in ("patience", "plateau"):
        kept = epoch if weights is None else best.epoch
        log |= {"kept_epoch": kept, "kept_steps": kept * an_epoch}
        monitor = stop.monitor if validate or len(session.val_x) else "train_loss"
        value = best.value if best.epoch else math.nan  # none where no epoch was looked at
        log |= {"monitor": monitor, "best": value if monitor.endswith("loss") else -value}
    if decay is not None:
        log["lr"] = optimiser.param_groups[0]["lr"]
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate  # or an optimiser that is kept would begin the next session with it
    checkpoint.keep_fit(log, parts)
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

    The learner has `net`, `optimiser_`, `seeds`, `device` and `learned`, the number of sessions
    learned before; the other arguments and the log are those of `fit`. The optimiser is a fresh one
    unless the learner's `optimiser_state` is "kept".
    """
    if learner.optimiser_state == "fresh":
        learner.optimiser_ = optimiser_of(learner, learner.net)
    return fit(
        learner.net,
        learner.optimiser_,
        session,
        batch_size=learner.batch_size,
        stop=learner.stop,
        generator=generator(learner.seeds.batches, learner.learned),
        device=learner.device,
        objective=objective,
        regularise=regularise,
        stepped=stepped,
        validate=validate,
        first=learner.learned == 0,
        views=views_of(learner, learner.learned),
        draws=draws,
        checkpoint=ctx.checkpoint,
    )
