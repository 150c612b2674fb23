"""Tasks for engines; nothing slow is imported to run them."""

import os
import signal
from pathlib import Path
from time import sleep


def die() -> None:
    """Kill this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def write_late(path: str) -> None:
    """Write a file after a second; another one at once."""
    Path(f"{path}.begun").touch()
    sleep(1)
    Path(path).touch()
