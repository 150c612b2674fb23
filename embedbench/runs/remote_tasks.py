"""Tasks on the machines of an engine: made in the shared directory, or sent back as files.

A small file in the runs directory holds a random mark: a worker that reads the same mark sees the
same directory. It stays, because jobs may begin when this process has ended.
"""

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
from embedbench.storage.atomic_write import create, temporary_name, write_safely
from embedbench.storage.regular_files import read_text
from embedbench.system.callback_types import Notify

from .checkpoint import saves_at
from .run_dirs import publish, replacing
from .run_one import hold, run_one
from .stream_cache import Task, make_task

MARK = ".directory"  # its name in the runs directory
SEEN = 60.0  # seconds until a network file system must show what another machine wrote


@dataclass(frozen=True)
class Reply:
    """The answer of a worker.

    `made` says whether it made the run, see `run_one`, and `done` whether the run is finished, as
    the worker sees it; `said` are sentences for the user. `files` are those of the finished run by
    name, where the worker does not see the runs directory.
    """

    made: bool
    done: bool
    said: tuple[str, ...]
    files: dict[str, bytes] | None = None


@dataclass(frozen=True)
class RemoteCall:
    """A call that makes a run in a worker; paths are absolute, the mark is that of RUNS."""

    task: Task
    threads: int
    mark: str

    def __call__(self) -> Reply:
        """Make the run; see `run_one`."""
        task, said = self.task, list[str]()
        _check_files(task)
        if _read_mark(task.root) == self.mark:
            made = run_one(task, self.threads, said.append)
            return Reply(made, task.is_done(), tuple(said))
        with tempfile.TemporaryDirectory(prefix="embedbench-") as folder:
            here = make_task(task.spec, Path(folder), task.streams)
            run_one(here, self.threads, said.append)
            files = {path.name: path.read_bytes() for path in here.run_dir.iterdir()}
        return Reply(True, True, tuple(said), files)

    def progress(self) -> int:
        """Number of times that the run was saved, for engines that end what takes too long."""
        return saves_at(self.task.checkpoint)


def make_mark(root: Path) -> str:
    """The mark of a runs directory; it gets one where it has none."""
    create(root / MARK, secrets.token_hex(16).encode())
    return read_text(root / MARK)


def send(task: Task, threads: int, mark: str) -> RemoteCall:
    """The function that a worker calls to make a task."""
    absolute = replace(task, run_dir=task.run_dir.absolute(), root=task.root.absolute())
    return RemoteCall(absolute, threads, mark)


def take_reply(task: Task, reply: Reply, notify: Notify) -> bool:
    """Take what a worker answers; a run that was sent is published. Returns what `run_one` does."""
    for sentence in reply.said:
        notify(sentence)
    if reply.files is not None:
        files = reply.files
        return hold(task, lambda _: _publish(task, files))
    end = time.monotonic() + SEEN
    while reply.done and not task.is_done():
        if time.monotonic() > end:
            raise UserError(
                f"a worker finished {task.run_dir}, which cannot be seen here; is the file "
                "system that the machines share in order?"
            )
        for directory in (task.root, task.run_dir.parent):
            with suppress(OSError):  # it may not be seen yet either
                os.listdir(directory)  # asks the server anew
        time.sleep(leases.POLL)
    return reply.made


def _read_mark(root: Path) -> str | None:
    try:
        return read_text(root / MARK)
    except UserError:
        return None


def _check_files(task: Task) -> None:
    here = f"on {platform.node() or 'a worker'}"
    files = [file for file in (*task.spec.files, task.spec.unknown) if file]
    for file in files:
        if not (is_name(file) or os.access(file, os.R_OK)):
            raise UserError(
                f"{file} cannot be read {here}, where the run was to be made; put it where all "
                "machines see it under this name"
            )
    if task.streams.run_dir(task.spec, task.root) != task.run_dir:
        names = ", ".join(files)
        raise UserError(f"{names}: the file {here} is not the one that the run was planned for")


def _publish(task: Task, files: dict[str, bytes]) -> None:
    """Publish a run that a worker sent; the lease on it is held."""
    made = temporary_name(task.run_dir)
    made.mkdir()
    for name, data in files.items():
        write_safely(made / Path(name).name, data)
    with replacing(task.run_dir, task.root):
        publish(made, task.run_dir, task.root)
