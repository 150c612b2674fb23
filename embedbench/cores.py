"""How many cores a run may use."""

from __future__ import annotations

import os


def cores() -> int:
    """The cores this process may run on, at most OMP_NUM_THREADS where that is set."""
    try:
        mine = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        mine = os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(mine, int(limit)) if limit.isdigit() and int(limit) else mine
