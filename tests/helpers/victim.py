"""Hostile cases: each runs in a process of its own, with a bound on its time and memory.

A server process has imported what the commands need, and forks once a case. So a crash, a hang or a
memory bomb ends its own case only.
"""

import contextlib
import hashlib
import json
import os
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

from commands import CONTEXT, command

from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.scores.label_set_predictions import load_any
from embedbench.storage import leases

SECONDS = 10  # of the processor, or six times as many by the clock, count as a hang
MEMORY = 1 << 20  # KiB over the normal that count as too much
CEILING = 12 << 30  # bytes of address space; a process that asks for more gets a MemoryError


@dataclass(frozen=True)
class Outcome:
    """What came of one case.

    Parameters
    ----------
    code : int
        Exit code; negative: the signal that ended it.
    out, err : str
        What it printed.
    hung : bool
        Whether it was stopped after its time.
    memory : int
        How much its peak of resident memory rose, KiB; 0 if a signal ended it.
    """

    code: int
    out: str
    err: str
    hung: bool
    memory: int

    @property
    def fault(self) -> str:
        """What is wrong with it, in a word or two; empty if nothing."""
        if self.hung:
            return "hang"
        if "Traceback (most recent call last)" in self.err:
            return "traceback: " + self.err.strip().splitlines()[-1]
        if self.code not in (0, 1, 2):
            return f"exit code {self.code}"
        if self.memory > MEMORY:
            return f"memory: {self.memory >> 10} MB"
        if self.code == 2 and not self.err.strip():
            return "exit code 2 without a sentence"
        if any(c in self.out + self.err for c in "\x1b\x07\x9b"):
            return "control characters"
        return ""


def run(*words: object, cwd: Path | None = None, seconds: int = SECONDS) -> Outcome:
    """Run `embedbench WORDS`."""
    return _end_of(command, [str(w) for w in words], cwd, seconds)


def call(function: Callable[[Path], str], path: Path, seconds: int = SECONDS) -> Outcome:
    """Print what a function returns; a `UserError` is a sentence and exit code 2."""
    return _end_of(_called, (function, path), None, seconds)


def _end_of(function: Callable[..., None], of: object, cwd: Path | None, seconds: int) -> Outcome:
    with tempfile.TemporaryDirectory() as name:
        files = [Path(name) / part for part in ("out", "err", "memory")]
        process = CONTEXT.Process(target=_become, args=(function, of, cwd, seconds, files))
        process.start()
        process.join(6 * seconds)
        hung = process.is_alive()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)  # and what it left behind
        process.join()
        out, err, memory = (f.read_text(errors="replace") if f.exists() else "" for f in files)
    code = process.exitcode or 0
    return Outcome(code, out, err, hung or code == -signal.SIGXCPU, int(memory or 0))


def _become(
    function: Callable[..., None], of: object, cwd: Path | None, seconds: int, files: list[Path]
) -> None:
    """In the child: run the case and end."""
    code: object = 70
    os.setsid()
    for number, file in enumerate([Path(os.devnull), *files[:2]]):
        os.dup2(os.open(file, os.O_RDWR | os.O_CREAT), number)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        leases.PATIENCE = 2.0  # a minute is too long for thousands of cases
        os.environ["COLUMNS"] = "100"
        resource.setrlimit(resource.RLIMIT_AS, (CEILING, CEILING))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        if cwd:
            os.chdir(cwd)
        function(of)
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        files[2].write_text(str(after - before))
        os._exit(code if isinstance(code, int) else 1)


def _called(of: tuple[Callable[[Path], str], Path]) -> None:
    function, path = of
    try:
        print(function(path))
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


def said(path: Path) -> str:
    """SHA-256 of all that an embedding file says, read through the package."""
    opened = EmbeddingFile.open(path)
    layers = sorted(opened.layers)
    sha = hashlib.sha256(json.dumps(opened.provenance, sort_keys=True).encode())
    s = opened.samples
    for array in (s.labels, s.split, s.parents):
        sha.update(array.tobytes())
    sha.update(repr((s.ids.tolist(), s.classes, opened.digests, opened.kind)).encode())
    sha.update(repr({k: v.tolist() for k, v in opened.columns.items()}).encode())
    sha.update(opened.images().tobytes() if opened.kind == "pixels" else b"")
    sha.update(opened.read(layers).tobytes() if opened.kind != "pixels" else b"")
    return sha.hexdigest()


def answered(path: Path) -> str:
    """SHA-256 of all arrays of a predictions file, read through the package."""
    loaded = load_any(path)
    sha = hashlib.sha256()
    for field in fields(loaded):
        array = getattr(loaded, field.name)
        if array is None:  # a table that plain answers lack
            continue
        sha.update(f"{field.name} {array.dtype.str} {array.shape}".encode() + array.tobytes())
    return sha.hexdigest()
