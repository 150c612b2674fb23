"""Losses of gradient learners: cross-entropy, label sets, distillation, quadratic penalties."""

import copy
import math
from collections.abc import Callable, Collection, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, one_hot

from embedbench.streams.stream import Session

from .network import predict
from .optimisers import trainable_parameters

Objective = Callable[[Tensor, Tensor], Tensor]


def set_loss(logits: Tensor, targets: Tensor, classes: Tensor | None = None) -> Tensor:
    """Binary cross-entropy of label sets, mean over samples and classes, nats.

    Logits and targets are (b, C), and targets bool or probabilities; the mean includes `classes`
    (k,), all if None.

    **Source**: Abdelsalam et al. (2021, IIRC), Section 5: the mean over the classes seen, so that
    the loss does not grow with their number.
    """
    if classes is not None:
        logits = logits[:, classes]
        targets = targets[:, classes]
    return binary_cross_entropy_with_logits(logits, targets.to(logits.dtype))


def batch_loss(logits: Tensor, y: Tensor, classes: Tensor | None) -> Tensor:
    """Cross-entropy, or `set_loss` for label sets, over `classes`, as in `among`."""
    if y.ndim == 2:
        return set_loss(logits, y, classes)
    return cross_entropy(among(logits, classes, y), y)


def among(logits: Tensor, classes: Tensor | None, y: Tensor | None = None) -> Tensor:
    """Logits (b, C) with -inf for classes that the loss leaves out; None: as they are.

    `classes` are (k,) class numbers, the same for all samples; or (C, C) bool, row c the classes of
    the head of class c, where a sample of class c in `y` (b,) has those.
    """
    if classes is None:
        return logits
    if classes.dtype == torch.bool:
        assert y is not None
        return logits.masked_fill(~classes[y], -math.inf)
    return logits + logits.new_full(logits.shape[1:], -math.inf).index_fill(0, classes, 0.0)


def loss_mask(session: Session, device: str) -> Tensor | None:
    """(C,) 0 for classes that the loss may use, -inf for the others; None if it may use all."""
    allowed = session.loss_classes
    return None if allowed is None else only(allowed.nonzero()[0].tolist(), len(allowed), device)


def loss_classes(session: Session, device: str) -> Tensor | None:
    """(k,) the classes that the loss may use; None if it may use all."""
    if session.loss_classes is None:
        return None
    return torch.from_numpy(session.loss_classes.nonzero()[0]).to(device)


# --- against forgetting: distillation and quadratic penalties ---


def distillation(logits: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """Cross-entropy of softmax(logits/T) under softmax(targets/T), mean over samples, nats.

    Both are (n, k), of the new and the old network for the old classes.

    **Source**: Hinton et al. (2015), as in Li and Hoiem (2016). Not multiplied by T².
    """
    return cross_entropy(logits / temperature, torch.softmax(targets / temperature, dim=1))


def distilling_loss(
    net: nn.Module,
    classes: Tensor | None,
    heads: Sequence[list[int]],
    temperature: float,
    weights: tuple[float, float],
    corrected: Callable[[Tensor], Tensor] = lambda logits: logits,
) -> Objective:
    """Cross-entropy and the distillation of a copy of the net, weighted.

    The cross-entropy is over `classes`, as in `among`. Each of `heads`, some classes, is distilled
    with a softmax of its own; if all are empty, the cross-entropy alone is left.
    `corrected` maps the logits of both nets to answers.
    """
    teacher, (plain, distilled) = copy.deepcopy(net), weights
    heads = [head for head in heads if head]

    def loss(x: Tensor, y: Tensor) -> Tensor:
        logits = corrected(net(x))
        total = batch_loss(logits, y, classes)
        if not heads:
            return total
        before = corrected(predict(teacher, x))
        total = plain * total
        for head in heads:
            total = total + distilled * distillation(logits[:, head], before[:, head], temperature)
        return total

    return loss


def soft_targets(y: Tensor, before: Tensor, old: list[int]) -> Tensor:
    """Labels y (b,) or (b, C) as (b, C) floats; those of `old` are the sigmoids of `before`."""
    targets = (y if y.ndim == 2 else one_hot(y, before.shape[1])).to(before.dtype)
    targets[:, old] = torch.sigmoid(before[:, old])
    return targets


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
