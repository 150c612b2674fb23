"""What this process takes of the machine: CPU cores, and memory that it keeps for reuse."""

from __future__ import annotations

import ctypes
import os

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # mallopt(3)
SMALLEST_RETURNED = 1 << 30  # bytes


def keep_freed_memory() -> None:
    """Let glibc keep freed memory in blocks of up to 1 GiB; without glibc do nothing.

    A network's activations are freed and allocated again at every step. By default the memory goes
    back to the kernel in between, and the kernel fills every page with zeros before it gives it out
    again. For a small network on a CPU this takes a quarter to two fifths of the time. In return,
    the process holds its memory longer, and its peak is up to 6 % higher (benchmarks/RESULTS.md).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (TypeError, OSError, AttributeError):  # Windows; macOS and musl
        return
    mallopt(MMAP_THRESHOLD, SMALLEST_RETURNED)
    mallopt(TRIM_THRESHOLD, SMALLEST_RETURNED)


def cores() -> int:
    """The number of cores this process may use; at most OMP_NUM_THREADS if that is set."""
    try:
        mine = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        mine = os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(mine, int(limit)) if limit.isdigit() and int(limit) else mine
