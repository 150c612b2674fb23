"""Cells that were cut off: what they depend on, and how they go on from their checkpoint."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from embedbench.arrays import digest
from .cell import Cell
from .checkpoint import Keeper, UnusableError
from embedbench.scores.label_sets import AnyPredictions
from .registry import learner_class
from .runner import SessionLog, run_stream
from embedbench.version import __version__


def keeper_of(cell: Cell, directory: Path, threads: int, tell: Callable[[str], None]) -> Keeper:
    """The keeper of a cell's checkpoint."""
    return Keeper(
        directory,
        decided(cell),
        threads=threads,
        device=cell.device,
        seconds=cell.checkpoint,
        tell=tell,
    )


def decided(cell: Cell) -> dict[str, Any]:
    """What must be the same for a run to go on from its checkpoint, by name."""
    try:
        code = Path(inspect.getfile(learner_class(cell.learner))).read_bytes()
    except (OSError, TypeError):  # a class that lies in no file
        code = b""
    return {
        "version of embedbench": __version__,
        "version of torch": str(torch.__version__),
        "kind of device": cell.device.partition(":")[0],
        "learner": cell.learner,
        "setting": cell.learner_params,
        "seed": dataclasses.asdict(cell.seeds),
        "stream": cell.shown().digests,
        "code of the learner": digest(code),
    }


def taught(cell: Cell, keeper: Keeper) -> tuple[AnyPredictions, list[SessionLog]]:
    """Teach the cell's stream, from where it was cut off if it was."""
    stream, threads = cell.shown(), keeper.threads

    def teach() -> tuple[AnyPredictions, list[SessionLog]]:
        torch.set_num_threads(keeper.threads)
        return run_stream(stream, cell.make_learner(), cell.seeds, cell.device, keeper=keeper)

    who = f"{cell.learner} seed {cell.seed}"
    try:
        if keeper.open():
            done = f"{keeper.sessions} of {len(stream.sessions)} sessions done"
            keeper.tell(f"{who} was cut off and goes on from its checkpoint, {done}")
        return teach()
    except UnusableError as error:
        keeper.tell(f"{who} begins anew, its checkpoint cannot be used: {error}")
    keeper.clear()
    keeper.threads = threads
    return teach()
