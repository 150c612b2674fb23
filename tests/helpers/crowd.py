"""Several commands at once on one directory, killed at random moments; what they leave."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from commands import CONTEXT, command, stored


class Member:
    """One `embedbench WORDS`, as a process that leads its group.

    Parameters
    ----------
    words : sequence of str
        The command line.
    log : Path
        Gets one line for each cell that is taught and each file that is synced.
    """

    def __init__(self, words: Sequence[object], log: Path) -> None:
        self.printed = log.with_name(f"{log.name}.txt")
        self.process = CONTEXT.Process(
            target=_command, args=([str(w) for w in words], log, self.printed)
        )
        self.process.start()

    def kill(self) -> list[int]:
        """Kill the process alone; return the processes that it had started."""
        assert self.process.pid is not None
        below = _below(self.process.pid)
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()
        return below

    def end(self, seconds: float = 300) -> str:
        """Wait for it; return what it printed. It must have succeeded, now or before."""
        self.process.join(seconds)
        text = self.printed.read_text()
        done = "exists; choose another name" in text  # an extraction that was killed too late
        assert done or self.process.exitcode == 0, f"exit code {self.process.exitcode}: {text}"
        return text


def _command(words: list[str], log: Path, printed: Path) -> None:
    from embedbench.runs import run_one

    note = log.open("a", buffering=1)
    taught, fsync = run_one.train_and_predict, os.fsync

    def teach(task: Any, *rest: Any) -> Any:
        print(json.dumps(["taught", str(task.run_dir)]), file=note)
        return taught(task, *rest)

    def sync(handle: int) -> None:
        fsync(handle)
        state = os.fstat(handle)
        print(json.dumps(["synced", state.st_ino, state.st_size]), file=note)

    run_one.train_and_predict, os.fsync = teach, sync  # type: ignore[assignment]
    command(words, printed)


def events(log: Path, kind: str) -> list[list[Any]]:
    """What the processes logged."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [e[1:] for e in map(json.loads, lines) if e[0] == kind]


def cut_power(root: Path, log: Path) -> int:
    """Cut every file under `root` to what was synced of it; returns how many were cut."""
    synced = dict(events(log, "synced"))
    cut = 0
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            state = path.stat()
            kept = min(state.st_size, synced.get(state.st_ino, 0))
            if kept < state.st_size:
                os.truncate(path, kept)
                cut += 1
    return cut


def answers(root: Path) -> dict[str, dict[str, bytes]]:
    """All arrays of all predictions under a directory, by place and name."""
    return {
        str(p.parent.relative_to(root)): {k: v.tobytes() for k, v in stored(p.parent).items()}
        for p in sorted(root.rglob("predictions.h5"))
    }


def metrics(root: Path) -> dict[str, Any]:
    """The metrics of all records under a directory."""
    return {
        str(p.parent.relative_to(root)): json.loads(p.read_text())["by_score"]
        for p in sorted(root.rglob("record.json"))
    }


def _below(pid: int) -> list[int]:
    """The processes that a process started, and those that these started (Linux)."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [p for child in map(int, children) for p in (child, *_below(child))]


def alive(pids: Sequence[int], seconds: float = 15) -> list[int]:
    """Those that have not ended after a while."""
    end = time.monotonic() + seconds
    left = list(pids)
    while left and time.monotonic() < end:
        left = [pid for pid in left if _runs(pid)]
        time.sleep(0.05)
    return left


def _runs(pid: int) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
