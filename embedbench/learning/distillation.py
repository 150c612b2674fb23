"""Distillation: keeping old classes by the answers of the old network."""

import math
from collections.abc import Collection

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy


def distillation(logits: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """Cross-entropy of softmax(logits/T) under softmax(targets/T), mean over samples, nats.

    **Source**: Hinton et al. (2015), as in Li and Hoiem (2016). Not multiplied by T².

    Parameters
    ----------
    logits, targets : Tensor
        (n, k) logits of the new and the old network for the old classes.
    temperature : float
        T.
    """
    return cross_entropy(logits / temperature, torch.softmax(targets / temperature, dim=1))


def only(classes: Collection[int], n_classes: int, device: str) -> Tensor:
    """(C,) 0 for `classes`, -inf for the others; added to logits, it masks all other classes."""
    mask = torch.full((n_classes,), -math.inf, device=device)
    mask[sorted(classes)] = 0
    return mask
