"""Loops that numba compiles once for each machine, where there is a place to keep the code."""

from collections.abc import Callable
from typing import Any


def compile_loops(*fastmath: str) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a function that numba compiles; `fastmath`: what LLVM may assume of its numbers.

    The code is kept beside the source or in the user's cache. Where neither can be written, as in a
    read-only container without a home, every process compiles it anew.
    """

    from numba import njit

    def decorate(function: Callable[..., Any]) -> Any:
        how: dict[str, Any] = {"nogil": True, "fastmath": {"reassoc", "contract", *fastmath}}
        try:
            return njit(cache=True, **how)(function)
        except RuntimeError:  # "no locator available"
            return njit(**how)(function)

    return decorate
