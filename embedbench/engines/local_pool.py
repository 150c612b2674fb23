"""A pool of processes of this machine; they end with the process that began them."""

import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import active_children, get_context, parent_process
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from embedbench.system.keep_freed_memory import keep_freed_memory

from .task_endings import LostTaskError

PARENT_DEATH_SIGNAL = 1  # prctl(2)
TRIES = 2  # of a task whose process ended

_worker: int | None = None  # the number of this worker; None in any other process
_Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class LocalExecutor(Executor):
    """Processes that take one task after the other.

    Each belongs to a thread, which replaces it if it ends. So a task that kills its process costs
    no other task anything.
    """

    def __init__(self, processes: int) -> None:
        self._waiting: SimpleQueue[tuple[Future[Any], _Call] | None] = SimpleQueue()
        self._others = active_children()
        self._ends = False  # nothing is taken any more
        self._stops = False  # nothing begins any more
        self._threads = [
            Thread(target=self._serve, args=(number,), name=f"worker {number}", daemon=True)
            for number in range(processes)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn(*args, **kwargs)` in the first process that is free."""
        if self._ends:
            raise RuntimeError("this executor was shut down")
        future: Future[Any] = Future()
        self._waiting.put((future, (fn, args, kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes when they have done their tasks."""
        self._ends = True
        while cancel_futures:
            try:
                task = self._waiting.get_nowait()
            except Empty:
                break
            if task is not None:
                task[0].cancel()
        for _ in self._threads:
            self._waiting.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def stop(self) -> None:
        """End the processes at once, in the middle of their tasks."""
        self._stops = True
        self.shutdown(wait=False, cancel_futures=True)
        while any(thread.is_alive() for thread in self._threads):
            for process in active_children():
                if process not in self._others:  # one may just have been started
                    process.terminate()
            self._threads[0].join(0.01)

    def _serve(self, number: int) -> None:
        """Hand tasks to the process of this thread."""
        pool = _pool(number)
        while (task := self._waiting.get()) is not None:
            future, (fn, args, kwargs) = task
            if not future.set_running_or_notify_cancel():
                continue
            error: BaseException = LostTaskError(TRIES)
            for _ in range(TRIES):
                try:
                    result = pool.submit(fn, *args, **kwargs).result()
                except BrokenProcessPool:
                    pool.shutdown()
                    pool = _pool(number)
                    if self._stops:
                        break
                except BaseException as raised:
                    error = raised
                    break
                else:
                    future.set_result(result)
                    break
            if not future.done():
                future.set_exception(error)
        pool.shutdown()


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


def _pool(number: int) -> ProcessPoolExecutor:
    context = get_context("spawn")
    return ProcessPoolExecutor(1, context, initializer=_begin, initargs=(number,))


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
    Thread(target=_end_after, args=(parent,), name="parent", daemon=True).start()
    with suppress(TypeError, OSError, AttributeError):  # not on Linux
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _end_after(parent: Any) -> None:
    parent.join()  # returns at once if it has ended already
    os._exit(1)
