"""Rehearsal of stored samples by the self-organising maps."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from embedbench.arrays import Ints
from embedbench.config.declared_settings import at_least, check_settings, within


@dataclass(frozen=True)
class Rehearsal:
    """Chooses the samples of a later session: first new ones, then all stored ones.

    Parameters
    ----------
    iterations : int
        Number of draws in a session.
    share : float
        Share of the draws that are replay; these are the last ones of the session.
    draws : str
        How replay is drawn: "balanced" (a class, then one of its samples) or "iid".
    """

    iterations: Annotated[int, at_least(1, 10_000_000)] = 20_000
    share: Annotated[float, within("[0, 1]")] = 0.5
    draws: Literal["balanced", "iid"] = "balanced"

    def __post_init__(self) -> None:
        check_settings(self, "rehearsal")

    def draw(self, y: NDArray[np.int32], new: int, rng: np.random.Generator) -> Ints:
        """Indices of the drawn samples, (iterations,); the last `new` of n stored samples are new.

        Parameters
        ----------
        y : array of int
            (n,) labels of all stored samples.
        """
        n, replayed = len(y), round(self.share * self.iterations)
        first = rng.integers(n - new, n, size=self.iterations - replayed)
        if self.draws == "iid":
            return np.concatenate([first, rng.integers(n, size=replayed)])
        order = np.argsort(y, kind="stable")
        _, starts, counts = np.unique(y[order], return_index=True, return_counts=True)
        c = rng.integers(len(starts), size=replayed)
        return np.concatenate([first, order[starts[c] + rng.integers(counts[c])]])
