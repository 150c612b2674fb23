"""A pickle that runs a command, for files that must not be unpickled."""

import os
import shlex
from pathlib import Path
from typing import Any


class Hostile:
    """Makes the file `path` when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch {shlex.quote(str(self.path))}",)
