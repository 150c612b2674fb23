"""Running a cell: its learner learns the stream, and the run is saved."""

from __future__ import annotations

import dataclasses
import inspect
import platform
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from embedbench.arrays import digest
from embedbench.scores import record
from embedbench.scores.label_sets import AnyPredictions
from embedbench.version import __version__

from .cell import Cell
from .checkpoint import CheckpointDirectory, UnusableError
from .runner import SessionLog, run_stream
from .work import Work, Workshop


def run_cell(
    cell: Cell,
    root: Path,
    threads: int,
    tell: Callable[[str], None] | None = None,
    workshop: Workshop | None = None,
) -> Path:
    """Run one cell and save it in its place under `root`; see `execute`."""
    return execute((workshop or Workshop()).prepare(cell, root), threads, tell)


def execute(work: Work, threads: int, tell: Callable[[str], None] | None = None) -> Path:
    """Run a cell and save it in its place; an earlier run there is replaced.

    A cell that was interrupted continues from its checkpoint, with the number of threads it began
    with.

    Parameters
    ----------
    work : Work
        The cell and its objects.
    threads : int
        Threads of torch.
    tell : callable or None
        `tell(message)` is called when a checkpoint is used, and when one cannot be used.

    Returns
    -------
    Path
        The place of the cell.
    """
    checkpoint = checkpoint_of(work, threads, tell or (lambda _: None))
    predictions, sessions = taught(work, checkpoint)
    if work.place.exists():
        shutil.rmtree(work.place)  # left by an interrupted run
    work.place.mkdir(parents=True)
    predictions.save(work.place / "predictions.h5")
    run = {**_describe(work), **_cost(sessions, checkpoint.resumed)}
    run["environment"] |= {"torch": torch.__version__, "threads": checkpoint.threads}
    record.save(record.evaluate(run, work.place, work.root), work.place)
    checkpoint.clear()
    return work.place


def checkpoint_of(work: Work, threads: int, tell: Callable[[str], None]) -> CheckpointDirectory:
    """The checkpoint of a cell."""
    return CheckpointDirectory(
        work.partial,
        decided(work),
        threads=threads,
        device=work.cell.device,
        seconds=work.cell.checkpoint,
        tell=tell,
    )


def decided(work: Work) -> dict[str, Any]:
    """Everything that must be unchanged for a run to continue from its checkpoint, by name."""
    cell = work.cell
    try:
        code = Path(inspect.getfile(type(cell.learner.settings))).read_bytes()
    except (OSError, TypeError):  # the class is defined in no file
        code = b""
    return {
        "version of embedbench": __version__,
        "version of torch": str(torch.__version__),
        "kind of device": cell.device.partition(":")[0],
        "learner": cell.learner.name,
        "setting": cell.learner.identity,
        "seed": dataclasses.asdict(cell.seeds),
        "stream": work.stream.digests,
        "code of the learner": digest(code),
    }


def taught(work: Work, checkpoint: CheckpointDirectory) -> tuple[AnyPredictions, list[SessionLog]]:
    """Let the learner learn the cell's stream, from the checkpoint if there is one."""
    cell, threads = work.cell, checkpoint.threads

    def teach() -> tuple[AnyPredictions, list[SessionLog]]:
        torch.set_num_threads(checkpoint.threads)
        learner = cell.learner.fresh()
        return run_stream(work.stream, learner, cell.seeds, cell.device, checkpoint=checkpoint)

    who = f"{cell.learner} seed {cell.seed}"
    try:
        if checkpoint.open():
            done = f"{checkpoint.sessions} of {len(work.stream.sessions)} sessions done"
            checkpoint.tell(f"{who} was cut off and goes on from its checkpoint, {done}")
        return teach()
    except UnusableError as error:
        checkpoint.tell(f"{who} begins anew, its checkpoint cannot be used: {error}")
    checkpoint.clear()
    checkpoint.threads = threads
    return teach()


def _describe(work: Work) -> dict[str, Any]:
    """The part of a record that is known before the run."""
    cell, stream = work.cell, work.stream
    tags, protocol = cell.learner.settings.tags, cell.protocol.settings
    return {
        "schema": record.SCHEMA,
        "protocol": cell.protocol.name,
        "protocol_params": dict(sorted(dataclasses.asdict(protocol).items())),
        "learner": cell.learner.name,
        "learner_params": dataclasses.asdict(cell.learner.settings),
        "learns": tags.learns,
        "session_id_at_test": tags.needs_session_id or stream.spec.reveals_session_id,
        "seed": cell.seed,
        "seeds": dataclasses.asdict(cell.seeds),
        "files": [{"name": f.path.name, "kind": f.kind, "digests": f.digests} for f in work.files],
        "order": protocol.order_record(),
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
            else [list(f.classes[: f.samples.n_leaves]) for f in work.files]
        ),
        "reference": work.reference,
        "environment": {
            "embedbench": __version__,
            "python": platform.python_version(),
            "device": cell.device,
            "machine": platform.machine(),
        },
        "command": cell.command,
        **({"tuning": cell.tuning} if cell.tuning else {}),
    }


def _cost(sessions: Sequence[SessionLog], resumed: int) -> dict[str, Any]:
    """The part of a record that says what each session cost, and all sessions together."""
    held = sessions[-1].footprint
    return {
        "sessions": [dataclasses.asdict(s) for s in sessions],
        "seconds": {
            "learn": sum(s.learn_seconds for s in sessions),
            "evaluate": sum(s.evaluate_seconds for s in sessions),
        },
        "joules": {
            "learn": sum(s.learn_joules for s in sessions),
            "evaluate": sum(s.evaluate_joules for s in sessions),
        },
        "resumed": resumed,
        "footprint": {**held, "total": sum(held.values())},
    }
