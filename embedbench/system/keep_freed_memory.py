"""Keep freed memory in this process instead of giving it back to the kernel."""

import ctypes

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
