"""Runs in Weights & Biases; `WANDB_MODE=offline` writes them to files, see its own pages."""

from __future__ import annotations

import hashlib
from typing import Any

from embedbench.errors import UserError
from embedbench.scores.run_record import RunRecord

from .run_data import Run


class WeightsAndBiases:
    """One run there for each run here, with the same id each time.

    Parameters
    ----------
    target : str
        The project, or ENTITY/PROJECT.
    """

    def __init__(self, target: str) -> None:
        try:
            import wandb
        except ImportError:
            raise UserError(
                "--to wandb needs Weights & Biases: pip install 'embedbench-cl[wandb]'"
            ) from None
        self._wandb: Any = wandb
        self._entity, _, self._project = target.rpartition("/")
        self._run: Any = None

    def cell_started(self, cell: Run) -> None:
        """Begin a run; its group is its learner on its stream."""
        row = cell.row()
        sha256 = row["digests.predictions"] or ""
        config = {
            k: v
            for k, v in row.items()
            if k in ("learner", "protocol", "seed", "files", "order", "command")
            or k.startswith(("learner.", "protocol.", "seeds.", "digests.", "environment."))
        }
        self._run = self._wandb.init(
            project=self._project,
            entity=self._entity or None,
            name=cell.name,
            id=hashlib.sha256(f"{cell.name} {sha256}".encode()).hexdigest()[:16],
            group=cell.name.rpartition("/")[0],
            config=config,
            settings=self._wandb.Settings(console="off", silent=True),
        )

    def session(self, cell: Run, i: int, scores: dict[str, float], log: dict[str, Any]) -> None:
        """Log a step."""
        values = {f"scores/{k}": v for k, v in scores.items()}
        numbers = {k: v for k, v in log.items() if isinstance(v, int | float)}
        self._run.log(values | {f"log/{k}": v for k, v in numbers.items()}, step=i)

    def cell_done(self, record: RunRecord) -> None:
        """Put the metrics into the summary, and end the run."""
        for name, value in record.metrics.items():
            if value == value:
                self._run.summary[f"metrics/{name}"] = value
        self._run.finish()
        self._run = None

    def close(self) -> None:
        """End a run that was interrupted."""
        if self._run is not None:
            self._run.finish(exit_code=1)
