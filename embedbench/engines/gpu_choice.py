"""Which GPU a worker of this machine takes: they share the cards in turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from embedbench.errors import UserError


@contextmanager
def enough_memory(device: str) -> Iterator[None]:
    """Within this context a card without enough memory is one sentence.

    Parameters
    ----------
    device : str
        Where the work is done.

    Raises
    ------
    UserError
        The card has not enough memory.
    """
    import torch

    try:
        yield
    except torch.OutOfMemoryError as error:
        reason = str(error).partition(". GPU ")[0].removeprefix("CUDA out of memory. ")
        raise UserError(
            f"{device} has not enough memory ({reason}); let fewer runs share a card (--resources "
            "gpus=1 or --jobs 1), make batch_size or the network smaller, or take --device cpu"
        ) from error


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


def choose_card(worker: int, number: int) -> int:
    """The card of the worker with this number: neighbours get different ones.

    Examples
    --------
    >>> [choose_card(worker, 3) for worker in range(5)]
    [0, 1, 2, 0, 1]
    """
    return worker % number
