"""Cells on the machines of an engine: made in the shared directory, or sent back as files."""

from __future__ import annotations

import os
import platform
import secrets
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from embedbench.errors import UserError
from embedbench.files.remote.uri import is_name
from embedbench.storage import leases
from embedbench.storage.atomic_write import create, read_text, remove, temporary_name, write_safely
from embedbench.system.callback_types import Notify

from .checkpoint import saves_at
from .prepared_run import StreamCache, in_worker
from .run_dirs import checkpoint_path, publish, run_at, set_aside
from .shared_runs import SharedResult, Task, run_held, run_task

MARK = ".directory"  # its name in the runs directory
SEEN = 60.0  # seconds until a network file system must show what another machine wrote


@dataclass(frozen=True)
class Reply:
    """What a worker answers.

    Parameters
    ----------
    result : Result
        What became of the task.
    said : tuple of str
        Sentences for the user.
    files : dict or None
        The files of the finished run by name, where the worker does not see the runs directory.
    """

    result: SharedResult
    said: tuple[str, ...]
    files: dict[str, bytes] | None = None


@dataclass(frozen=True)
class Call:
    """What makes a cell in a worker; see `run_away`."""

    task: Task
    threads: int
    mark: str

    def __call__(self) -> Reply:
        reply: Reply = in_worker(run_away, self.task, self.threads, self.mark)
        return reply

    def progress(self) -> int:
        """How often the cell was saved, for engines that end what takes too long."""
        return saves_at(checkpoint_path(self.task.place))


class Away:
    """The runs directory as workers on other machines see it.

    A small file in it holds a random mark: who reads the same mark sees the same directory. It
    stays, because jobs may begin when this process has ended.

    Parameters
    ----------
    root : Path
        The directory of all runs.
    threads : int
        Threads of a cell's arithmetic.
    notify : callable
        Takes a sentence.
    """

    def __init__(self, root: Path, threads: int, notify: Notify) -> None:
        self._root, self._threads, self._tell = root.absolute(), threads, notify
        create(self._root / MARK, secrets.token_hex(16).encode())
        self._mark = read_text(self._root / MARK)

    def call(self, task: Task) -> Call:
        """What is to be called in a worker to make a task."""
        seen = replace(task, place=task.place.absolute(), root=self._root)
        return Call(seen, self._threads, self._mark)

    def take(self, task: Task, reply: Reply) -> SharedResult:
        """Take what a worker answers; a run that was sent is published.

        Raises
        ------
        UserError
            The worker wrote the run to the shared directory, and it cannot be seen here.
        """
        for sentence in reply.said:
            self._tell(sentence)
        if reply.files is not None:
            files = reply.files
            return run_held(task, lambda _: _publish(task, files))
        end = time.monotonic() + SEEN
        while reply.result is SharedResult.MADE and not task.is_done():
            if time.monotonic() > end:
                raise UserError(
                    f"a worker finished {task.place}, which cannot be seen here; is the file "
                    "system that the machines share in order?"
                )
            for directory in (task.root, task.place.parent):
                with suppress(OSError):  # it may not be seen yet either
                    os.listdir(directory)  # asks the server anew
            time.sleep(leases.POLL)
        return reply.result


def run_away(task: Task, threads: int, mark: str, workshop: StreamCache) -> Reply:
    """Make a cell in a worker; see `run_task`.

    Parameters
    ----------
    task : Task
        The cell and its place, as absolute paths of the driver.
    threads : int
        Threads of its arithmetic.
    mark : str
        That of the runs directory.
    workshop : Workshop
        Makes the objects of the cell.

    Raises
    ------
    UserError
        An embedding file cannot be read here, or is another one here.
    """
    said: list[str] = []
    _check_files(task, workshop)
    if _mark_of(task.root) == mark:
        return Reply(run_task(task, threads, said.append, workshop), tuple(said))
    with tempfile.TemporaryDirectory(prefix="embedbench-") as folder:
        root = Path(folder)
        place = root / task.place.relative_to(task.root)
        run_task(Task(task.cell, place, root), threads, said.append, workshop)
        files = {path.name: path.read_bytes() for path in place.iterdir()}
    return Reply(SharedResult.MADE, tuple(said), files)


def _mark_of(root: Path) -> str | None:
    try:
        return read_text(root / MARK)
    except UserError:
        return None


def _check_files(task: Task, workshop: StreamCache) -> None:
    here = f"on {platform.node() or 'a worker'}"
    for file in task.cell.files:
        if not (is_name(file) or os.access(file, os.R_OK)):
            raise UserError(
                f"{file} cannot be read {here}, where the run was to be made; put it where all "
                "machines see it under this name"
            )
    if workshop.place(task.cell, task.root) != task.place:
        names = ", ".join(task.cell.files)
        raise UserError(f"{names}: the file {here} is not the one that the run was planned for")


def _publish(task: Task, files: dict[str, bytes]) -> None:
    """Publish a run that a worker sent; the lease on it is held."""
    made = temporary_name(task.place)
    made.mkdir()
    for name, data in files.items():
        write_safely(made / Path(name).name, data)
    old = None if run_at(task.place) is None else set_aside(task.place)
    publish(made, task.place, task.root)
    if old is not None:
        remove(old)
