"""Processes that decode and begin at once, and a backbone without cost that has them decode."""

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from commands import CONTEXT
from PIL import Image

from embedbench.array_types import Array
from embedbench.extract import decoding_processes, extraction_work
from embedbench.extract.backbone import Backbone
from embedbench.extract.decoding_processes import DecodingProcess, DecodingProcesses
from embedbench.extract.open_source import open_source
from embedbench.extract.source import Content, Source, open_image
from embedbench.files.resumable_file import Partial

BLOCK = 16  # samples
STAND_IN = f"{__name__}:StandIn"


def small_image(content: Content) -> Array:
    """An image as 8 x 8 x 3 bytes."""
    return np.asarray(open_image(content).convert("RGB").resize((8, 8)))


def sum_of_bytes(content: Content) -> Array:
    """A sound as a number."""
    assert isinstance(content, bytes)
    return np.array([sum(content)])


class StandIn(Backbone):
    """The values of small images; its device is no CPU, as a card is none."""

    device = torch.device("meta")
    make = staticmethod(small_image)

    def __init__(self) -> None:
        self.backbone = {"name": "stand-in", "layer": "values", "pooling": "none"}
        self.preprocessing = {"size": 8}

    def prepare(self, content: Content) -> Array:
        return self.make(content)

    def preparer(self) -> Callable[[Content], Array]:
        return self.make

    def forward(self, batch: Array) -> dict[str, torch.Tensor]:
        return {"features": torch.from_numpy(batch.reshape(len(batch), -1)).float()}


class OfSounds(StandIn):
    """The same for sounds."""

    takes = "sounds"
    make = staticmethod(sum_of_bytes)


class QuickProcess:
    """What stands for `subprocess.Popen`: forked from a server that has imported everything."""

    def __init__(self, command: list[str], **options: Any) -> None:
        questions, self.stdin = _pipe()
        self.stdout, answers = _pipe()
        given = [questions, answers, *(os.fdopen(os.dup(i)) for i in options["pass_fds"])]
        held = [Connection(os.dup(file.fileno())) for file in given]
        self.process = CONTEXT.Process(target=_work, args=(held, dict(os.environ)))
        self.process.start()
        self.pid = self.process.pid
        for file in (*given, *held):
            file.close()

    def wait(self, timeout: float | None = None) -> int:
        self.process.join(timeout)
        if self.process.exitcode is None:
            raise subprocess.TimeoutExpired("a process", timeout or 0)
        return self.process.exitcode

    def kill(self) -> None:
        self.process.kill()


def _pipe() -> tuple[io.BufferedReader, io.BufferedWriter]:
    reads, writes = os.pipe()
    return os.fdopen(reads, "rb"), os.fdopen(writes, "wb")


def _work(held: list[Connection], environment: dict[str, str]) -> None:
    os.environ.update(environment)
    for standard, connection in enumerate(held[:2]):
        os.dup2(connection.fileno(), standard)
    sys.stdin = os.fdopen(0)
    sys.argv = ["", str(os.getppid()), *(str(connection.fileno()) for connection in held[2:])]
    exec(decoding_processes._PROGRAM)


@contextmanager
def decoding_in_processes(*, quick: bool = True) -> Iterator[list[int]]:
    """Have processes decode whatever there is, in small units; yields who decoded which unit."""
    begin, decode, asked = DecodingProcesses.begin, DecodingProcess.decode, list[int]()

    def begin_and_wait(self: DecodingProcesses) -> None:
        begin(self)
        self.wait()

    def noted(self: DecodingProcess, rows: range) -> Any:
        asked.append(self.process.pid)
        return decode(self, rows)

    popen = QuickProcess if quick else subprocess.Popen
    with (
        small_units(),
        mock.patch.object(extraction_work, "FEWEST", 1),
        mock.patch.object(decoding_processes.subprocess, "Popen", popen),
        mock.patch.object(DecodingProcesses, "begin", begin_and_wait),
        mock.patch.object(DecodingProcess, "decode", noted),
    ):
        yield asked


@contextmanager
def small_units() -> Iterator[None]:
    """Have blocks and units of a few samples."""
    with (
        mock.patch.object(Partial, "BLOCK", BLOCK),
        mock.patch.object(extraction_work, "UNIT", 4),
    ):
        yield


def ended(pid: int) -> bool:
    """Whether a process has ended; one that nobody has asked after counts."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def outside(folder: str) -> Source:
    """A source from outside: the images of a folder, decoded already."""
    opened = open_source(folder)
    return replace(opened, read=lambda i: Image.open(io.BytesIO(bytes_of(opened, i))))


def bytes_of(source: Source, i: int) -> bytes:
    content = source.read(i)
    assert isinstance(content, bytes)
    return content
