"""The result of running a grid."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from embedbench.engines.task import LostTaskError
from embedbench.errors import UserError

from .run_spec import RunSpec


@dataclass
class Outcome:
    """The result of running a grid.

    Parameters
    ----------
    places : list of Path
        Directories of the requested cells that are finished now.
    skipped : int
        Number of cells, references included, that were finished before.
    elsewhere : int
        Number of cells, references included, that other processes finished meanwhile.
    failed : list of tuple
        Pairs (cell, reason), one for each cell that failed.
    bad_input : bool
        Whether every failure came from wrong input.
    """

    places: list[Path] = field(default_factory=list)
    skipped: int = 0
    elsewhere: int = 0
    failed: list[tuple[RunSpec, str]] = field(default_factory=list)
    bad_input: bool = True

    def fail(self, cell: RunSpec, error: Exception) -> None:
        """Note a failure; the other cells continue."""
        named = isinstance(error, UserError | LostTaskError)
        self.failed.append((cell, str(error) if named else f"{type(error).__name__}: {error}"))
        self.bad_input &= isinstance(error, UserError)
