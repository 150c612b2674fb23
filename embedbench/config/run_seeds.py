"""Seeds of a run: the four that are drawn from one, lists of them as text, and generators."""

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from embedbench.errors import UserError

from .plain_numbers import has_only_digits
from .typed_calls import check_type

if TYPE_CHECKING:
    import torch

LARGEST = 2**63 - 1  # the largest int64: records, files and generators hold any seed up to it
MOST = 10_000  # the most seeds of one command


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

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            check_seed(value, f"seeds.{name}")

    @classmethod
    def of(cls, seed: int, **fixed: int) -> Self:
        """Draw the four from `seed`; `fixed` overrides single ones.

        >>> Seeds.of(0) == Seeds.of(0), Seeds.of(0, order=7).order
        (True, 7)
        """
        names = [f.name for f in dataclasses.fields(cls)]
        check_seed(seed, "the seed")
        import numpy as np  # `--help` needs none

        drawn = np.random.SeedSequence(seed).generate_state(4, dtype=np.uint32)
        return cls(**{n: fixed.get(n, int(v)) for n, v in zip(names, drawn, strict=True)})


def check_seed(seed: int, name: str) -> None:
    """Refuse a seed outside 0 to 2⁶³ - 1; `name` is what the message calls it."""
    check_type(seed, int, name)
    if not 0 <= seed <= LARGEST:
        raise UserError(name, expected="at least 0 and below 2**63", got=seed)


def parse_seeds(text: str) -> list[int]:
    """Read "0-4", "3" or "0,2,5-7".

    >>> parse_seeds("0-2,7")
    [0, 1, 2, 7]
    """
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (has_only_digits(first) and (has_only_digits(last) or not dash)):
            raise UserError("--seeds", expected="numbers and ranges such as 0-4 or 0,2,5", got=text)
        low = int(first)
        high = int(last or first)
        check_seed(high, "--seeds")
        if len(seeds) + high - low >= MOST:
            raise UserError("--seeds", "give fewer", expected=f"at most {MOST:,} seeds", got=text)
        seeds += range(low, high + 1)
    if not seeds:
        raise UserError(f"--seeds {text!r} names no seed", "give the lower number first")
    return sorted(set(seeds))


def format_seeds(seeds: Sequence[int]) -> str:
    """Write seeds in ascending order as `parse_seeds` reads them.

    >>> format_seeds([0, 1, 2, 7])
    '0-2,7'
    """
    parts = []
    for _, run in itertools.groupby(enumerate(seeds), lambda pair: pair[1] - pair[0]):
        first, *others = (seed for _, seed in run)
        parts.append(f"{first}-{others[-1]}" if others else str(first))
    return ",".join(parts)


def generator(seed: int, *counters: int) -> "torch.Generator":
    """A random generator from `seed` and `counters`; a resumed run gets the same one."""
    import numpy as np  # `--help` needs neither
    import torch

    state = np.random.SeedSequence([seed, *counters]).generate_state(1, dtype=np.uint64)
    return torch.Generator().manual_seed(int(state[0] >> np.uint64(1)))
