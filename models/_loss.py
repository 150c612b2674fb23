"""The loss of a batch, and the value that is monitored."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from embedbench.stream import Session

Objective = Callable[[Tensor, Tensor], Tensor]


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
