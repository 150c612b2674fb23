"""Which GPU a worker of this machine takes: they share the cards in turn."""

from __future__ import annotations

from embedbench.errors import UserError


def cards() -> int:
    """The number of GPUs of this machine."""
    import torch

    return torch.cuda.device_count()


def at_once(share: float, number: int) -> int:
    """How many tasks that take a share of a card fit on a number of cards.

    Examples
    --------
    >>> at_once(0.25, 2), at_once(0.3, 2), at_once(1.0, 4)
    (8, 6, 4)
    """
    if not number:
        raise UserError("--resources gpus asks for a GPU, and this machine has none; leave it out")
    return number * int(1 / share + 1e-9)


def card_of(worker: int, number: int) -> int:
    """The card of the worker with this number: neighbours get different ones.

    Examples
    --------
    >>> [card_of(worker, 3) for worker in range(5)]
    [0, 1, 2, 0, 1]
    """
    return worker % number
