"""What is called while work goes on: the types of `progress` and `notify`."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]  # (done, in all)
StageProgress = Callable[[str, int, int], None]  # (what is done, done, in all)
Notify = Callable[[str], None]  # a sentence for the user
