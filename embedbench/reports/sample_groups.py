"""The groups of test samples in a table: from any run whose answers hold them.

Answers that were imported, or kept plain, hold no groups; those of other runs on the stream do. A
sample is known by its id, the same in every run of a stream.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from embedbench.array_types import Ints


@dataclass
class SampleGroups:
    """The group of each test sample, as the runs that were read say."""

    known: dict[int, int] = field(default_factory=dict)  # id → group
    disagree: bool = False
    read: set[bytes] = field(default_factory=set)  # lists of ids and groups that are in `known`

    def of_samples(self, ids: Ints, group: Ints | None) -> Ints | None:
        """(n,) groups of the samples of a run, its own if it has them; None if some are unknown."""
        if group is not None:
            both = ids.tobytes() + group.tobytes()
            if both in self.read:
                return group
            self.read.add(both)
            for sample, number in zip(ids.tolist(), group.tolist(), strict=True):
                self.disagree |= self.known.setdefault(sample, number) != number
            return group
        numbers = [self.known.get(sample) for sample in ids.tolist()]
        return None if None in numbers else np.array(numbers, dtype=np.int64)

    def find_fault(self, grouped: Iterable[bool]) -> str:
        """Why samples have to count although some run has groups; "" where they need not.

        `grouped` says of each run whether it was taken apart by groups.
        """
        if self.disagree:
            return "the runs disagree on the groups"
        several = len(set(grouped)) > 1
        return "some runs have samples of no known group" if several else ""
