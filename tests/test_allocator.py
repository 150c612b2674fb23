"""Freed memory is kept: taken again, it costs no page faults."""

from __future__ import annotations

import platform
import resource
from multiprocessing.connection import Connection

import pytest
import torch
from commands import CONTEXT

from embedbench.allocator import keep_freed_memory

MB = 2**18  # float32


def _faults(kept: bool, told: Connection) -> None:
    """Send the page faults of a block that is taken, filled and freed again and again."""
    if kept:
        keep_freed_memory()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(50 * MB)  # above 32 MB glibc asks the kernel each time, as it is by default
    told.send(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)


def _counted(kept: bool) -> int:
    here, there = CONTEXT.Pipe()
    process = CONTEXT.Process(target=_faults, args=(kept, there))
    process.start()
    found: int = here.recv()
    process.join()
    return found


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="elsewhere it does nothing")
def test_blocks_that_are_freed_and_taken_again_are_not_had_from_the_kernel_again() -> None:
    # by default on every page in each of the ten rounds, or once where they are kept
    assert _counted(True) < 0.2 * _counted(False)


def test_it_may_be_called_twice() -> None:
    keep_freed_memory()
    keep_freed_memory()
