"""Runs as TensorBoard's event files: curves by session, and the metrics beside the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from embedbench.errors import UserError
from embedbench.scores.run_record import RunRecord

from .run_data import Run


class TensorBoard:
    """One folder a run, as in the directory of runs.

    Parameters
    ----------
    target : str
        The directory that `tensorboard --logdir` gets.
    """

    def __init__(self, target: str) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UserError(
                "--to tensorboard needs TensorBoard: pip install 'embedbench-cl[tensorboard]'"
            ) from None
        self._make, self._root = SummaryWriter, Path(target)
        self._writer: Any = None
        self._settings: dict[str, Any] = {}

    def cell_started(self, cell: Run) -> None:
        """Begin the run's event file."""
        self._writer = self._make(str(self._root / cell.name))
        row = cell.row()
        wanted = ("learner", "protocol", "seed", "files", "order")
        self._settings = {
            k: v if isinstance(v, bool | str | int | float) else str(v)
            for k, v in row.items()
            if k in wanted or k.startswith(("learner.", "protocol."))
        }
        self._writer.add_text("command", row["command"])

    def session(self, cell: Run, i: int, scores: dict[str, float], log: dict[str, Any]) -> None:
        """Add a point to each curve."""
        for name, value in scores.items():
            self._writer.add_scalar(f"scores/{name}", value, i)
        for name, value in log.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                self._writer.add_scalar(f"log/{name}", value, i)

    def cell_done(self, record: RunRecord) -> None:
        """Add settings and metrics to the table HPARAMS, and end the file."""
        metrics = {f"metrics/{k}": v for k, v in record.metrics.items() if v == v}
        self._writer.add_hparams(self._settings, metrics, run_name=".")
        self._writer.close()

    def close(self) -> None:
        """Nothing is open between runs."""
