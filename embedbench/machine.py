"""What this process may take of the machine: cores, and memory that is freed and needed again."""

from __future__ import annotations

import ctypes
import os

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # mallopt(3)
SMALLEST_RETURNED = 1 << 30  # bytes


def keep_freed_memory() -> None:
    """Let glibc keep what is freed, in blocks of up to 1 GiB; elsewhere, do nothing.

    A network's activations are freed and needed again step after step. By default their memory goes
    back to the kernel in between, which fills every page with zeros before it gives it out again: a
    quarter to two fifths of the time of a small network on a CPU. The process holds its memory
    longer, and at its height up to 6 % more (benchmarks/RESULTS.md).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (TypeError, OSError, AttributeError):  # Windows; macOS and musl
        return
    mallopt(MMAP_THRESHOLD, SMALLEST_RETURNED)
    mallopt(TRIM_THRESHOLD, SMALLEST_RETURNED)


def cores() -> int:
    """The cores this process may run on, at most OMP_NUM_THREADS where that is set."""
    try:
        mine = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        mine = os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(mine, int(limit)) if limit.isdigit() and int(limit) else mine
