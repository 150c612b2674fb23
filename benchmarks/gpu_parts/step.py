"""The steps of a part, each measured by itself, and the figures that they return."""

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
        What was measured, in words.
    figure : str
        The result, with its unit.
    aim : str
        What it should be; "" if there is no aim.
    holds : bool or None
        Whether the aim is met; None if there is no aim.
    note : str
        An explanation, or further facts.
    values : dict
        The result as plain numbers.
    """

    what: str
    figure: str
    aim: str = ""
    holds: bool | None = None
    note: str = ""
    values: dict[str, Any] = field(default_factory=dict)


@dataclass
class Bench:
    """The environment of a step.

    Parameters
    ----------
    device : str
        "cuda", or "cpu" in a test.
    toy : bool
        Everything small, so that it runs on a CPU in seconds.
    scratch : Path
        A directory that the steps of a part share; it is removed afterwards.
    kept : dict
        Values that earlier steps stored for comparison, by card and then by name; JSON.
    left : dict
        Values that this step stores for comparison, by name; JSON.
    """

    device: str
    toy: bool
    scratch: Path
    kept: dict[str, dict[str, Any]] = field(default_factory=dict)
    left: dict[str, Any] = field(default_factory=dict)

    @property
    def on_card(self) -> bool:
        """Whether the device is a card."""
        return self.device.startswith("cuda")

    def wait(self) -> None:
        """Wait until the card has finished its work."""
        if self.on_card:
            import torch

            torch.cuda.synchronize(self.device)


@dataclass(frozen=True)
class Step:
    """One measurement.

    Parameters
    ----------
    name : str
        Name of the form part/…/….
    seconds : float
        Expected duration on the card; the step does not begin if less time is left.
    run : callable
        Function that takes the measurement.
    needs : tuple of str
        Modules without which the step is left out.
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
        """The needed modules that are missing."""
        return [name for name in self.needs if not there(name)]


def there(module: str) -> bool:
    """Whether a module could be imported; it is not imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # the module is blocked or damaged
        return False


def joules_text(joules: float) -> str:
    """Joules as text for a note; NaN means unknown."""
    return "joules unknown" if math.isnan(joules) else f"{joules:,.0f} J"
