"""GPU determinism: arithmetic that gives the same bits every time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def repeatable(device: str) -> Iterator[None]:
    """Within this context a GPU gives the same bits every time; on a CPU nothing changes.

    It means: float32 without TF32, no convolution chosen by timing, and a fixed order of addition
    in operations that otherwise add in any order (`index_add_`, the gradient of `gather`). Where
    PyTorch has no such form of an operation, it warns and continues.
    """
    if not device.startswith("cuda"):
        yield
        return
    import torch

    deterministic: Any = torch.utils.deterministic  # mypy does not know its settings
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # required by cuBLAS
    before = torch.get_deterministic_debug_mode(), deterministic.fill_uninitialized_memory
    exact = {"enabled": True, "benchmark": False, "deterministic": True, "allow_tf32": False}
    try:
        torch.set_deterministic_debug_mode("warn")
        deterministic.fill_uninitialized_memory = False  # no code here reads unwritten memory
        with torch.backends.cudnn.flags(**exact):
            yield
    finally:
        torch.set_deterministic_debug_mode(before[0])
        deterministic.fill_uninitialized_memory = before[1]
