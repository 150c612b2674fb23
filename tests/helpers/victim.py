"""Hostile cases: each runs in a process of its own, with a bound on its time and memory.

A server process imports what the commands need, and forks once a case. So a crash, a hang or a
memory bomb ends its own case only.
"""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedbench.storage import leases

SECONDS = 10  # of the processor, or six times as many by the clock, count as a hang
MEMORY = 1 << 30  # bytes over the normal that count as too much
CEILING = 12 << 30  # bytes of address space; a process that asks for more gets a MemoryError
PRELOADED = (
    "embedbench.cli.app",
    "embedbench.extract.pipeline",
    "embedbench.models.mlp",
    "embedbench.models.ncm",
    "embedbench.reports.html_report",
    "embedbench.runs.run_one",
    "embedbench.runs.grid_scheduler",
    "torch._dynamo",
)


@dataclass(frozen=True)
class Outcome:
    """What came of one command.

    Parameters
    ----------
    code : int
        Exit code; negative: the signal that ended it.
    out, err : str
        What it printed.
    hung : bool
        Whether it was stopped after its time.
    memory : int
        Peak of resident memory over that of the server, bytes.
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
            return f"memory: {self.memory >> 20} MB"
        if self.code == 2 and not self.err.strip():
            return "exit code 2 without a sentence"
        if any(c in self.out + self.err for c in "\x1b\x07\x9b"):
            return "control characters"
        return ""


class Server:
    """Runs commands one after the other; `with` starts and ends it."""

    def __init__(self, *, threads: int = 1) -> None:
        self._environment = {
            **os.environ,
            "OMP_NUM_THREADS": str(threads),
            "PYTHONPATH": os.pathsep.join([*sys.path]),
            "COLUMNS": "100",
        }

    def __enter__(self) -> "Server":
        self._process = subprocess.Popen(
            [sys.executable, "-c", "import victim; victim.serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self._environment,
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def run(self, *words: object, cwd: Path | None = None, seconds: int = SECONDS) -> Outcome:
        """Run `embedbench WORDS`."""
        return self._ask({"words": [str(w) for w in words]}, cwd, seconds)

    def call(self, function: str, *args: object, seconds: int = SECONDS) -> Outcome:
        """Call `module:function` of the tests' helpers with texts; print what it returns."""
        return self._ask({"call": function, "args": [str(a) for a in args]}, None, seconds)

    def _ask(self, what: dict[str, Any], cwd: Path | None, seconds: int) -> Outcome:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {**what, "cwd": None if cwd is None else str(cwd), "seconds": seconds}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return Outcome(**json.loads(self._process.stdout.readline()))


def serve() -> None:
    """Answer each line of stdin with one line of JSON."""
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            __import__(name)
    leases.PATIENCE = 2.0  # a minute is too long for thousands of cases
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    normal = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for line in sys.stdin:
        asked = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = os.fork()
            if child == 0:
                _become(asked, out.fileno(), err.fileno())
            code, hung, peak = _wait(child, 6 * asked["seconds"])
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode(errors="replace"))
        memory = max(0, peak - normal) * 1024
        answers.write(json.dumps(vars(Outcome(code, *texts, hung, memory))) + "\n")
        answers.flush()


def _become(asked: dict[str, Any], out: int, err: int) -> None:
    """In the child: run the command and end."""
    code = 70
    try:
        os.setsid()
        os.dup2(out, 1)
        os.dup2(err, 2)
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        resource.setrlimit(resource.RLIMIT_AS, (CEILING, CEILING))
        resource.setrlimit(resource.RLIMIT_CPU, (asked["seconds"], asked["seconds"] + 5))
        if asked["cwd"]:
            os.chdir(asked["cwd"])
        code = _command(asked["words"]) if "words" in asked else _called(asked)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _command(words: Sequence[str]) -> int:
    from embedbench.cli.app import main

    sys.argv = ["embedbench", *words]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return 0


def _called(asked: dict[str, Any]) -> int:
    from embedbench.errors import UserError

    module, _, name = asked["call"].partition(":")
    try:
        print(getattr(__import__(module), name)(*asked["args"]))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _wait(child: int, seconds: float) -> tuple[int, bool, int]:
    """Exit code, whether it hung, and its peak memory in KiB."""
    end, pause = time.monotonic() + seconds, 0.001
    hung = False
    while True:
        pid, status, used = os.wait4(child, os.WNOHANG)
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # what it left behind
            code = os.waitstatus_to_exitcode(status)
            return code, hung or code == -signal.SIGXCPU, used.ru_maxrss
        if time.monotonic() > end:
            hung, end = True, float("inf")
            os.killpg(child, signal.SIGKILL)
        time.sleep(pause)
        pause = min(0.02, pause * 1.5)


def said(file: str) -> str:
    """SHA-256 of all that an embedding file says, read through the package."""
    import hashlib

    from embedbench.files.embedding_file import EmbeddingFile

    opened = EmbeddingFile.open(Path(file))
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


def answered(file: str) -> str:
    """SHA-256 of all arrays of a predictions file, read through the package."""
    import hashlib
    from dataclasses import fields

    from embedbench.scores.label_set_predictions import load_any

    loaded = load_any(Path(file))
    sha = hashlib.sha256()
    for field in fields(loaded):
        array = getattr(loaded, field.name)
        if array is None:  # a table that plain answers lack
            continue
        sha.update(f"{field.name} {array.dtype.str} {array.shape}".encode() + array.tobytes())
    return sha.hexdigest()
