"""In a worker process: each has one workshop, which its tasks share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .work import StreamCache

_WORKSHOP = StreamCache()  # of this worker; the main process passes its workshop as an argument


def in_worker(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function with the workshop of this worker; submit this to an executor."""
    return function(*args, workshop=_WORKSHOP)
