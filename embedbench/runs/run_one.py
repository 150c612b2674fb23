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
from embedbench.scores import record_files
from embedbench.scores.label_set_predictions import AnyPredictions
from embedbench.scores.run_record import SessionCosts, UnscoredRun, totals
from embedbench.scores.verified_records import remember
from embedbench.storage import cache
from embedbench.storage.atomic_write import temporary_name
from embedbench.storage.leases import Lease
from embedbench.system.cpu import limit_threads
from embedbench.version import __version__

from .checkpoint import CheckpointDirectory, UnusableError
from .cost_meter import SessionLog
from .prepared_run import PreparedRun, StreamCache
from .run_dirs import publish
from .run_spec import RunSpec
from .stream_metadata import described_stream, list_packages
from .stream_runner import run_stream


def run_cell(
    cell: RunSpec,
    root: Path,
    threads: int,
    notify: Callable[[str], None] | None = None,
    workshop: StreamCache | None = None,
) -> Path:
    """Run one cell and save it in its place under `root`; see `execute`."""
    return execute((workshop or StreamCache()).prepare(cell, root), threads, notify)


def execute(
    work: PreparedRun,
    threads: int,
    notify: Callable[[str], None] | None = None,
    lease: Lease | None = None,
) -> Path:
    """Run a cell and save it in its place, unless a finished run is there when it ends.

    A cell that was interrupted continues from its checkpoint, with the number of threads it began
    with.

    Parameters
    ----------
    work : Work
        The cell and its objects.
    threads : int
        Threads of its arithmetic; see `limit_threads`.
    notify : callable or None
        `tell(message)` is called when a checkpoint is used, and when one cannot be used.
    lease : Lease or None
        The lease on the cell; once it is lost no checkpoint is written.

    Returns
    -------
    Path
        The place of the cell.
    """
    checkpoint = open_checkpoint(work, threads, notify or (lambda _: None), lease)
    predictions, sessions = train_and_predict(
        work, checkpoint, (lambda _: None) if lease is None else lease.note
    )
    made = temporary_name(work.place)
    made.mkdir(parents=True)
    try:
        predictions.save(made / "predictions.h5")
        unscored = _recorded(work, made, sessions, checkpoint)
        record_files.save(record_files.evaluate(unscored, made, work.root, work.place), made)
        if publish(made, work.place, work.root):
            remember(work.place, work.root)
        else:
            checkpoint.notify(
                f"another process has finished {label(work.cell)} first; its run is kept"
            )
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    checkpoint.clear()
    return work.place


def label(cell: RunSpec) -> str:
    """A cell as sentences name it."""
    return f"{cell.learner} seed {cell.seed}"


def open_checkpoint(
    work: PreparedRun, threads: int, notify: Callable[[str], None], lease: Lease | None = None
) -> CheckpointDirectory:
    """The checkpoint of a cell."""
    return CheckpointDirectory(
        work.partial,
        checkpoint_key(work),
        threads=threads,
        device=work.cell.device,
        seconds=work.cell.checkpoint,
        notify=notify,
        is_mine=(lambda: True) if lease is None else lease.is_mine,
    )


def checkpoint_key(work: PreparedRun) -> dict[str, Any]:
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


def train_and_predict(
    work: PreparedRun,
    checkpoint: CheckpointDirectory,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[AnyPredictions, list[SessionLog]]:
    """Let the learner learn the cell's stream, from the checkpoint if there is one."""
    cell, threads = work.cell, checkpoint.threads

    def teach() -> tuple[AnyPredictions, list[SessionLog]]:
        learner = cell.learner.fresh()
        progress(f"session {checkpoint.sessions}/{len(work.stream.sessions)}")
        with limit_threads(checkpoint.threads):
            return run_stream(
                work.stream,
                learner,
                cell.seeds,
                cell.device,
                progress=progress,
                checkpoint=checkpoint,
            )

    who = label(cell)
    try:
        if checkpoint.open():
            done = f"{checkpoint.sessions} of {len(work.stream.sessions)} sessions done"
            other = f" with --threads {checkpoint.threads}" if checkpoint.threads != threads else ""
            checkpoint.notify(f"{who} was cut off and goes on from its checkpoint{other}, {done}")
        return teach()
    except UnusableError as error:
        checkpoint.notify(f"{who} begins anew, its checkpoint cannot be used: {error}")
    checkpoint.clear()
    checkpoint.threads = threads
    return teach()


def _recorded(
    work: PreparedRun, made: Path, sessions: Sequence[SessionLog], checkpoint: CheckpointDirectory
) -> UnscoredRun:
    """What was run, and what it cost; its predictions lie in `made`."""
    cell, tags = work.cell, work.cell.learner.settings.tags
    costs = tuple(SessionCosts(**vars(s)) for s in sessions)
    described = described_stream(work)
    described["session_id_at_test"] |= tags.needs_session_id
    return UnscoredRun(
        **described,
        predictions_sha256=cache.sha256(made / "predictions.h5"),
        learner=cell.learner.name,
        learner_params=dataclasses.asdict(cell.learner.settings),
        learns=tags.learns,
        environment=_environment(cell.device, checkpoint.threads),
        command=cell.command,
        packages=list_packages(learner=cell.learner.settings, protocol=cell.protocol.settings),
        tuning=cell.tuning or None,
        sessions=costs,
        resumed=checkpoint.resumed,
        **totals(costs),
    )


def _environment(device: str, threads: int) -> dict[str, Any]:
    return {
        "embedbench": __version__,
        "python": platform.python_version(),
        "device": device,
        "machine": platform.machine(),
        "torch": torch.__version__,
        "threads": threads,
    }
