"""Bounds on the numbers and names in a record, whoever wrote it."""

import math
from collections.abc import Iterable
from pathlib import PurePath

COSTS = 1e15  # seconds or joules
NEAR = 1e-9  # a mean of scores may be above 1 by as much

SEED = "a seed: 0 or more, below 2**63"
SHA256 = "a SHA-256: 64 hexadecimal digits"
SIZE = "a number of bytes: finite, 0 or more"
COST = f"0 to {COSTS:g}, or null"
SCORE = "a score, in 0 to 1, or null"
INSIDE = "a path inside the directory of runs"


def is_sha256(text: str | None) -> bool:
    """Whether a text is a SHA-256 in lower case; None is the digest of no file."""
    return text is None or (len(text) == 64 and set(text) <= set("0123456789abcdef"))


def are_sizes(values: Iterable[float]) -> bool:
    """Whether all are numbers of bytes."""
    return all(0 <= v < math.inf for v in values)


def are_costs(values: Iterable[float | None]) -> bool:
    """Whether all are seconds or joules; those that were not measured are NaN or None."""
    return all(v is None or math.isnan(v) or 0 <= v <= COSTS for v in values)


def are_scores(values: Iterable[float | tuple[float, ...]]) -> bool:
    """Whether all are scores or lists of scores; NaN is undefined."""
    flat = (v for value in values for v in (value if isinstance(value, tuple) else (value,)))
    return all(math.isnan(v) or 0 <= v <= 1 + NEAR for v in flat)


def are_inside(paths: Iterable[str]) -> bool:
    """Whether all paths lead downwards, and are paths."""
    return not any(
        "\0" in p or PurePath(p).is_absolute() or ".." in PurePath(p).parts for p in paths
    )
