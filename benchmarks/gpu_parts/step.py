"""The steps of a part, each measured by itself, and the figures that they return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One line of the table: what was measured, the result with its unit, and its aim."""

    what: str
    figure: str
    aim: str = ""  # "" and None: there is no aim
    holds: bool | None = None
    note: str = ""
    values: dict[str, Any] = field(default_factory=dict)  # the result as plain numbers


@dataclass
class Bench:
    """The environment of a step: "cuda" or, in a test, "cpu"; `toy`: everything small."""

    device: str
    toy: bool
    scratch: Path  # shared by the steps of a part, and removed afterwards

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
    """One measurement, called part/…/…, and the seconds that it is expected to take on a card."""

    name: str
    seconds: float
    run: Callable[[Bench], Sequence[Figure]]

    @property
    def part(self) -> str:
        """The first word of the name."""
        return self.name.partition("/")[0]
