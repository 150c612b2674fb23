"""Making one run: its learner learns the stream, and the record is saved.

Other processes, here or on other machines, may be at the same run: the one that holds its lease
makes it.
"""

import dataclasses
import platform
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch

from embedbench.engines.local_pool import use_card
from embedbench.errors import UserError, keep_inside
from embedbench.plugins import code_digest
from embedbench.scores import run_record
from embedbench.scores.run_answers import RunAnswers
from embedbench.storage import atomic_write, leases
from embedbench.system.callback_types import Notify
from embedbench.system.cpu_threads import limit_threads
from embedbench.version import __version__

from . import run_dirs, stream_runner
from .checkpoint import CheckpointDirectory, UnusableError
from .run_task import Task
from .stream_metadata import list_code, list_packages, record_stream, record_unknown

Became = Literal["made", "there", "held"]  # finished here or elsewhere; or another is at it


def run_one(task: Task, notify: Notify) -> Became:
    """Make a run, unless another living process is at it or has finished it.

    Returns what became of it.
    """
    use_card(task.spec.device)
    task.run_dir.parent.mkdir(parents=True, exist_ok=True)
    lease = leases.take(task.lease)
    if lease is None:
        return _elsewhere(task)
    with lease:
        run_dirs.tidy(task.run_dir, task.root)
        if task.is_done():
            return "there"
        try:
            if task.anew:
                atomic_write.remove(task.checkpoint)
            with keep_inside(f"the learner {task.spec.learner}"):
                execute(task, notify, lease)
        except Exception:
            if lease.is_mine():
                raise
            return _elsewhere(task)  # who took the lease over has cleared up what we were at
    return "made"


def _elsewhere(task: Task) -> Became:
    return "there" if task.is_done() else "held"


def run_away(task: Task) -> tuple[Became, list[str]]:
    """`run_one` in a worker of another machine; with it come the sentences for the user."""
    if not task.root.is_dir():
        here = platform.node() or "a worker"
        raise UserError(
            f"there is no directory {task.root} on {here}, where the run was to be made",
            "take an --out that all machines see",
        )
    said = list[str]()
    return run_one(task, said.append), said


def execute(task: Task, notify: Notify = lambda _: None, lease: leases.Lease | None = None) -> None:
    """Run a task and save its record, unless a finished run is there when it ends.

    A run that was interrupted continues from its checkpoint; `notify` is called when one is used,
    and when one cannot be used. Once the lease on the task is lost, no checkpoint is written.

    Raises
    ------
    UserError
        A file is not the one any more that the run was planned for.
    """
    task.streams.begin()
    task.check_place()
    task.stream  # noqa: B018  (it is built, or read, of what was planned, and of nothing later)
    task.check_place()
    checkpoint = CheckpointDirectory(
        task.checkpoint,
        checkpoint_key(task),
        device=task.spec.device,
        seconds=task.spec.checkpoint,
        notify=notify,
        is_mine=(lambda: True) if lease is None else lease.is_mine,
    )
    predictions, sessions = train_and_predict(
        task, checkpoint, (lambda _: None) if lease is None else lease.note
    )
    predictions = predictions.with_groups(task.group_samples(predictions.ids))
    unscored = _unscored(task, sessions, checkpoint.resumed)
    if not run_dirs.save_run(predictions, unscored, task.run_dir, task.root, task.replaces):
        notify(f"another process has finished {task.label} first; its run is kept")
    checkpoint.clear()


def checkpoint_key(task: Task) -> dict[str, Any]:
    """Everything that must be unchanged for a run to continue from its checkpoint, by name."""
    spec = task.spec
    return {
        "version of embedbench": __version__,
        "version of torch": str(torch.__version__),
        "kind of device": spec.device.partition(":")[0],
        "number of threads": task.threads,
        "learner": spec.learner.name,
        "setting": spec.learner.identity,
        "seed": dataclasses.asdict(spec.seeds),
        "stream": task.stream.digests,
        "code of the learner": code_digest(type(spec.learner.settings)),
    }


def train_and_predict(
    task: Task,
    checkpoint: CheckpointDirectory,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[RunAnswers, list[run_record.SessionCosts]]:
    """Let the learner learn the run's stream, from the checkpoint if there is one."""
    spec = task.spec
    stream = task.stream

    def teach() -> tuple[RunAnswers, list[run_record.SessionCosts]]:
        progress(f"session {checkpoint.sessions}/{len(stream.sessions)}")
        with limit_threads(task.threads):
            learner = spec.learner.fresh()
            return stream_runner.run_stream(
                stream,
                learner,
                spec.seeds,
                spec.device,
                progress,
                checkpoint,
            )

    try:
        if checkpoint.open():
            done = f"{checkpoint.sessions} of {len(stream.sessions)} sessions done"
            checkpoint.notify(f"{task.label} was cut off and goes on from its checkpoint, {done}")
        return teach()
    except UnusableError as error:
        checkpoint.notify(f"{task.label} begins anew, its checkpoint cannot be used: {error}")
    checkpoint.clear()
    return teach()


def _unscored(
    task: Task, sessions: Sequence[run_record.SessionCosts], resumed: int
) -> run_record.UnscoredRun:
    """The parts of a record on what was run and what it cost."""
    spec = task.spec
    tags = spec.learner.settings.tags
    stream = record_stream(task)
    return stream.extend(
        run_record.UnscoredRun,
        session_id_at_test=stream.session_id_at_test or tags.needs_session_id,
        unknown=record_unknown(task),
        learner=spec.learner.name,
        learner_params=dataclasses.asdict(spec.learner.settings),
        learns=tags.learns,
        environment={
            "embedbench": __version__,
            "python": platform.python_version(),
            "device": spec.device,
            "machine": platform.machine(),
            "torch": torch.__version__,
            "threads": task.threads,
        },
        command=spec.command,
        packages=list_packages(learner=spec.learner.settings, protocol=spec.protocol.settings),
        code=list_code(learner=spec.learner.settings, protocol=spec.protocol.settings),
        tuning=spec.tuning or None,
        budget_mb=spec.budget_mb,
        metric=spec.metric,
        sessions=tuple(sessions),
        resumed=resumed,
        **run_record.totals(sessions),
    )
