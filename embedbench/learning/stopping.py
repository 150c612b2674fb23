"""When training a session ends, by which value, and which of its epochs is kept."""

import copy
import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from embedbench.config.fields_added_later import later
from embedbench.config.setting_ranges import at_least, check_settings, within
from embedbench.errors import UserError
from embedbench.streams.stream import Session

from .footprint import Stateful
from .loss import Objective, among, loss_classes
from .network import PART, in_parts
from .sample_containers import blocks


@dataclass(frozen=True)
class Stop:
    """The end of training in a session. The steps taken and the reason are recorded.

    **Source**: none of the papers prints its rule. The default avoids a failure of early stopping
    on sessions of forty samples: a rule that counts epochs stops before anything is learned.
    "patience" uses the session's validation data, which has no exemplars of older sessions.
    "plateau" is from Abdelsalam et al. (2021, IIRC), Appendix A, with `patience` 10, `min_delta`
    1e-3 and `monitor` "pw_js", as their code has it. `lr_min` and `rewind` are from the code of
    Masana et al. (2020).

    Parameters
    ----------
    rule : str
        "patience": stops after more than `patience` epochs in a row without a better validation
        value. "plateau": stops after `epochs`; after more than `patience` epochs in a row without a
        better validation value, the learning rate is multiplied by `factor`, and the count starts
        again. "epochs": stops after `epochs`. "trained": stops once an epoch's mean training loss
        is ≤ `target`.
    epochs : int
        Largest number of epochs, for every rule.
    first_epochs : int or None
        Largest number of epochs in the first session; None: `epochs`.
    patience : int
        Allowed epochs without improvement; 0 stops at the first.
    min_steps : int
        Optimiser steps before a rule may stop, lower the rate, or remember an epoch.
    monitor : str
        The watched value on the session's validation data: "loss", "accuracy" or, for label sets,
        "pw_js".
    min_delta : float
        Smallest improvement that counts.
    restore : bool
        Go back to the weights of the best epoch.
    ties : str
        Which of several equally good epochs is best, "later" or "earlier".
    target : float
        Training loss, nats, of the rule "trained".
    factor : float
        The learning rate is multiplied by it on a plateau; in (0, 1).
    lr_min : float
        The rule "plateau" also stops when the learning rate falls below this value.
    rewind : bool
        On a plateau, return to the weights of the best epoch so far and continue from there.
    perfect : int
        The rule "patience" also stops after this many epochs in a row in which every validation
        sample was answered right; 0: it does not. Other rules set it to 0.
    """

    rule: Literal["patience", "plateau", "epochs", "trained"] = "patience"
    epochs: Annotated[int, at_least(1, 100_000)] = 200
    first_epochs: Annotated[int, at_least(1, 100_000)] | None = None
    patience: Annotated[int, at_least(0)] = 5
    min_steps: Annotated[int, at_least(0)] = 30
    monitor: Literal["loss", "accuracy", "pw_js"] = "loss"
    min_delta: Annotated[float, at_least(0)] = 1e-4
    restore: bool = True
    ties: Literal["later", "earlier"] = "later"
    target: Annotated[float, at_least(0)] = 0.05
    factor: Annotated[float, within("(0, 1)")] = 0.1
    lr_min: Annotated[float, at_least(0)] = 0.0
    rewind: bool = False
    perfect: Annotated[int, at_least(0)] = later(0, earlier=0)

    def __post_init__(self) -> None:
        check_settings(self, "stop")
        if self.rewind and not self.restore:
            raise UserError("stop.rewind goes to the best weights: it needs stop.restore=true")
        if self.rule != "patience":  # what has no effect shall not tell two runs apart
            object.__setattr__(self, "perfect", 0)

    @property
    def watches(self) -> bool:
        """Whether the rule looks at validation data."""
        return self.rule in ("patience", "plateau")

    def decay(self, optimiser: torch.optim.Optimizer) -> ReduceLROnPlateau | None:
        """The scheduler of the learning rate, if any; it takes each value, lower is better."""
        if self.rule != "plateau":
            return None
        return ReduceLROnPlateau(
            optimiser,
            factor=self.factor,
            patience=self.patience,
            threshold=self.min_delta,
            threshold_mode="abs",
        )


