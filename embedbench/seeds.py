"""The four seeds of a run."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from embedbench.errors import unknown


@dataclass(frozen=True)
class Seeds:
    """Four seeds, drawn from one; each can also be set by itself.

    Parameters
    ----------
    order : int
        The stream (class order, permutations).
    init : int
        Initial weights.
    batches : int
        Order of the samples within a session.
    memory : int
        Which samples a buffer keeps.
    """

    order: int
    init: int
    batches: int
    memory: int

    @classmethod
    def of(cls, seed: int, **fixed: int) -> Seeds:
        """Draw the four from `seed`; `fixed` overrides single ones.

        >>> Seeds.of(0) == Seeds.of(0), Seeds.of(0, order=7).order
        (True, 7)
        """
        names = [f.name for f in dataclasses.fields(cls)]
        for name in fixed:
            if name not in names:
                raise unknown("seed", name, names)
        drawn = np.random.SeedSequence(seed).generate_state(4, dtype=np.uint32)
        return cls(**{n: fixed.get(n, int(v)) for n, v in zip(names, drawn, strict=True)})
