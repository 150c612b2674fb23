"""Freed memory is kept: taken again, it costs no page faults. Arithmetic has its threads."""

import ctypes
import os
import platform
import re
import resource
from contextlib import suppress
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from commands import CONTEXT
from threadpoolctl import threadpool_info

from embedbench.system.compiled_loops import compile_loops
from embedbench.system.cpu_threads import LIMITS, cores, limit_threads
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


def _threads() -> tuple[dict[str, int], set[str], dict[str, str | None]]:
    """Threads of every library of BLAS and OpenMP, of torch, and what the environment says."""
    libraries = {library["filepath"]: library["num_threads"] for library in threadpool_info()}
    torchs = re.findall(r"(?:num|max)_threads\(\) : (\d+)", torch.__config__.parallel_info())
    return libraries, set(torchs), {name: os.environ.get(name) for name in LIMITS}


def test_threads_inside_and_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    torch.set_num_threads(torch.get_num_threads())  # from now on its MKL follows OpenMP no more
    before = _threads()
    assert any("blas" in name for name in before[0])
    assert any("omp" in name for name in before[0])
    for number in (3, 2):  # more than there are cores, whatever OMP_NUM_THREADS says
        with suppress(ZeroDivisionError), limit_threads(number):
            inside = _threads()
            assert set(inside[0].values()) == {number}
            assert inside[1] == set(inside[2].values()) == {str(number)}
            with limit_threads(1):
                assert (set(_threads()[0].values()), _threads()[1]) == ({1}, {"1"})
            assert _threads() == inside
            raise ZeroDivisionError
        assert _threads() == before


@pytest.mark.parametrize("limit", [None, "", "0", "1", "many", "100000", "9" * 5000])
def test_cores_at_most_as_omp_says(limit: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", {0: {0, 1, 5}}.get, raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if limit is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", limit)
    assert cores() == (1 if limit == "1" else 3)
    monkeypatch.delattr(os, "sched_getaffinity")  # as on macOS and Windows
    for count, found in ((5, 5), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda count=count: count)
        assert cores() == (1 if limit == "1" else found)


def test_loops_are_compiled_where_their_code_cannot_be_kept(monkeypatch: Any) -> None:
    def add(a: float, b: float) -> float:
        return a + b

    for places in ([], [1]):  # nowhere; numba's own
        with monkeypatch.context() as m:
            if not places:
                m.setattr("numba.core.caching.CacheImpl._locator_classes", [])
            made = compile_loops("nnan")(add)
        assert (made(2, 3), len(made.signatures), made.targetoptions["nogil"]) == (5, 1, True)
        assert made.targetoptions["fastmath"] == {"reassoc", "contract", "nnan"}
        assert (made.stats.cache_path is None) == (not places)
