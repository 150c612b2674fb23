"""Callbacks of long work: the types of `progress` and `notify`."""

from collections.abc import Callable

Progress = Callable[[int, int], None]  # (done, total)
StageProgress = Callable[[str, int, int], None]  # (stage, done, total)
Notify = Callable[[str], None]  # a message to the user
