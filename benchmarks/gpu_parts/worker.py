"""The process of a part: an error in it, even of the card's context, does not stop the other parts.

It reads one step per line, as JSON, and answers each with one line of JSON. What the steps print
goes to stderr.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, TextIO

from gpu_parts.step import Bench, Step

FATAL = ("CUDA error", "cuBLAS", "CUBLAS_STATUS", "cuDNN error", "device-side assert")


def serve(steps: dict[str, Step], bench: Bench) -> None:
    """Answer until there are no more lines; end at once when the parent has ended."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    for line in sys.stdin:
        asked = json.loads(line)
        bench.kept, bench.left = asked["kept"], {}
        answer = _run(steps[asked["step"]], bench)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        if any(word in answer.get("error", "") for word in FATAL):
            return  # a broken context of the card cannot be repaired


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
    with contextlib.suppress(ProcessLookupError):
        os.killpg(0, signal.SIGKILL)  # this process leads its group, so its children end, too


class Worker:
    """The parent's side of a process.

    Parameters
    ----------
    command : list of str
        Command that starts a process that calls `serve`.
    """

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._last = ""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        for job, pipe in ((self._answers, self.process.stdout), (self._said, self.process.stderr)):
            threading.Thread(target=job, args=(pipe,), daemon=True).start()

    def _answers(self, pipe: TextIO) -> None:
        for line in pipe:
            self._lines.put(line)
        self._lines.put(None)

    def _said(self, pipe: TextIO) -> None:
        for line in pipe:
            sys.stderr.write(line)
            self._last = line.strip() or self._last

    def ask(self, step: str, kept: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Run a step for at most `seconds`; `late` in the answer means that it was killed."""
        began = time.perf_counter()
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"step": step, "kept": kept}) + "\n")
            self.process.stdin.flush()
            line = self._lines.get(timeout=max(seconds, 0.0))
        except queue.Empty:
            self.end()
            return {"late": True, "seconds": time.perf_counter() - began}
        except BrokenPipeError:
            line = None
        if line is None:
            code = self.process.wait()
            how = f"signal {-code}" if code < 0 else f"exit status {code}"
            said = f"; it said last: {self._last}" if self._last else ""
            return {
                "error": f"the process ended with {how}{said}",
                "seconds": time.perf_counter() - began,
            }
        answer: dict[str, Any] = json.loads(line)
        return answer

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.poll() is None

    def end(self) -> None:
        """End the process and all its children."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
