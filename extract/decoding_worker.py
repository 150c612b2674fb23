"""A process that decodes for another one, which has a card; see `decoding_processes`.

It reads questions from its standard input: first an `Opening`, then ranges of samples. For each it
writes a pair: whether all is well, and the answer or the error.
"""

import fcntl
import mmap
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from embedbench.array_types import Array
from embedbench.engines.engine_tasks import as_sent
from embedbench.errors import UserError, keep_inside

from . import extraction_work
from .decoded_batch import DecodedSample
from .decoding_processes import InMemory, Opening
from .pixel_policy import PixelPolicy
from .source import Content, Source

LOOK = 1.0  # seconds between two looks at the parent


def main() -> None:
    """Answer questions until there are no more."""
    parent, memory, turn = (int(word) for word in sys.argv[1:])
    threading.Thread(target=_end_after, args=(parent,), daemon=True).start()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    extraction_work.large_turn = LargeTurn(turn)
    worker = DecodingWorker(memory)
    with worker.settings, suppress(BrokenPipeError, EOFError):  # the parent has ended
        while True:
            question = pickle.load(sys.stdin.buffer)
            pickle.dump(worker.answer(question), answers)
            answers.flush()
    os._exit(0)  # without the end of libraries, which nobody waits for


def _end_after(parent: int) -> None:
    """End this process when its parent has; another child of that may hold the pipe open."""
    while os.getppid() == parent:
        time.sleep(LOOK)
    os._exit(1)


class LargeTurn:
    """A lock of all processes that have a file, by its number there; it ends with its process."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __enter__(self) -> None:
        fcntl.lockf(self._number, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        fcntl.lockf(self._number, fcntl.LOCK_UN)


@dataclass
class Preparer:
    """What `decode` needs of a backbone, without the network."""

    backbone: dict[str, Any]
    prepare: Callable[[Content], Array]


class DecodingWorker:
    """What is opened, and the memory for arrays: `memory` is the number of its file."""

    source: Source
    preparer: Preparer
    policy: PixelPolicy

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._map: mmap.mmap | None = None
        self.settings = ExitStack()

    def answer(self, question: Opening | range) -> tuple[bool, Any]:
        """Return whether all is well, and the answer or the error."""
        try:
            with keep_inside("a process that decodes"):
                if isinstance(question, range):
                    return True, self._decode(question)
                self._open(question)
                return True, None
        except Exception as error:
            return False, as_sent(error)

    def _open(self, opening: Opening) -> None:
        os.chdir(opening.directory)
        self.settings.enter_context(extraction_work.arithmetic_settings(opening.threads))
        self.preparer = Preparer(opening.backbone, opening.prepare)
        self.policy = opening.policy
        self.source = opening.open_source()
        if self.source.digest != opening.samples:
            raise UserError(
                f"{self.source.name} has other samples than when the command opened it",
                "let no other program change the data meanwhile, and run the command again",
            )

    def _decode(self, rows: range) -> tuple[tuple[DecodedSample, ...], InMemory | None]:
        decoded = [extraction_work.decode(self.source, i, self.preparer, self.policy) for i in rows]
        good = [sample.ready for sample in decoded if sample.ready is not None]
        samples = tuple(replace(sample, ready=None) for sample in decoded)
        return samples, self._stacked(good) if good else None

    def _stacked(self, arrays: Sequence[Array]) -> InMemory:
        """Put arrays of one shape into the memory, one behind the other."""
        shape = (len(arrays), *arrays[0].shape)
        dtype = arrays[0].dtype
        size = int(np.prod(shape)) * dtype.itemsize
        if self._map is None or len(self._map) < size:
            os.ftruncate(self._memory, size)
            self._map = mmap.mmap(self._memory, size)
        np.stack(arrays, out=np.frombuffer(self._map, dtype, int(np.prod(shape))).reshape(shape))
        return InMemory(shape, dtype.str)
