"""Losses, and the monitored value; labels are classes (b,) or label sets (b, C)."""

import math
from collections.abc import Callable, Collection, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from embedbench.errors import UserError
from embedbench.streams.stream import Session

from .net_and_optimiser import PART, in_parts, trainable_parameters
from .sample_storage import blocks

Objective = Callable[[Tensor, Tensor], Tensor]


def plain_loss(net: nn.Module, session: Session, device: str) -> Objective:
    """The loss over the classes that the session allows the loss to use.

    It is the cross-entropy; for label sets `set_loss`.
    """
    if session.y.ndim == 2:
        classes = loss_classes(session, device)
        return lambda x, y: set_loss(net(x), y, classes)
    mask = loss_mask(session, device)

    def loss(x: Tensor, y: Tensor) -> Tensor:
        logits = net(x)
        return cross_entropy(logits if mask is None else logits + mask, y)

    return loss


def set_loss(logits: Tensor, targets: Tensor, classes: Tensor | None = None) -> Tensor:
    """Binary cross-entropy of label sets, mean over samples and classes, nats.

    Logits and targets are (b, C), and targets bool or probabilities; the mean includes `classes`
    (k,), all if None.

    **Source**: Abdelsalam et al. (2021, IIRC), Section 5: the mean over the classes seen, so that
    the loss does not grow with their number.
    """
    if classes is not None:
        logits, targets = logits[:, classes], targets[:, classes]
    return binary_cross_entropy_with_logits(logits, targets.to(logits.dtype))


def batch_loss(logits: Tensor, y: Tensor, classes: Tensor | None) -> Tensor:
    """Loss of an online batch: cross-entropy, or `set_loss` for label sets, over `classes` (k,).

    None: over all classes.
    """
    if y.ndim == 2:
        return set_loss(logits, y, classes)
    return cross_entropy(among(logits, classes), y)


def among(logits: Tensor, classes: Tensor | None) -> Tensor:
    """Logits (b, C) with -inf for classes that are not in `classes` (k,); None: as they are."""
    if classes is None:
        return logits
    return logits + logits.new_full(logits.shape[1:], -math.inf).index_fill(0, classes, 0.0)


def loss_mask(session: Session, device: str) -> Tensor | None:
    """(C,) 0 for classes that the loss may use, -inf for the others; None if it may use all."""
    if session.loss_classes is None:
        return None
    blocked = torch.from_numpy(~session.loss_classes).to(device)
    return torch.zeros(len(blocked), device=device).masked_fill(blocked, -math.inf)


def loss_classes(session: Session, device: str) -> Tensor | None:
    """(k,) the classes that the loss may use; None if it may use all."""
    if session.loss_classes is None:
        return None
    return torch.from_numpy(session.loss_classes.nonzero()[0]).to(device)


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
            "stop.monitor must be loss or accuracy where samples have one label, loss or pw_js "
            f"where they have sets of labels; got {monitor}"
        )
    logits = torch.cat([in_parts(net, x) for x in blocks(session.val_x, device)])
    if monitor == "pw_js":
        return -pw_js(logits, y, loss_classes(session, device))
    mask = loss_mask(session, device)
    logits = logits if mask is None else logits + mask
    return -float((logits.argmax(1) == y).float().mean())


def _mean_loss(loss_of: Objective, session: Session, y: Tensor, device: str) -> float:
    """The mean loss of the validation data; images go in parts, as in `in_parts`."""
    means, sizes = list[float](), list[int]()
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
    answer, true = logits > 0, y
    if classes is not None:
        answer, true = answer[:, classes], true[:, classes]
    common = (answer & true).sum(1).double()
    either, answered = (answer | true).sum(1), answer.sum(1)
    return float((common / either.clamp(min=1) * common / answered.clamp(min=1)).mean())


# --- against forgetting: distillation and quadratic penalties ---


def distillation(logits: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """Cross-entropy of softmax(logits/T) under softmax(targets/T), mean over samples, nats.

    Both are (n, k), of the new and the old network for the old classes.

    **Source**: Hinton et al. (2015), as in Li and Hoiem (2016). Not multiplied by T².
    """
    return cross_entropy(logits / temperature, torch.softmax(targets / temperature, dim=1))


def only(classes: Collection[int], n_classes: int, device: str) -> Tensor:
    """(C,) 0 for `classes`, -inf for the others; added to logits, it masks all other classes."""
    mask = torch.full((n_classes,), -math.inf, device=device)
    mask[sorted(classes)] = 0
    return mask


def pull(net: nn.Module, weight: Sequence[Tensor], anchor: Sequence[Tensor], by: float) -> None:
    """Add the gradient of by/2 Σ_i weight_i (θ_i - anchor_i)² to the parameters' gradients.

    `weight` and `anchor` have one tensor for each trained parameter.
    """
    for p, w, a in zip(trainable_parameters(net), weight, anchor, strict=True):
        assert p.grad is not None
        p.grad.addcmul_(w, p.data - a, value=by)
