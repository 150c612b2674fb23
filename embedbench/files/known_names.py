"""What names in other people's data mean: the one place that reads names of parts.

Nothing is guessed elsewhere; what was taken is printed, see `describe_taken`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .sample_metadata import SPLITS, TEST, TRAIN, VAL, Samples

PART_WORDS = {
    "train": TRAIN,
    "training": TRAIN,
    "val": VAL,
    "valid": VAL,
    "validation": VAL,
    "dev": VAL,
    "test": TEST,
    "testing": TEST,
}
_SHARD = re.compile(r"[-_.]\d+([-_.]of[-_.]\d+)?$")  # test-00000-of-00001


def split_role(name: str) -> int | None:
    """Return TRAIN, VAL or TEST for the name of a part of a data set; None for any other name.

    >>> split_role("Training"), split_role("Test-00000-of-00001"), split_role("cats")
    (0, 2, None)
    """
    return PART_WORDS.get(_SHARD.sub("", name.strip().casefold()))


def describe_taken(
    samples: Samples,
    rule: Mapping[str, Any],
    *,
    holds: str = "samples",
    groups: int | None = None,
    columns: Sequence[str] = (),
    left_out: Sequence[str] = (),
) -> str:
    """Return the line that says what was taken of a source: what `import` and `extract` print.

    Parameters
    ----------
    rule : mapping
        How the split was made, as in the provenance (see `train_test_split.split_rule`).
    holds : str
        What a sample is: `samples`, `images`, `sounds`, `texts`.
    groups : int or None
        The number of groups; None: there are none.
    columns : sequence of str
        The optional columns that were taken.
    left_out : sequence of str
        Phrases on what was left out, each with its reason.
    """
    sizes = [(name, int((samples.split == part).sum())) for part, name in enumerate(SPLITS)]
    by = rule.get("rule", "official")
    if by == "hash":
        by = f"{rule['test_fraction']:g} in test by hash of {rule['group']}"
    parts = ", ".join(f"{n:,} {name}" for name, n in sizes if n)
    pieces = [
        f"took {len(samples.ids):,} {holds} of {samples.n_leaves:,} classes",
        f"split ({by}): {parts}",
        f"{groups:,} groups" if groups is not None else "no groups",
    ]
    if columns:
        pieces.append(f"columns {', '.join(columns)}")
    pieces.extend(f"left out {phrase}" for phrase in left_out)
    return "; ".join(pieces) + "."
