"""Loops are compiled where their code can and where it cannot be kept."""

from typing import Any

from embedbench.system.compiled_loops import compile_loops


def test_loops_are_compiled_where_their_code_cannot_be_kept(monkeypatch: Any) -> None:
    def add(a: float, b: float) -> float:
        return a + b

    for places in ([], [1]):  # nowhere; numba's own
        with monkeypatch.context() as m:
            if not places:
                m.setattr("numba.core.caching.CacheImpl._locator_classes", [])
            made = compile_loops("nnan")(add)
        assert made(2, 3) == 5
        assert len(made.signatures) == 1
        assert made.targetoptions["nogil"] is True
        assert made.targetoptions["fastmath"] == {"reassoc", "contract", "nnan"}
        assert (made.stats.cache_path is None) == (not places)
