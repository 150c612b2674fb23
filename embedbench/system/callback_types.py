"""Types of callbacks of long work: `progress` and `notify`."""

from collections.abc import Callable
from typing import TypedDict

Progress = Callable[[int, int], None]  # (done, total)
StageProgress = Callable[[str, int, int], None]  # (stage, done, total)
Notify = Callable[[str], None]  # a message to the user


class Callbacks(TypedDict, total=False):
    """Both, for functions that pass them on."""

    progress: Progress
    notify: Notify
