"""The machine: cores, threads, memory that this process keeps, processes that are alive."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # mallopt(3)
SMALLEST_RETURNED = 1 << 30  # bytes
LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
MOST_THREADS = 1024


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
    return min(mine, int(limit)) if limit.isdecimal() and int(limit) else mine


@contextmanager
def limit_threads(number: int) -> Iterator[None]:
    """Within this context arithmetic takes `number` threads, whatever the machine and its user set.

    Threads share a long sum among them, so their number decides its last bits. This sets torch and
    the libraries of BLAS and OpenMP that are loaded; one that is loaded inside reads the number
    from the environment.
    """
    import torch
    from threadpoolctl import threadpool_limits

    before, given = torch.get_num_threads(), {name: os.environ.get(name) for name in LIMITS}
    os.environ.update(dict.fromkeys(LIMITS, str(number)))
    try:
        with threadpool_limits(number):
            torch.set_num_threads(number)
            yield
    finally:
        torch.set_num_threads(before)
        for name, value in given.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def system() -> str:
    """The machine since it was started, and its processes that can be seen; empty if not known."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def process_start(pid: int) -> str:
    """When a process was started, `ended` for one that has ended; empty if not known."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return "ended" if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        return ""
