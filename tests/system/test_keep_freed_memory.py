"""Freed memory is kept: taken again, it costs no page faults."""

import ctypes
import platform
import resource
from multiprocessing.connection import Connection
from types import SimpleNamespace

import pytest
import torch
from commands import CONTEXT

from embedbench.system.keep_freed_memory import keep_freed_memory

MB = 2**18  # float32


def _faults(kept: bool, told: Connection) -> None:
    """Send the page faults of blocks that are taken, filled and freed, from the third time on."""
    if kept:
        keep_freed_memory()
    for turn in range(6):
        if turn == 3:
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


@pytest.mark.thorough
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="elsewhere it does nothing")
def test_blocks_that_are_freed_and_taken_again_are_not_had_from_the_kernel_again() -> None:
    # by default every page faults each time; of kept ones none does, once there are enough
    assert _counted(True) < 0.2 * _counted(False)


def test_blocks_up_to_one_gib_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[int, int] = {}
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(mallopt=told.setdefault))
    keep_freed_memory()
    assert told == {-3: 2**30, -1: 2**30}  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD of malloc.h
