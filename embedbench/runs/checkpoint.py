"""Checkpoints: what a run needs to go on where it was cut off, in a directory beside its place.

============  ======================  =================================  ========================
File          Written after           Holds                              Without it
============  ======================  =================================  ========================
`begun.json`  the first checkpoint    what decides the run; its threads  the run begins anew
`sessions`    a session               the learner, its answers and logs  the run begins anew
`fit-I-N`     an epoch of a training  net, optimiser, best epoch so far  the training begins anew
`fit-I-N`     the end of a training   net, optimiser, log                the training begins anew
============  ======================  =================================  ========================

`fit-I-N`, the N-th training in session I, goes once `sessions` holds that session. Files are
written `seconds` apart. What none of them holds is learned again, from the same seeds.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, cast

from embedbench.disk import write_safely
from embedbench.errors import UserError

from .states import packed, put_state, random_states, set_random_states, state_of, unpacked

BEGUN, SESSIONS = "begun.json", "sessions"
CHECKSUM = 32  # bytes before the contents of a file


class Stateful(Protocol):
    """A learner, or what collects its answers."""

    def state_dict(self) -> dict[str, Any]:
        """All that it must remember."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""


class UnusableError(Exception):
    """A run cannot go on from its checkpoint; says why in one clause."""


class CheckpointDirectory:
    """Saves what a run needs to go on, and gives it back to the run that goes on.

    A file is written under another name and renamed, and begins with a checksum over its contents
    and over what decides the run, so that nothing damaged and nothing of another run is read.

    Parameters
    ----------
    directory : Path
        Where the files lie; made when the first checkpoint is due.
    decided : dict
        What the run's result depends on, JSON values by name.
    seconds : float
        From one checkpoint to the next at least, and before the first; 0 saves every one.
    threads : int
        Of the run; one that goes on has those that it was begun with.
    device : str
        Of the run.
    tell : callable
        Takes a sentence.
    """

    def __init__(
        self,
        directory: Path,
        decided: dict[str, Any],
        *,
        seconds: float,
        threads: int = 1,
        device: str = "cpu",
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.directory, self.decided, self.threads = directory, decided, threads
        self.device, self.seconds, self.tell = device, seconds, tell
        self.resumed = 0  # how often the run went on
        self.carried = 0.0  # seconds of the session at work that were spent before it was cut off
        self._mark = json.dumps(decided, sort_keys=True).encode()
        self._stored: dict[str, Any] | None = None
        self._named = False  # this process has written `begun.json`
        self._waiting: dict[str, bytes] = {}  # trainings that have ended since the last checkpoint
        self._session = self._fits = 0  # the session at work, and the trainings begun in it
        self._began = self._saved = self._ended = time.perf_counter()
        nothing: dict[str, Any] = {"learner": None, "evaluator": None, "logs": []}
        self._start = packed({**nothing, "random": random_states(device)})

    def open(self) -> bool:
        """Whether there is a checkpoint of the run to go on from.

        Raises
        ------
        UnusableError
            There is one that is damaged, or was made under other conditions.
        """
        if not (self.directory / BEGUN).exists():
            self.clear()
            return False
        try:
            begun = json.loads((self.directory / BEGUN).read_text(encoding="utf-8"))
            there, threads, resumed = begun["decided"], int(begun["threads"]), int(begun["resumed"])
            other = [name for name, value in self.decided.items() if there.get(name) != value]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnusableError(f"{BEGUN} is damaged") from error
        if other:
            was, now = there.get(other[0]), self.decided[other[0]]
            short = all(isinstance(v, str) and len(v) <= 40 for v in (was, now))
            both = f": {was} there, {now} here" if short else ""
            raise UnusableError(f"it was made with another {other[0]}{both}")
        self._stored = self._read(SESSIONS)
        if self._stored is None:
            raise UnusableError(f"{SESSIONS} is missing")
        self.threads, self.resumed = threads, resumed + 1
        self._save({})
        return True

    @property
    def sessions(self) -> int:
        """Sessions that the checkpoint holds, before `restore` hands them out."""
        return len(self._stored["logs"]) if self._stored else 0

    def clear(self) -> None:
        """Forget the checkpoint."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self._stored, self._named, self.resumed = None, False, 0

    def restore(self, learner: Stateful, evaluator: Stateful) -> list[Any]:
        """Bring a learner that has started, and an evaluator, to the end of the last saved session.

        Returns the logs of the sessions so far, none if the run begins.
        """
        if self._stored is None:
            return []
        stored, self._stored = self._stored, None
        try:
            if stored["logs"]:
                learner.load_state_dict(stored["learner"])
                evaluator.load_state_dict(stored["evaluator"])
            set_random_states(stored["random"], self.device)
        except Exception as error:  # whatever a learner makes of a state that is not its own
            raise UnusableError(f"{SESSIONS} does not fit ({type(error).__name__})") from error
        return cast(list[Any], stored["logs"])

    def begin(self, number: int) -> None:
        """A session is to be learned now."""
        self._session, self._fits, self.carried = number, 0, 0.0
        self._waiting.clear()
        self._began = time.perf_counter()

    def end(self, learner: Stateful, evaluator: Stateful, logs: list[Any]) -> None:
        """Save the learner, the answers and the logs after a session, if a checkpoint is due."""
        if time.perf_counter() - self._ended < self.seconds:
            return
        state = {
            "learner": learner.state_dict(),
            "evaluator": evaluator.state_dict(),
            "logs": logs,
            "random": random_states(self.device),
        }
        try:
            data = packed(state)
        except Exception as error:  # whatever the pickler makes of a learner's state
            self._give_up(error)
            return
        self._save({SESSIONS: data})
        for path in self.directory.glob("fit-*"):
            path.unlink(missing_ok=True)
        self._ended = self._saved

    def resume(self, parts: dict[str, Any]) -> tuple[int, dict[str, Any] | None]:
        """Bring the parts of a training that begins to where it was cut off; see `Checkpoint`."""
        self._fit = f"fit-{self._session}-{self._fits}"
        self._fits += 1
        stored = self._read(self._fit) if self.resumed else None
        if stored is None:
            return 0, None
        try:
            for name, state in stored["parts"].items():
                put_state(parts[name], state)
            set_random_states(stored["random"], self.device)
        except Exception as error:  # whatever a part makes of a state that is not its own
            raise UnusableError(f"{self._fit} does not fit ({type(error).__name__})") from error
        self.carried = stored["seconds"] - (time.perf_counter() - self._began)
        return stored["epochs"], stored["log"]

    def save_epoch(self, epochs: int, parts: dict[str, Any]) -> None:
        """Save a training after some epochs, if a checkpoint is due."""
        if self._due():
            self._save({**self._waiting, self._fit: self._training(epochs, None, parts)})
            self._waiting.clear()

    def save_end(self, log: dict[str, Any], parts: dict[str, Any]) -> None:
        """Save a training that has ended, now or with the next checkpoint of its session."""
        self._waiting[self._fit] = self._training(log["epochs"], log, parts)
        if self._due():
            self._save(self._waiting)
            self._waiting.clear()

    def _due(self) -> bool:
        return time.perf_counter() - self._saved >= self.seconds

    def _training(self, epochs: int, log: dict[str, Any] | None, parts: dict[str, Any]) -> bytes:
        return packed(
            {
                "epochs": epochs,
                "log": log,
                "parts": {name: state_of(p) for name, p in parts.items() if p is not None},
                "random": random_states(self.device),
                "seconds": self.carried + time.perf_counter() - self._began,
            }
        )

    def _save(self, files: dict[str, bytes]) -> None:
        """Write files; the first time `begun.json` after them, without which they do not count."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            if not self._named and not self.resumed:
                files = {SESSIONS: self._start, **files}
            for name, data in files.items():
                write_safely(self.directory / name, self._checksum(data) + data)
            if not self._named:
                begun = {"threads": self.threads, "resumed": self.resumed, "decided": self.decided}
                write_safely(self.directory / BEGUN, json.dumps(begun, indent=1).encode())
                self._named = True
        except (OSError, UserError) as error:
            self._give_up(error)
        self._saved = time.perf_counter()

    def _give_up(self, error: Exception) -> None:
        self.tell(f"no checkpoint can be kept, the run goes on without: {error}")
        self.seconds = math.inf

    def _read(self, name: str) -> dict[str, Any] | None:
        """What a file holds; None if there is none."""
        try:
            data = (self.directory / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UnusableError(f"{name} cannot be read ({error})") from error
        if data[:CHECKSUM] != self._checksum(data[CHECKSUM:]):
            raise UnusableError(f"{name} is damaged")
        try:
            stored = unpacked(data[CHECKSUM:], self.device)
        except Exception as error:  # whatever the unpickler makes of a class that is gone
            raise UnusableError(f"{name} cannot be read ({type(error).__name__})") from error
        return stored

    def _checksum(self, data: bytes) -> bytes:
        return hashlib.sha256(self._mark + data).digest()
