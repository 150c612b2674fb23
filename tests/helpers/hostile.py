"""Drawing hostile cases: each has a number, from which alone it is made."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from victim import Outcome

Record = Callable[[str, object], None]


def cases(total: int, share: int, past: Sequence[int] = (), batch: int = 50) -> list[Any]:
    """Ranges of case numbers as parameters: a share for every run, the rest for `make fuzz`.

    Parameters
    ----------
    total, share : int
        Number of all cases, and of those that `make test` runs.
    past : sequence of int
        Cases that failed once; they are run every time.
    """
    first = sorted({*range(share), *past})
    rest = [n for n in range(total) if n not in first]
    batches = [rest[k : k + batch] for k in range(0, len(rest), batch)]
    return [
        pytest.param(first, id="share"),
        *(pytest.param(b, id=f"from-{b[0]}", marks=pytest.mark.fuzz) for b in batches),
    ]


def drawn(kind: str, number: int) -> np.random.Generator:
    """The generator of one case."""
    return np.random.default_rng([*kind.encode(), number])


def judge(
    kind: str, numbers: Iterable[int], trial: Callable[[int], Iterable[Outcome]], record: Record
) -> None:
    """Run cases, count them, and fail with the number and the fault of each that has one."""
    faults = []
    count = 0
    for number in numbers:
        count += 1
        for outcome in trial(number):
            if outcome.fault:
                faults.append(f"{kind} {number}: {outcome.fault}\n{outcome.err[-600:]}")
    record(f"hostile {kind}", count)
    record(f"hostile {kind}: faults", len(faults))
    assert not faults, "\n\n".join(faults)
