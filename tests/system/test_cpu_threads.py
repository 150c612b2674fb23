"""Arithmetic has its threads, and so many cores as the process may use."""

import os
import re
from contextlib import suppress

import pytest
import torch
from threadpoolctl import threadpool_info

from embedbench.system.cpu_threads import LIMITS, cores, limit_threads


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
                assert set(_threads()[0].values()) == {1}
                assert _threads()[1] == {"1"}
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
