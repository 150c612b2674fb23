"""The one training loop: mini-batches, one optimiser, and a named rule that says when to stop."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from embedbench.errors import UserError, unknown
from embedbench.learner import tensor_bytes
from embedbench.stream import Session

from ._nadam import NAdam

RULES = ("patience", "epochs", "trained")
Objective = Callable[[Tensor, Tensor], Tensor]
OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "nadam": NAdam,
    "adam": lambda params, **kw: torch.optim.Adam(params, fused=True, **kw),
    "sgd": lambda params, **kw: torch.optim.SGD(params, momentum=0.9, fused=True, **kw),
}


@dataclass(frozen=True)
class Stop:
    """When training a session ends. The steps taken and the reason are recorded.

    **Source**: none of the papers prints its rule. The default follows from what early stopping
    does to sessions of forty samples: a rule that counts epochs stops before anything is learned.
    "patience" looks at the session's own validation data; exemplars of older ones are not in it.

    Parameters
    ----------
    rule : "patience": once more than `patience` epochs in a row brought no better validation value;
        "epochs": after `epochs`; "trained": once an epoch's mean training loss is ≤ `target`
    epochs : the cap of every rule
    patience : epochs without improvement that are borne; 0 stops at the first
    min_steps : optimiser steps before "patience" and "trained" may stop or remember an epoch
    monitor : "loss" or "accuracy" on the session's validation data
    min_delta : improvement that counts as one
    restore : go back to the weights of the best epoch
    ties : which of several equally good epochs is best, "later" or "earlier"
    target : training loss, nats, of the rule "trained"
    """

    rule: str = "patience"
    epochs: int = 200
    patience: int = 5
    min_steps: int = 30
    monitor: str = "loss"
    min_delta: float = 1e-4
    restore: bool = True
    ties: str = "later"
    target: float = 0.05

    def __post_init__(self) -> None:
        for what, value, known in (
            ("stop rule", self.rule, RULES),
            ("monitor", self.monitor, ("loss", "accuracy")),
            ("ties", self.ties, ("later", "earlier")),
        ):
            if value not in known:
                raise unknown(what, value, known)
        if self.epochs < 1:
            raise UserError(f"stop.epochs must be at least 1, got {self.epochs}")
        if self.patience < 0:
            raise UserError(f"stop.patience must be at least 0, got {self.patience}")


class _Best:
    """The best epoch so far, by a value where lower is better."""

    def __init__(self, stop: Stop) -> None:
        self.stop = stop
        self.value = math.inf  # of the epoch to restore
        self.mark = math.inf  # what the next epoch must beat by min_delta
        self.waited = 0
        self.epoch = 0
        self.weights: dict[str, Any] | None = None

    def see(self, value: float, epoch: int, net: nn.Module) -> None:
        better = value <= self.value if self.stop.ties == "later" else value < self.value
        if better:
            self.value, self.epoch = value, epoch
            if self.stop.restore:
                self.weights = copy.deepcopy(net.state_dict())
        if value < self.mark - self.stop.min_delta:
            self.mark, self.waited = value, 0
        else:
            self.waited += 1


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
) -> dict[str, Any]:
    """Train `net` on a session until `stop` says so.

    Parameters
    ----------
    objective : takes x (b, D) and y (b,), returns their mean loss; cross-entropy of the classes
        that the loss may see if None
    regularise : called between backward and step; may add to the parameters' gradients or change
        them
    stepped : called after every step of the optimiser
    validate : the monitored value, lower is better, instead of the one on the session's validation
        data

    Returns the log: epochs, steps, stop reason, the best epoch, last training loss, validation
    value.
    """
    n = len(session.x)
    y = torch.from_numpy(session.y).to(device)
    loss_of = objective or plain_loss(net, session, device)
    best = _Best(stop)
    steps, reason, value, loss_mean = 0, "epochs", math.nan, math.nan
    epoch = 0
    for epoch in range(1, stop.epochs + 1):
        net.train()
        total = torch.zeros((), device=device)
        order = torch.randperm(n, generator=generator).to(device)
        for index in torch.split(order, batch_size):
            optimiser.zero_grad(set_to_none=True)
            loss = loss_of(session.x.batch(index, device), y[index])
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            if regularise is not None:
                regularise()
            optimiser.step()
            if stepped is not None:
                stepped()
            total += loss.detach() * len(index)
        steps += math.ceil(n / batch_size)
        loss_mean = float(total) / n
        if not math.isfinite(loss_mean):
            reason = "diverged"
            break
        if steps < stop.min_steps or stop.rule == "epochs":
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
        if best.waited > stop.patience:
            reason = "patience"
            break
    weights = None if reason == "diverged" else best.weights
    if weights is not None:
        net.load_state_dict(weights)
    net.eval()
    log: dict[str, Any] = {
        "epochs": epoch,
        "steps": steps,
        "stopped": reason,
        "train_loss": loss_mean,
    }
    if stop.rule == "patience":
        kept = epoch if weights is None else best.epoch
        log |= {"kept_epoch": kept, "kept_steps": kept * math.ceil(n / batch_size)}
        monitor = stop.monitor if validate or len(session.val_x) else "train_loss"
        value = best.value if best.epoch else math.nan  # none where no epoch was looked at
        log |= {"monitor": monitor, "best": -value if monitor == "accuracy" else value}
    return log


def train(
    learner: Any,
    session: Session,
    *,
    objective: Objective | None = None,
    regularise: Callable[[], None] | None = None,
    stepped: Callable[[], None] | None = None,
    validate: Callable[[], float] | None = None,
) -> dict[str, Any]:
    """`fit` a learner's net with the settings that gradient learners share (see `mlp`).

    The learner has `net`, `optimiser_`, `seeds`, `device` and `learned`, the number of sessions
    learned before; the other arguments and the log are those of `fit`. The optimiser is a fresh one
    unless the learner's `optimiser_state` is "kept".
    """
    if learner.optimiser_state == "fresh":
        learner.optimiser_ = optimiser_of(learner)
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
    )


def plain_loss(net: nn.Module, session: Session, device: str) -> Objective:
    """Cross-entropy over the classes that the session lets the loss see."""
    mask = loss_mask(session, device)

    def loss(x: Tensor, y: Tensor) -> Tensor:
        logits = net(x)
        return cross_entropy(logits if mask is None else logits + mask, y)

    return loss


def loss_mask(session: Session, device: str) -> Tensor | None:
    """(C,) 0 for classes the loss may see and -inf for the others; None where it sees all."""
    if session.loss_classes is None:
        return None
    blocked = torch.from_numpy(~session.loss_classes).to(device)
    return torch.zeros(len(blocked), device=device).masked_fill(blocked, -math.inf)


@torch.no_grad()
def validation_value(
    net: nn.Module, session: Session, monitor: str, loss_of: Objective, device: str
) -> float:
    """Loss or negative accuracy on a session's validation data; lower is better."""
    net.eval()
    x, y = session.val_x.tensor(device), torch.from_numpy(session.val_y).to(device)
    if monitor == "loss":
        return float(loss_of(x, y))
    mask = loss_mask(session, device)
    logits = net(x)
    logits = logits if mask is None else logits + mask
    return -float((logits.argmax(1) == y).float().mean())