class Best(Stateful):
    """The best epoch so far, by a value of which lower is better; the rule says what is better.

    `value` and `epoch` are infinite and 0 before there is one; the next must beat `mark` by
    `min_delta` to count as an improvement. `waited` epochs in a row were none, and in `right` in a
    row every validation sample was answered right. `weights` is the net's state after the best
    epoch, if the rule returns to it.
    """

    state: ClassVar[dict[str, str]] = dict.fromkeys(
        ("value", "mark", "waited", "epoch", "right", "weights"), "transient"
    )

    def __init__(self, stop: Stop) -> None:
        self.stop = stop
        self.value = self.mark = math.inf
        self.waited = self.epoch = self.right = 0
        self.weights: dict[str, Any] | None = None

    def see(self, value: float, epoch: int, net: nn.Module) -> None:
        """Use the value of an epoch that has ended."""
        better = value <= self.value if self.stop.ties == "later" else value < self.value
        if better:
            self.value, self.epoch = value, epoch
            if self.stop.restore:
                self.weights = copy.deepcopy(net.state_dict())
        if value < self.mark - self.stop.min_delta:
            self.mark, self.waited = value, 0
        else:
            self.waited += 1

    def lower(self, decay: ReduceLROnPlateau, value: float, net: nn.Module) -> bool:
        """Lower the learning rate if the rule says so; call it after `see` with the same value.

        Returns whether training ends, because the rate has fallen below `lr_min`.
        """
        group = decay.optimizer.param_groups[0]
        before = group["lr"]
        decay.step(value)
        if self.stop.rewind and group["lr"] < before and self.weights is not None:
            net.load_state_dict(self.weights)
        return bool(group["lr"] < self.stop.lr_min)


@torch.no_grad()
def validation_value(
    net: nn.Module, session: Session, monitor: str, loss_of: Objective, device: str
) -> float:
    """Loss, negative accuracy or negative pw-JS on a session's validation data; lower is better."""
    net.eval()
    y = torch.from_numpy(session.val_y).to(device)
    if monitor == "loss":
        return _mean_loss(loss_of, session, y, device)
    if (monitor == "pw_js") != (y.ndim == 2):
        raise UserError(
            "stop.monitor",
            expected="loss or accuracy where samples have one label, loss or pw_js where they "
            "have sets of labels",
            got=monitor,
        )
    logits = torch.cat([in_parts(net, x) for x in blocks(session.val_x, device)])
    if monitor == "pw_js":
        return -pw_js(logits, y, loss_classes(session, device))
    logits = among(logits, loss_classes(session, device))
    return -float((logits.argmax(1) == y).float().mean())


def _mean_loss(loss_of: Objective, session: Session, y: Tensor, device: str) -> float:
    """The mean loss of the validation data; images go in parts, as in `in_parts`."""
    means = list[float]()
    sizes = list[int]()
    for x in blocks(session.val_x, device):
        for part in [x] if x.ndim == 2 else torch.split(x, PART):
            first = sum(sizes)
            means.append(float(loss_of(part, y[first : first + len(part)])))
            sizes.append(len(part))
    return sum(a * n for a, n in zip(means, sizes, strict=True)) / sum(sizes)


def pw_js(logits: Tensor, y: Tensor, classes: Tensor | None = None) -> float:
    """Mean precision-weighted Jaccard similarity of the answers {c of `classes`: logit > 0}.

    Logits and y are (n, C), `classes` (k,), or None for all.

    **Source**: Abdelsalam et al. (2021, IIRC), Eq. 2: |Y∩Ŷ|/|Y∪Ŷ| · |Y∩Ŷ|/|Ŷ|, 0 where Ŷ is empty.
    """
    answer = logits > 0
    true = y
    if classes is not None:
        answer = answer[:, classes]
        true = true[:, classes]
    common = (answer & true).sum(1).double()
    either = (answer | true).sum(1)
    answered = answer.sum(1)
    return float((common / either.clamp(min=1) * common / answered.clamp(min=1)).mean())
