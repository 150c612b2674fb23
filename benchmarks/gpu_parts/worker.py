"""The process of a part: an error in it, even of the card's context, does not stop the others."""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from gpu_parts.step import Bench, Step

FATAL = ("CUDA error", "cuBLAS", "CUBLAS_STATUS", "cuDNN error", "device-side assert")
Steps = Callable[[], Sequence[Step]]


def serve(pipe: Connection, steps: Steps, bench: Bench) -> None:
    """Answer one step after the other; end at once when the parent has ended."""
    os.setsid()  # this process leads its group: its children end with it
    os.dup2(2, 1)  # what steps print goes to stderr
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    by_name = {step.name: step for step in steps()}
    error = ""
    while not any(word in error for word in FATAL):  # a broken context cannot be repaired
        name, bench.kept = pipe.recv()
        bench.left = {}
        answer = _run(by_name[name], bench)
        error = answer.get("error", "")
        pipe.send(answer)


def _run(step: Step, bench: Bench) -> dict[str, Any]:
    began = time.perf_counter()
    try:
        figures = [dataclasses.asdict(f) for f in step.run(bench)]
    except Exception as error:  # any error of a step is its result
        traceback.print_exc()
        last = traceback.format_exception_only(error)[-1].strip().splitlines()[0]
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{last} ({Path(where.filename).name}:{where.lineno})"
        return {"error": text, "seconds": time.perf_counter() - began}
    return {"figures": figures, "left": bench.left, "seconds": time.perf_counter() - began}


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os.killpg(0, signal.SIGKILL)


class Worker:
    """The parent's side of a process, which finds its steps by itself."""

    def __init__(self, steps: Steps, bench: Bench) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, steps, bench))
        self.process.start()
        theirs.close()

    def ask(self, step: str, kept: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Run a step for at most `seconds`; `late` in the answer means that it was killed."""
        began = time.perf_counter()
        try:
            self.pipe.send((step, kept))
            if not self.pipe.poll(max(seconds, 0.0)):
                self.end()
                return {"late": True, "seconds": time.perf_counter() - began}
            answer: dict[str, Any] = self.pipe.recv()
            return answer
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode or 0
            how = f"signal {-code}" if code < 0 else f"exit status {code}"
            text = f"the process ended with {how}"
            return {"error": text, "seconds": time.perf_counter() - began}

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.is_alive()

    def end(self) -> None:
        """End the process and all its children."""
        self.process.kill()  # before it leads a group there is none
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid or 0, signal.SIGKILL)
        self.process.join()
