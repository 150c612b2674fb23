"""A pool of processes of this machine; they end with the process that began them."""

import ctypes
import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import active_children, get_context, parent_process
from typing import Any

from embedbench.system.keep_freed_memory import keep_freed_memory

from .engine_tasks import LostTaskError, call_packed, pack_call

PARENT_DEATH_SIGNAL = 1  # prctl(2)
TRIES = 2  # of a task whose process ended

_worker: int | None = None  # the number of this worker; None in any other process


class LocalExecutor(ThreadPoolExecutor):
    """Processes that take one task after the other.

    Each belongs to a thread, which replaces it if it ends. So a task that kills its process costs
    no other task anything.
    """

    def __init__(self, processes: int) -> None:
        self._numbers = itertools.count()
        self._thread = threading.local()
        self._pools: dict[int, ProcessPoolExecutor] = {}  # of one process each, by its number
        self._others = active_children()
        self._stops = False  # nothing begins any more
        super().__init__(processes, "worker", self._number_thread)

    def _number_thread(self) -> None:
        self._thread.number = next(self._numbers)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn(*args, **kwargs)` in the first process that is free."""
        return super().submit(self._run, fn, args, kwargs)

    def _run(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call in the process of this thread; if that ends, once more in a new one."""
        number: int = self._thread.number
        call = pack_call(fn, args, kwargs)
        for _ in range(TRIES):
            if number not in self._pools:
                context = get_context("spawn")
                pool = ProcessPoolExecutor(1, context, initializer=_begin, initargs=(number,))
                self._pools[number] = pool
            try:
                return self._pools[number].submit(call_packed, call).result()
            except BrokenProcessPool:
                self._pools.pop(number).shutdown()
                if self._stops:
                    break
        raise LostTaskError(TRIES)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes when they have done their tasks."""
        super().shutdown(wait, cancel_futures=cancel_futures)
        for pool in list(self._pools.values()) if wait else ():
            pool.shutdown()

    def stop(self) -> None:
        """End the processes at once, in the middle of their tasks."""
        self._stops = True
        ender = threading.Thread(target=self.shutdown, kwargs={"cancel_futures": True})
        ender.start()
        while ender.is_alive():
            for process in active_children():
                if process not in self._others:  # one may just have been started
                    process.terminate()
            ender.join(0.01)


@contextmanager
def local_executor(processes: int) -> Iterator[Executor]:
    """Processes of this machine; Ctrl-C stops them, and they end if this process does."""
    executor = LocalExecutor(processes)
    try:
        yield executor
    except KeyboardInterrupt:
        executor.stop()
        raise
    finally:
        executor.shutdown(cancel_futures=True)


def use_card(device: str) -> None:
    """In a worker: let "cuda" be the next card in turn, and not the first one for all workers."""
    if device == "cuda" and _worker is not None:
        import torch

        torch.cuda.set_device(_worker % cards())


def cards() -> int:
    """The number of GPUs of this machine."""
    import torch

    return torch.cuda.device_count()


def _begin(number: int) -> None:
    """Make this process the worker with this number."""
    global _worker
    _worker = number
    keep_freed_memory()
    end_with_parent()


def end_with_parent() -> None:
    """Let this process end when its parent has, whatever ended it.

    Nothing else does: a worker waits for work from a pipe that it holds open itself. A thread waits
    for the end of the parent. It needs Python's lock, which compiled code can keep for long, so on
    Linux the kernel is asked too. The kernel looks at the thread that began this process: that is
    a thread of `LocalExecutor`, which outlives its process.
    """
    parent = parent_process()
    if parent is None:
        return
    threading.Thread(target=_end_after, args=(parent,), name="parent", daemon=True).start()
    with suppress(TypeError, OSError, AttributeError):  # not on Linux
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _end_after(parent: Any) -> None:
    parent.join()  # returns at once if it has ended already
    os._exit(1)
