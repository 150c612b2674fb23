"""Freed memory is kept: taken again, it costs no page faults."""

from __future__ import annotations

import platform
import resource
from multiprocessing.connection import Connection

import pytest
import torch
from commands import CONTEXT

from embedbench.machine import keep_freed_memory

MB = 2**18  # float32


def _faults(kept: bool, told: Connection) -> None:
    """Send the page faults of blocks that are taken, filled and freed, from the tenth time on."""
    if kept:
        keep_freed_memory()
    for turn in range(20):
        if turn == 10:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        blocks = [torch.ones(size * MB) for size in (8, 20, 50)]
        del blocks
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
    # by default every page faults each time; of kept ones none does, once there are enough
    assert _counted(True) < 0.2 * _counted(False)
