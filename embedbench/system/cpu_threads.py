"""CPU threads: the cores this process may use, and a limit on the threads of arithmetic."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
MOST_THREADS = 1024


def cores() -> int:
    """The number of cores this process may use; at most OMP_NUM_THREADS if that is set."""
    try:
        mine = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        mine = os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    is_number = limit.isdecimal() and len(limit) < 10  # Python reads no thousands of digits
    return min(mine, int(limit)) if is_number and int(limit) else mine


@contextmanager
def limit_threads(number: int) -> Iterator[None]:
    """Within this context arithmetic takes `number` threads, whatever the machine and its user set.

    Threads share a long sum among them, so their number decides its last bits. This sets torch and
    the libraries of BLAS and OpenMP that are loaded; one that is loaded inside reads the number
    from the environment.
    """
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    given = {name: os.environ.get(name) for name in LIMITS}
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