@torch.inference_mode()
def predict(net: nn.Module, x: Tensor) -> Tensor:
    """Logits of x (n, D) in evaluation mode, (n, C)."""
    net.eval()
    out: Tensor = net(x)
    return out


def mlp_net(n_inputs: int, units: int, layers: int, n_outputs: int, seed: int) -> nn.Sequential:
    """`layers` hidden layers of `units` ReLUs and a linear head; PyTorch's default
    initialisation."""
    widths = [n_inputs, *[units] * layers]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        parts: list[nn.Module] = []
        for a, b in pairwise(widths):
            parts += [nn.Linear(a, b), nn.ReLU()]
        return nn.Sequential(*parts, nn.Linear(widths[-1], n_outputs))


def make_optimiser(
    name: str, net: nn.Module, *, lr: float, weight_decay: float
) -> torch.optim.Optimizer:
    """An optimiser by name: "nadam", "adam", "sgd" (momentum 0.9)."""
    return OPTIMISERS[name](net.parameters(), lr=lr, weight_decay=weight_decay)


def optimiser_of(learner: Any) -> torch.optim.Optimizer:
    """A fresh optimiser for a learner's net, by its settings."""
    return make_optimiser(
        learner.optimiser, learner.net, lr=learner.lr, weight_decay=learner.weight_decay
    )


def check_training(learner: Any) -> None:
    """Refuse values of the settings that gradient learners share which no training goes on with.

    Raises `UserError` for the first of units, layers, batch_size, lr, weight_decay, optimiser and
    optimiser_state that does not fit. An online learner, which knows no sessions, has no
    optimiser_state: it keeps its optimiser.
    """
    name = type(learner).__module__.rpartition(".")[2].replace("_", "-")
    state = getattr(learner, "optimiser_state", "kept")
    for setting, value, known in (
        ("optimiser", learner.optimiser, tuple(OPTIMISERS)),
        ("optimiser_state", state, ("fresh", "kept")),
    ):
        if value not in known:
            raise unknown(f"{name}.{setting}", value, known)
    layers = getattr(learner, "layers", 0)  # not every network has a number of them
    for setting, got, fits, expected in (
        ("units", learner.units, learner.units >= 1, "at least 1"),
        ("layers", layers, layers >= 0, "at least 0"),
        ("batch_size", learner.batch_size, learner.batch_size >= 1, "at least 1"),
        ("lr", learner.lr, 0 < learner.lr < math.inf, "finite and above 0"),
        (
            "weight_decay",
            learner.weight_decay,
            0 <= learner.weight_decay < math.inf,
            "finite and at least 0",
        ),
    ):
        if not fits:
            raise UserError(f"{name}.{setting} must be {expected}, got {got}")


def optimiser_bytes(optimiser: torch.optim.Optimizer) -> int:
    """Bytes of an optimiser's moments, where it is kept from session to session."""
    moments = (v for s in optimiser.state.values() for v in s.values() if isinstance(v, Tensor))
    return tensor_bytes(*moments)


def generator(seed: int, counter: int) -> torch.Generator:
    """A generator for the `counter`-th use of `seed`, so that a resumed run draws the same."""
    state = np.random.SeedSequence([seed, counter]).generate_state(1, dtype=np.uint64)
    return torch.Generator().manual_seed(int(state[0] >> np.uint64(1)))
