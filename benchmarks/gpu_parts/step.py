"""What a part is made of: steps, each measured by itself, and the figures that they find."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One line of the table.

    Parameters
    ----------
    what : str
        Was measured, in words.
    figure : str
        With its unit.
    aim : str
        What it should be; "" where nothing was promised.
    holds : bool or None
        Whether the aim is met; None where there is none.
    note : str
        Why, or what else to know.
    values : dict
        The same as plain numbers.
    """

    what: str
    figure: str
    aim: str = ""
    holds: bool | None = None
    note: str = ""
    values: dict[str, Any] = field(default_factory=dict)


@dataclass
class Bench:
    """What a step is given.

    Parameters
    ----------
    device : str
        "cuda", or "cpu" in a test.
    toy : bool
        Everything small, so that it runs on a CPU in seconds.
    scratch : Path
        A directory that the steps of a part share; it is gone afterwards.
    kept : dict
        What earlier steps left for comparison, by card and then by name; JSON.
    left : dict
        What this step leaves, by name; JSON.
    """

    device: str
    toy: bool
    scratch: Path
    kept: dict[str, dict[str, Any]] = field(default_factory=dict)
    left: dict[str, Any] = field(default_factory=dict)

    @property
    def on_card(self) -> bool:
        """Whether there is anything to wait for and to count."""
        return self.device.startswith("cuda")

    def wait(self) -> None:
        """Let the card finish what it was given."""
        if self.on_card:
            import torch

            torch.cuda.synchronize(self.device)


@dataclass(frozen=True)
class Step:
    """One measurement.

    Parameters
    ----------
    name : str
        part/…/…
    seconds : float
        It is expected to take on the card; it is not begun where less is left.
    run : callable
        Does it.
    needs : tuple of str
        Modules without which it is left out.
    """

    name: str
    seconds: float
    run: Callable[[Bench], Sequence[Figure]]
    needs: tuple[str, ...] = ()

    @property
    def part(self) -> str:
        """The first word of the name."""
        return self.name.partition("/")[0]

    def missing(self) -> list[str]:
        """Those of the modules needed that are not there."""
        return [name for name in self.needs if not there(name)]


def there(module: str) -> bool:
    """Whether a module can be imported; it is not."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # what blocks a module, or is half there
        return False


def joules_text(joules: float) -> str:
    """Joules for a note; NaN where they are unknown."""
    return "joules unknown" if math.isnan(joules) else f"{joules:,.0f} J"
