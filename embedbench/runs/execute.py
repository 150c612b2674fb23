"""Carrying a cell out: teach its stream, from its checkpoint if it was cut off, and keep it."""

from __future__ import annotations

import dataclasses
import inspect
import json
import platform
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from embedbench.arrays import digest
from embedbench.learning.learner import Learner
from embedbench.scores import record
from embedbench.scores.label_sets import AnyPredictions
from embedbench.streams.stream import Stream
from embedbench.version import __version__

from .cell import Cell, _open, partial_of
from .checkpoint import CheckpointDirectory, UnusableError
from .registry import learner_class
from .runner import SessionLog, run_stream


def checkpoint_of(
    cell: Cell, directory: Path, threads: int, tell: Callable[[str], None]
) -> CheckpointDirectory:
    """The checkpoint of a cell."""
    return CheckpointDirectory(
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


def taught(cell: Cell, keeper: CheckpointDirectory) -> tuple[AnyPredictions, list[SessionLog]]:
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


def run_cell(
    cell: Cell, root: Path, threads: int, tell: Callable[[str], None] | None = None
) -> Path:
    """Run one cell and keep it in its place, over whatever lies there.

    A cell that was cut off goes on from its checkpoint, with the threads that it was begun with.
    `tell` takes a sentence.
    """
    place = cell.place(root)
    stream = cell.shown()
    keeper = checkpoint_of(cell, partial_of(place), threads, tell or (lambda _: None))
    predictions, sessions = taught(cell, keeper)
    if place.exists():
        shutil.rmtree(place)  # what an interrupted run left
    place.mkdir(parents=True)
    predictions.save(place / "predictions.h5")
    made = _describe(cell, stream, cell.make_learner(), root)
    made["sessions"] = [dataclasses.asdict(s) for s in sessions]
    made["seconds"] = {
        "learn": sum(s.learn_seconds for s in sessions),
        "evaluate": sum(s.evaluate_seconds for s in sessions),
    }
    made["joules"] = {
        "learn": sum(s.learn_joules for s in sessions),
        "evaluate": sum(s.evaluate_joules for s in sessions),
    }
    made["resumed"] = keeper.resumed
    last = sessions[-1].footprint
    made["footprint"] = {**last, "total": sum(last.values())}
    made["environment"] |= {"torch": torch.__version__, "threads": keeper.threads}
    record.save(record.evaluate(made, place, root), place)
    keeper.clear()
    return place


def _describe(cell: Cell, stream: Stream, learner: Learner, root: Path) -> dict[str, Any]:
    """The part of a record that is known before the run."""
    files = [_open(f) for f in cell.shown_files]
    return {
        "schema": record.SCHEMA,
        "protocol": cell.protocol,
        "protocol_params": json.loads(cell.protocol_params),
        "learner": cell.learner,
        "learner_params": dataclasses.asdict(learner),
        "learns": learner.tags.learns,
        "session_id_at_test": learner.tags.needs_session_id or stream.spec.reveals_session_id,
        "seed": cell.seed,
        "seeds": dataclasses.asdict(cell.seeds),
        "files": [{"name": f.path.name, "kind": f.kind, "digests": f.digests} for f in files],
        "order": cell.make_protocol().order_record(),
        "digests": stream.digests,
        "validation": stream.validation,
        "notes": list(stream.notes),
        "n_train": [len(s.x) for s in stream.sessions],
        "n_classes": [len(s.classes) for s in stream.sessions],
        "n_candidates": [
            None if e.candidates is None else int(e.candidates.sum()) for e in stream.eval_sets
        ],
        "classes": (
            [list(stream.classes)]
            if stream.classes
            else [list(f.classes[: f.samples.n_leaves]) for f in files]
        ),
        "reference": cell.reference(root),
        "environment": {
            "embedbench": __version__,
            "python": platform.python_version(),
            "device": cell.device,
            "machine": platform.machine(),
        },
        "command": cell.command,
        **({"tuning": json.loads(cell.tuning)} if cell.tuning else {}),
    }
