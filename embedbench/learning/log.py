"""What one training came to, as a record holds it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Log:
    """What a training came to.

    Parameters
    ----------
    epochs, steps : int
        Epochs trained, and steps of the optimiser.
    stopped : str
        Why it ended: "epochs", "patience", "trained", "lr_min" or "diverged".
    train_loss : float
        Mean loss of the last epoch.
    kept_epoch, kept_steps : int or None
        The epoch whose weights the net has, and the steps up to it; None where the rule looks at no
        validation value, as for `monitor` and `best`.
    monitor : str or None
        What was watched: "loss", "accuracy", "pw_js", or "train_loss" without validation data.
    best : float or None
        The best value of it; NaN where no epoch was looked at.
    lr : float or None
        The learning rate at the end; None where the rule does not lower it.
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
        """The entries that say something, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, entries: dict[str, Any]) -> Log:
        """The log that `to_json` wrote."""
        return cls(**entries)
