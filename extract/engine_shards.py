"""Shards of an extraction: ranges of blocks are the tasks of an engine.

Every task opens source and backbone once in its process, and writes its blocks beside the file. So
all machines must see the file's directory. Leases and the blocks themselves say what is left to do:
what a lost machine was at is computed again.
"""

import os
import platform
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import torch

from embedbench.engines.local_pool import use_card
from embedbench.errors import UserError
from embedbench.files.output_path import Target
from embedbench.files.resumable_file import Partial

from .extraction_work import ExtractionWork, Facts, Job, MissingBlocks, arithmetic_settings
from .source import Source

BLOCKS = 16  # most blocks of a task
TASKS = 64  # tasks that are made where there are blocks enough
LOOK = 1.0  # seconds between two looks at the blocks

_T = TypeVar("_T")

_opened: dict[Job, ExtractionWork] = {}  # the work of this process: its model stays loaded


def work_for(job: Job, host: str, function: Callable[..., _T], *args: Any) -> _T:
    """In a worker: call a function with the work of a job, which computer `host` asks for.

    A sentence of another computer begins with its name.
    """
    try:
        work = _work(job)
        with arithmetic_settings(work.threads):
            return function(work, *args)
    except UserError as error:
        if platform.node() == host:
            raise
        raise UserError(f"on host {platform.node()}: {error}") from error


def fill_range(
    work: ExtractionWork, target: Target, first: dict[str, Any], origin: str, blocks: Sequence[int]
) -> None:
    """In a worker: compute the blocks of a range that no other process has made or is at.

    `first` is the job that all processes must agree with, `origin` the `Partial.origin` of the
    directory of blocks.
    """
    _check_same(work.facts().job, first)
    partial = Partial.joined(target, first, origin)
    with partial.at_work():
        work.fill_some(partial, blocks)


def _work(job: Job) -> ExtractionWork:
    """Open source and backbone, or return them as they were opened by this process."""
    if job not in _opened:
        _opened.clear()
        with suppress(OSError):  # a machine without it may still have what is asked for
            os.chdir(job.directory)
        here = job
        if job.device in ("auto", "cuda") and torch.cuda.is_available():
            use_card("cuda")
            here = replace(job, device=f"cuda:{torch.cuda.current_device()}")
        _opened[job] = here.work(here.open_source())
    return _opened[job]


def _check_same(here: dict[str, Any], first: dict[str, Any]) -> None:
    """Refuse a process whose rows would have other bits, or be of other samples."""
    keys = sorted(key for key in first if here.get(key) != first[key])
    if keys:
        differ = ", ".join(f"{key}: {here.get(key)!r}, not {first[key]!r}" for key in keys[:1])
        remedy = (
            "take machines of one kind, or add --allow-mixed-devices"
            if keys == ["device"]
            else "give all machines the same data and versions"
        )
        raise UserError(f"a worker differs in {', '.join(keys)} ({differ}); {remedy}.")


class Shards:
    """The work of an engine's workers, in the place of `ExtractionWork`."""

    def __init__(self, job: Job, source: Source, executor: Executor) -> None:
        self.job, self.source, self._executor = job, source, executor
        self._first: dict[str, Any] = {}

    def facts(self) -> Facts:
        """Return what a worker knows of the work: the model is loaded there, not here."""
        facts: Facts = self._ask(ExtractionWork.facts)
        if facts.job["samples"] != self.source.digest:
            raise UserError(
                f"the workers read other samples from {self.job.source} than this process; "
                "give all machines the same data."
            )
        self._first = facts.job
        return facts

    def precision(self, rows: Sequence[int]) -> float | None:
        """See `ExtractionWork.precision`."""
        cosine: float | None = self._ask(ExtractionWork.precision, list(rows))
        return cosine

    def fill(self, blocks: MissingBlocks, free: Sequence[int]) -> None:
        """Have free blocks computed. A task that fails twice ends the work with its sentence."""
        partial = blocks.partial
        target = replace(partial.target, path=partial.path.absolute())
        shard = fill_range, target, self._first, partial.origin
        failed: set[tuple[int, ...]] = set()
        waiting = {self._submit(*shard, part): part for part in ranges(free)}
        try:
            while waiting:
                done, _ = wait(waiting, timeout=LOOK, return_when=FIRST_COMPLETED)
                for future in done:
                    part = waiting.pop(future)
                    error = future.exception()
                    if error is not None and part in failed:
                        raise _sentence(error) from error
                    if error is not None:
                        failed.add(part)
                        waiting[self._submit(*shard, part)] = part
                blocks.look()
        finally:
            for future in waiting:
                future.cancel()

    def _ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return what a worker answers."""
        try:
            return self._submit(function, *args).result()
        except Exception as error:
            raise _sentence(error) from error

    def _submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        try:
            return self._executor.submit(work_for, self.job, platform.node(), function, *args)
        except BrokenExecutor as error:
            raise _sentence(error) from error


def ranges(blocks: Sequence[int]) -> list[tuple[int, ...]]:
    """Cut blocks into tasks.

    >>> ranges([0, 1, 5])
    [(0,), (1,), (5,)]
    >>> len(ranges(range(100))), len(ranges(range(2000)))
    (50, 125)
    """
    size = min(BLOCKS, -(-len(blocks) // TASKS))
    return [tuple(blocks[at : at + size]) for at in range(0, len(blocks), size)]


def _sentence(error: BaseException) -> UserError:
    """Return what ends the command, for an error of a task."""
    if isinstance(error, UserError):
        return error
    reason = str(error).strip().rpartition("\n")[2]
    return UserError(
        f"a part of the extraction failed ({type(error).__name__}: {reason}); the parts that are "
        "done are kept: run the command again to go on."
    )
