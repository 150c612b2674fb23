"""Arithmetic on a card that gives the same bits twice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def repeatable(device: str) -> Iterator[None]:
    """While open, a card repeats its bits; on a CPU nothing changes.

    That is: float32 without TF32, no convolution chosen by timing, and of operations that add in
    any order (`index_add_`, the gradient of `gather`) those that keep one. PyTorch warns of an
    operation that it has no such form of, and goes on.
    """
    if not device.startswith("cuda"):
        yield
        return
    import torch

    deterministic: Any = torch.utils.deterministic  # its settings are no attributes to mypy
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS asks for
    before = torch.get_deterministic_debug_mode(), deterministic.fill_uninitialized_memory
    exact = {"enabled": True, "benchmark": False, "deterministic": True, "allow_tf32": False}
    try:
        torch.set_deterministic_debug_mode("warn")
        deterministic.fill_uninitialized_memory = False  # nothing here reads what it did not write
        with torch.backends.cudnn.flags(**exact):
            yield
    finally:
        torch.set_deterministic_debug_mode(before[0])
        deterministic.fill_uninitialized_memory = before[1]
