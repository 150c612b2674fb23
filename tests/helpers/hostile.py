"""Drawing hostile cases: each has a number, from which alone it is made."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from victim import Outcome


def cases(total: int, share: int, past: Sequence[int] = (), batch: int = 50) -> list[Any]:
    """Ranges of case numbers as parameters: one, a share with THOROUGH=1, the rest for `make fuzz`.

    Parameters
    ----------
    total, share : int
        Number of all cases, and of those that CI runs.
    past : sequence of int
        Cases that failed once; they are run every time.
    """
    often = sorted({*range(share > 0), *past})
    first = [n for n in range(share) if n not in often]
    rest = [n for n in range(total) if n not in [*often, *first]]
    batches = [rest[k : k + batch] for k in range(0, len(rest), batch)]
    return [
        *([pytest.param(often, id="often")] if often else []),
        *([pytest.param(first, id="share", marks=pytest.mark.thorough)] if first else []),
        *(pytest.param(b, id=f"from-{b[0]}", marks=pytest.mark.fuzz) for b in batches),
    ]


def drawn(kind: str, number: int) -> np.random.Generator:
    """The generator of one case."""
    return np.random.default_rng([*kind.encode(), number])


def judge(kind: str, numbers: Iterable[int], trial: Callable[[int], Iterable[Outcome]]) -> None:
    """Run cases; fail with the number and the fault of each that has one."""
    faults = [
        f"{kind} {number}: {outcome.fault}\n{outcome.err[-600:]}"
        for number in numbers
        for outcome in trial(number)
        if outcome.fault
    ]
    assert not faults, "\n\n".join(faults)
