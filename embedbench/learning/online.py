"""Steps on the batches of an online stream, the same for all learners with a memory."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from embedbench.config.declared_settings import at_least, later

from .learner import Learner

UPDATES = 10  # the default: with ten samples a batch, a step for each sample


@dataclass
class OnlineLearner(Learner):
    """Base of learners that take steps on each batch of an online stream, and then store it.

    Parameters
    ----------
    updates : int
        Steps on each batch, each with its own draw from memory. Not for whole sessions.

    Notes
    -----
    **Departs**: most papers take one step, on streams of many thousand samples; a stream of a few
    hundred is not learned by it. docs/fidelity.md has the files that 10 was chosen on.
    """

    updates: Annotated[int, at_least(1, 1000)] = later(UPDATES, earlier=1)

    def observe(self, x: Tensor, y: Tensor) -> None:
        for _ in range(self.updates):
            self.step(x, y)
        self.store(x, y)

    @abstractmethod
    def step(self, x: Tensor, y: Tensor) -> None:
        """One step on a batch x (b, D), y (b,), and on samples from memory."""

    @abstractmethod
    def store(self, x: Tensor, y: Tensor) -> None:
        """Offer a batch to the memory, once, after its last step."""
