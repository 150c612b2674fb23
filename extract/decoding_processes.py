"""Processes that decode while a card waits: begun, asked and ended by the process of the card.

Sixteen threads of one process decode as fast as about four cores, because they wait for Python's
lock. So each process is asked by one thread, over a pipe, and answers in memory that both map: no
sample goes through the pipe. `decoding_worker` is the other side.

They are programs of their own, begun without `fork` and without a look at the module `__main__`: a
process with a card and threads is not copied, and a script needs no guard. Each ends when its pipe
does, and so with this process, whatever ended it. Ctrl-C in a terminal does not reach them.
"""

import marshal
import mmap
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from embedbench.array_types import Array
from embedbench.errors import UserError
from embedbench.storage.regular_files import explain_os_error

from .decoded_batch import DecodedUnit
from .pixel_policy import PixelPolicy
from .source import Content, Source

# Only modules that are built in are imported before `sys.path` is that of the parent.
_PROGRAM = (
    "import sys, marshal; sys.path[:] = marshal.load(sys.stdin.buffer); "
    "from embedbench.extract.decoding_worker import main; main()"
)
_PATIENCE = 5.0  # seconds from the end of a pipe to that of its process
_REMEDY = (
    "the blocks that are done are kept: run the command again to go on; with --engine local:1 "
    "--resources cpus=N it takes N processes to decode"
)


@dataclass(frozen=True)
class Opening:
    """What a process opens before it decodes.

    Parameters
    ----------
    open_source : callable
        Returns the source.
    directory : str
        Where relative paths begin.
    samples : str
        `Source.digest` of the samples that it must have.
    policy : PixelPolicy
        What becomes of the images' pixels.
    backbone : dict
        As of the backbone.
    prepare : callable
        The backbone's `preparer`.
    threads : int
        Threads of an operation.
    """

    open_source: Callable[[], Source]
    directory: str
    samples: str
    policy: PixelPolicy
    backbone: dict[str, Any]
    prepare: Callable[[Content], Array]
    threads: int


@dataclass(frozen=True)
class InMemory:
    """An array that an answer left in the memory of its process: shape and type."""

    shape: tuple[int, ...]
    dtype: str


def can_begin() -> bool:
    """Whether this machine and this Python can begin processes as they are here."""
    return os.name == "posix" and bool(sys.executable)


def _shared_file() -> IO[bytes]:
    """Memory that has a number and no name: nothing is left of it when its processes have ended.

    It is no part of `/dev/shm`, which is small in containers.
    """
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("embedbench"), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


class DecodingProcess:
    """One process; a thread at a time asks it."""

    def __init__(self, turn: IO[bytes]) -> None:
        self._memory = _shared_file()
        self._map: mmap.mmap | None = None
        numbers = self._memory.fileno(), turn.fileno()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(os.getpid()), *map(str, numbers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=numbers,
            start_new_session=True,  # a terminal's Ctrl-C is for the parent
        )

    def begin(self, opening: Opening) -> None:
        """Let it import and open what it needs; this takes seconds."""
        assert self.process.stdin is not None
        path = [entry or os.getcwd() for entry in sys.path]
        with self._while_it_lives():
            self.process.stdin.write(marshal.dumps(path))
        self._ask(opening)

    def decode(self, rows: range) -> DecodedUnit:
        """Return the samples with these numbers, decoded."""
        samples, there = self._ask(rows)
        return DecodedUnit(samples, None if there is None else self._copied(there))

    def _ask(self, question: Opening | range) -> Any:
        """Return what it answers, or raise what it raised."""
        pipe = self.process.stdin
        answers = self.process.stdout
        assert pipe is not None
        assert answers is not None
        with self._while_it_lives():
            pickle.dump(question, pipe)
            pipe.flush()
            good, value = pickle.load(answers)
        if not good:
            raise value
        return value

    def _copied(self, there: InMemory) -> Array:
        """Return a copy of an array that an answer left in its memory."""
        dtype = np.dtype(there.dtype)
        count = int(np.prod(there.shape))
        if self._map is None or len(self._map) < count * dtype.itemsize:
            self._map = mmap.mmap(self._memory.fileno(), 0)  # it has grown
        return np.frombuffer(self._map, dtype, count).reshape(there.shape).copy()

    @contextmanager
    def _while_it_lives(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError, pickle.UnpicklingError) as error:  # of its pipes
            raise UserError(
                f"a process that decodes {self._how_it_ended()}; was it killed, or out of memory?",
                _REMEDY,
            ) from error

    def _how_it_ended(self) -> str:
        try:
            code = self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            return "answers no more"
        if code >= 0:
            return f"ended with code {code}"
        with suppress(ValueError):  # a signal without a name
            return f"ended by {signal.Signals(-code).name}"
        return f"ended by signal {-code}"

    def end(self) -> None:
        """Kill it; it holds nothing that it would have to finish."""
        self.process.kill()
        self.process.wait()
        self._memory.close()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with suppress(OSError):  # what it was never told
                pipe.close()


class DecodingProcesses:
    """As many processes as decode at once.

    Parameters
    ----------
    number : int
        How many.
    opening : Opening
        What each opens.
    """

    def __init__(self, number: int, opening: Opening) -> None:
        self._number, self._opening = number, opening
        self._free = queue.SimpleQueue[DecodingProcess]()
        self._all = list[DecodingProcess]()
        self._greeters = list[threading.Thread]()
        self._problem: Exception | None = None
        self._turn: IO[bytes] | None = None  # locked by the process that decodes a large image

    def begin(self) -> None:
        """Begin those that are not there yet, and do not wait until they have opened all."""
        if not self._all:  # none yet, or all were ended
            self._free = queue.SimpleQueue()
            self._problem = None
        while len(self._all) < self._number:
            try:
                self._turn = self._turn or _shared_file()
                process = DecodingProcess(self._turn)
            except OSError as error:
                raise UserError(
                    f"a process that decodes cannot be begun ({explain_os_error(error)})", _REMEDY
                ) from error
            self._all.append(process)
            greeter = threading.Thread(target=self._greet, args=(process,), daemon=True)
            greeter.start()
            self._greeters.append(greeter)

    def _greet(self, process: DecodingProcess) -> None:
        """Wait until a process has opened all; then it is free."""
        try:
            process.begin(self._opening)
        except Exception as error:
            self._problem = error
        else:
            self._free.put(process)

    def wait(self) -> None:
        """Wait until all have opened all."""
        for greeter in self._greeters:
            greeter.join()
        self._check()

    def _check(self) -> None:
        if self._problem is not None:
            raise self._problem

    def decode(self, rows: range) -> DecodedUnit | None:
        """Have a free process decode some samples; None: none is free.

        Raises
        ------
        UserError
            A process ended, could not open the source, or has other samples.
        """
        self._check()
        try:
            process = self._free.get_nowait()
        except queue.Empty:
            return None
        unit = process.decode(rows)
        self._free.put(process)
        return unit

    def end(self) -> None:
        """End all processes."""
        while self._all:
            self._all.pop().end()
        for greeter in self._greeters:
            greeter.join()
        self._greeters.clear()
        if self._turn is not None:
            self._turn.close()
            self._turn = None
