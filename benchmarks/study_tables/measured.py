"""Bytes that a learner holds, measured, beside those that its record says."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from embedbench import load_runs
from embedbench.api import build_stream, make_learner
from embedbench.checks.learner_check_tools import held_bytes, state_bytes
from embedbench.config.seeds import Seeds
from embedbench.reports.loaded_run import Run
from embedbench.runs.stream_runner import run_stream
from embedbench.storage.atomic_write import read_text, write_safely
from embedbench.system.cpu import limit_threads


@dataclass(frozen=True)
class Bytes:
    """One run again: the bytes of its record, of the saved state, and in memory.

    Parameters
    ----------
    learner, stream : str, str
        What was run again.
    recorded : int
        The footprint in the record of the first run.
    saved : int
        The arrays of `state_dict`, but for `renewed`.
    renewed : int
        Those of an optimiser that the next session begins anew, so that nothing needs them.
    memory : int
        Everything that can be reached from the learner: arrays, once each, and numbers.
    """

    learner: str
    stream: str
    recorded: int
    saved: int
    renewed: int
    memory: int


def measure(root: Path, folder: Path, protocol: str, seed: int = 0) -> list[Bytes]:
    """Run one seed of one protocol again, and measure what each learner holds at its end.

    Parameters
    ----------
    root : Path
        The directory of the runs.
    folder : Path
        Where their embedding files are.
    """
    runs = load_runs(root).where(protocol=protocol, seed=seed)
    return [_again(run, folder) for run in runs if run.row()["learns"]]


def _again(run: Run, folder: Path) -> Bytes:
    record, row = run.record, run.row()
    files = [folder / f.name for f in record.files]
    stream = build_stream(files, record.protocol, seed=record.seed, **_settings(row, "protocol."))
    learner = make_learner(record.learner, **_settings(row, "learner."))
    with limit_threads(1):
        run_stream(stream, learner, Seeds.of(record.seed))
    state = learner.state_dict()
    every = _arrays(state)
    saved = every if "optimiser" in learner.footprint() else state_bytes(state)
    return Bytes(
        learner=record.learner,
        stream=f"{Path(record.files[0].name).stem}, {record.protocol}",
        recorded=round(record.footprint["total"]),
        saved=saved,
        renewed=every - saved,
        memory=held_bytes(learner),
    )


def _settings(row: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {k.removeprefix(prefix): v for k, v in row.items() if k.startswith(prefix)}


def _arrays(state: Any) -> int:
    """Bytes of the arrays in a state."""
    if isinstance(state, Mapping):
        return sum(map(_arrays, state.values()))
    if isinstance(state, list | tuple):
        return sum(map(_arrays, state))
    return int(state.nbytes) if isinstance(state, torch.Tensor | np.ndarray) else 0


def write(measured: Iterable[Bytes], path: Path) -> None:
    """Write them as CSV."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([f.name for f in fields(Bytes)])
    table.writerows(map(astuple, measured))
    write_safely(path, text.getvalue())


def read(path: Path) -> Sequence[Bytes]:
    """Read them."""
    lines = csv.DictReader(read_text(path).splitlines())
    names = ("recorded", "saved", "renewed", "memory")
    return [Bytes(x["learner"], x["stream"], *(int(x[n]) for n in names)) for x in lines]
