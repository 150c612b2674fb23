"""Worker processes: each has one workshop, and all of them end when the work is stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import Any

from embedbench.machine import keep_freed_memory

from .work import Workshop

_WORKSHOP = Workshop()  # of this worker; the main process passes its workshop as an argument


@contextmanager
def worker_pool(jobs: int) -> Iterator[Executor]:
    """A pool of processes; Ctrl-C stops them.

    Parameters
    ----------
    jobs : int
        The number of processes.
    """
    others = active_children()
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=keep_freed_memory) as pool:
        try:
            yield pool
        except KeyboardInterrupt:
            for process in active_children():
                if process not in others:
                    process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def in_worker(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function with the workshop of this worker; submit this to a pool."""
    return function(*args, workshop=_WORKSHOP)
