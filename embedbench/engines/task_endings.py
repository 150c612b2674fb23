"""How the process of a task ends early: lost each time it was tried, or out of time."""

from threading import Event


class LostTaskError(Exception):
    """A task whose process ended each time it was tried."""

    def __init__(self, times: int, more: str = "") -> None:
        super().__init__(
            f"the process that ran it ended {times} times; was it killed, or out of memory?{more}"
        )


class TimeUpError(Exception):
    """The time of this process is nearly over; what its task has done is saved."""


ends_soon = Event()  # a task of this process is to save what it has done, and raise TimeUpError
