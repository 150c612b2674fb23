"""Rehearsal of stored samples by the self-organising maps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from embedbench.arrays import Ints
from embedbench.errors import unknown
from embedbench.fields import at_least, require, within


@dataclass(frozen=True)
class Rehearsal:
    """The samples that a later session draws: first new ones, then all that are stored.

    Parameters
    ----------
    iterations : int
        Draws in a session.
    share : float
        Of them that are replay, at the end of the session.
    draws : str
        Of the replay, "balanced" (a class, then one of its samples) or "iid".
    """

    iterations: int = 20_000
    share: float = 0.5
    draws: str = "balanced"

    def __post_init__(self) -> None:
        if self.draws not in ("balanced", "iid"):
            raise unknown("rehearsal.draws", self.draws, ("balanced", "iid"))
        require(self, "rehearsal", iterations=at_least(1), share=within("[0, 1]"))

    def draw(self, y: NDArray[np.int32], new: int, rng: np.random.Generator) -> Ints:
        """Numbers of the drawn samples, (iterations,); of the stored (n,) the last `new` are new.

        Parameters
        ----------
        y : array of int
            NDArray[np.int32] Labels of all stored samples, (n,).
        """
        n, replayed = len(y), round(self.share * self.iterations)
        first = rng.integers(n - new, n, size=self.iterations - replayed)
        if self.draws == "iid":
            return np.concatenate([first, rng.integers(n, size=replayed)])
        order = np.argsort(y, kind="stable")
        _, starts, counts = np.unique(y[order], return_index=True, return_counts=True)
        c = rng.integers(len(starts), size=replayed)
        return np.concatenate([first, order[starts[c] + rng.integers(counts[c])]])
