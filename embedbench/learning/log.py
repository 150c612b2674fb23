"""The result of one training, as a record stores it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Log:
    """The result of a training.

    Parameters
    ----------
    epochs, steps : int
        Epochs trained, and steps of the optimiser.
    stopped : str
        Why it ended: "epochs", "patience", "perfect", "trained", "lr_min" or "diverged".
    train_loss : float
        Mean loss of the last epoch.
    kept_epoch, kept_steps : int or None
        The epoch whose weights the net has, and the optimiser steps up to it. None where the rule
        uses no validation value; then `monitor` and `best` are None, too.
    monitor : str or None
        The monitored value: "loss", "accuracy", "pw_js", or "train_loss" without validation data.
    best : float or None
        The best monitored value; NaN where no epoch was monitored.
    lr : float or None
        The final learning rate; None where the rule does not lower it.
    """

    epochs: int
    steps: int
    stopped: str
    train_loss: float
    kept_epoch: int | None = None
    kept_steps: int | None = None
    monitor: str | None = None
    best: float | None = None
    lr: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The entries that are not None, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, entries: dict[str, Any]) -> Log:
        """The log that `to_json` wrote."""
        return cls(**entries)
