"""The process of a part: an error in it, even of the card's context, does not stop the others."""

from __future__ import annotations

import dataclasses
import os
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

from embedbench.engines.local_pool import end_with_parent
from gpu_parts.step import Bench, Step

FATAL = ("CUDA error", "cuBLAS", "CUBLAS_STATUS", "cuDNN error", "device-side assert")


class Worker:
    """A process that runs one step after the other, and ends with this one."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.alive = bench, True
        self._pool = ProcessPoolExecutor(1, get_context("spawn"), initializer=_begin)

    def ask(self, step: Step, seconds: float) -> dict[str, Any]:
        """Run a step for at most `seconds`; `late` in the answer means that it was killed."""
        began = time.perf_counter()
        try:
            answer = self._pool.submit(_run, step, self.bench).result(max(seconds, 0.0))
        except TimeoutError:
            answer = {"late": True}
            self.end()
        except BrokenProcessPool:
            answer = {"error": "the process ended"}
            self.end()
        if any(word in answer.get("error", "") for word in FATAL):
            self.end()  # a broken context cannot be repaired
        return {**answer, "seconds": time.perf_counter() - began}

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self.alive = False
        for process in active_children():
            process.kill()
        self._pool.shutdown()


def _begin() -> None:
    end_with_parent()
    os.dup2(2, 1)  # what steps print goes to stderr


def _run(step: Step, bench: Bench) -> dict[str, Any]:
    try:
        return {"figures": [dataclasses.asdict(figure) for figure in step.run(bench)]}
    except Exception as error:  # any error of a step is its result
        traceback.print_exc()
        last = traceback.format_exception_only(error)[-1].strip().splitlines()[0]
        where = traceback.extract_tb(error.__traceback__)[-1]
        return {"error": f"{last} ({Path(where.filename).name}:{where.lineno})"}
