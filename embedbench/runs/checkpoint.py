"""Checkpoints: what a run needs to go on where it was cut off, in a directory beside its own.

============  ======================  =================================  ========================
File          Written after           Holds                              Without it
============  ======================  =================================  ========================
`begun.json`  every checkpoint        what decides the run                the run begins anew
`sessions`    a session               the learner, its answers and logs  the run begins anew
`fit-I-N`     an epoch of a training  net, optimiser, best epoch so far  the training begins anew
`fit-I-N`     the end of a training   net, optimiser, log                the training begins anew
============  ======================  =================================  ========================

`fit-I-N`, the N-th training in session I, goes once `sessions` holds that session. Files are
written `seconds` apart. What none of them holds is learned again, from the same seeds. Reading them
runs no code: `begun.json` is JSON, the others are safetensors and JSON after a checksum
(`checkpoint_state`).
"""

import json
import math
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedbench.config.format_versions import NewerFormatError, check_version
from embedbench.config.json_records import JsonRecord, plain
from embedbench.engines.engine_tasks import TimeUpError, ends_soon
from embedbench.errors import UserError, keep_inside
from embedbench.learning import checkpoint_state
from embedbench.learning.learner import Checkpoint
from embedbench.scores.run_record import SessionCosts
from embedbench.storage.atomic_write import write_safely
from embedbench.storage.regular_files import open_regular

BEGUN, SESSIONS = "begun.json", "sessions"
FORMAT = 2  # of all files


@dataclass(frozen=True)
class _Begun(JsonRecord):
    """Contents of `begun.json`."""

    resumed: int  # how often the run went on
    decided: dict[str, Any]
    format: int = 1  # before it had a number, checkpoints were pickled


class UnusableError(Exception):
    """A run cannot go on from its checkpoint; says why in one clause."""


class CheckpointDirectory(Checkpoint):
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
    device : str
        Of the run.
    notify : callable
        Takes a sentence.
    is_mine : callable
        Whether no other process writes to the directory; asked before each change there.
    """

    def __init__(
        self,
        directory: Path,
        decided: dict[str, Any],
        *,
        seconds: float,
        device: str = "cpu",
        notify: Callable[[str], None] = lambda _: None,
        is_mine: Callable[[], bool] = lambda: True,
    ) -> None:
        self.directory, self.decided = directory, decided
        self.device, self.seconds, self.notify, self._is_mine = device, seconds, notify, is_mine
        self.resumed = 0  # how often the run went on
        self._is_begun = False  # whether the directory has a checkpoint of the run
        self._mark = json.dumps(decided, sort_keys=True).encode()
        self._stored: dict[str, Any] | None = None
        self._saved = self._ended = time.perf_counter()
        nothing: dict[str, Any] = {"learner": None, "evaluator": None, "logs": []}
        self._start = checkpoint_state.pack_state(
            {**nothing, "random": checkpoint_state.random_states(device)}, self._mark
        )

    def open(self) -> bool:
        """Whether there is a checkpoint of the run to go on from.

        Raises
        ------
        UnusableError
            There is one that is damaged, or was made under other conditions.
        """
        if (begun := _begun(self.directory)) is None:
            self.clear()
            return False
        other = [name for name, value in self.decided.items() if begun.decided.get(name) != value]
        if other:
            raise UnusableError(f"it was made with another {other[0]}")
        self._stored = self._read(SESSIONS)
        if self._stored is None or not isinstance(self._stored.get("logs"), list):
            raise UnusableError(f"{SESSIONS} is missing or damaged")
        self.resumed = begun.resumed + 1
        self._is_begun = True
        self._save({})
        return True

    @property
    def sessions(self) -> int:
        """Sessions that the checkpoint holds, before `restore` hands them out."""
        return len(self._stored["logs"]) if self._stored else 0

    def clear(self) -> None:
        """Forget the checkpoint."""
        if self._is_mine():
            shutil.rmtree(self.directory, ignore_errors=True)
        self._stored, self.resumed, self._is_begun = None, 0, False

    def restore(self, learner: Any, evaluator: Any) -> list[SessionCosts]:
        """Bring a learner that has started, and an evaluator, to the end of the last saved session.

        Returns the logs of the sessions so far, none if the run begins.
        """
        if self._stored is None:
            return []
        stored = self._stored
        self._stored = None
        try:
            if stored["logs"]:
                with keep_inside("the learner"):
                    learner.load_state_dict(stored["learner"])
                evaluator.load_state_dict(stored["evaluator"])
            checkpoint_state.set_random_states(stored["random"], self.device)
            logs = [SessionCosts.from_json(log) for log in stored["logs"]]
            json.dumps(plain(logs))  # a record can hold them
        except Exception as error:  # whatever a learner makes of a state that is not its own
            raise UnusableError(f"{SESSIONS} does not fit ({type(error).__name__})") from error
        return logs

    def begin(self, number: int) -> None:
        """A session is to be learned now."""
        self._session, self._fits = number, 0  # the session at work, and the trainings begun in it
        self.carried = 0.0  # seconds of it that were spent before it was cut off
        self._began = time.perf_counter()

    def end(self, learner: Any, evaluator: Any, logs: list[SessionCosts]) -> None:
        """Save the learner, the answers and the logs after a session, if a checkpoint is due."""
        if not self._due(self._ended):
            return
        state = {
            "learner": learner.state_dict(),
            "evaluator": evaluator.state_dict(),
            "logs": [vars(log) for log in logs],
            "random": checkpoint_state.random_states(self.device),
        }
        self._save({SESSIONS: state})
        if math.isinf(self.seconds):  # it could not be written
            return
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
                checkpoint_state.put_state(parts[name], state)
            checkpoint_state.set_random_states(stored["random"], self.device)
            done = int(stored["epochs"])
            spent = float(stored["seconds"])
            log: dict[str, Any] | None = stored["log"]
        except Exception as error:  # whatever a part makes of a state that is not its own
            raise UnusableError(f"{self._fit} does not fit ({type(error).__name__})") from error
        self.carried = spent - (time.perf_counter() - self._began)
        return done, log

    def save_training(
        self, epochs: int, parts: dict[str, Any], log: dict[str, Any] | None = None
    ) -> None:
        """Save a training after some epochs, or with its log when it has ended, if that is due."""
        if not self._due(self._saved):
            return
        state = {
            "epochs": epochs,
            "log": log,
            "parts": {
                name: checkpoint_state.take_state(p) for name, p in parts.items() if p is not None
            },
            "random": checkpoint_state.random_states(self.device),
            "seconds": self.carried + time.perf_counter() - self._began,
        }
        self._save({self._fit: state})

    def _due(self, last: float) -> bool:
        return ends_soon.is_set() or time.perf_counter() - last >= self.seconds

    def _save(self, states: dict[str, dict[str, Any]]) -> None:
        """Write states, and after them `begun.json`, without which they do not count.

        Raises
        ------
        TimeUpError
            They are written, and this process has no time to go on.
        """
        try:
            if not self._is_mine():
                raise UserError("another process has taken the run over")
            files = {n: checkpoint_state.pack_state(s, self._mark) for n, s in states.items()}
            self.directory.mkdir(parents=True, exist_ok=True)
            if not self._is_begun:
                files = {SESSIONS: self._start, **files}
            for name, data in files.items():
                write_safely(self.directory / name, data)
            self._is_begun = True
            begun = _Begun(self.resumed, self.decided, FORMAT)
            write_safely(self.directory / BEGUN, json.dumps(vars(begun), indent=1))
        except (OSError, UserError, RecursionError) as error:  # also of a state that is no data
            if self.seconds < math.inf:  # once
                self.notify(f"no checkpoint can be kept, the run goes on without: {error}")
            self.seconds = math.inf
        self._saved = time.perf_counter()
        if states and ends_soon.is_set() and self.seconds < math.inf:
            raise TimeUpError

    def _read(self, name: str) -> dict[str, Any] | None:
        """The contents of a file; None if there is none."""
        if (data := _bytes(self.directory / name)) is None:
            return None
        try:
            return checkpoint_state.unpack_state(data, self.device, self._mark)
        except checkpoint_state.DamagedStateError as error:
            raise UnusableError(f"{name} is damaged") from error


def saved_at(directory: Path) -> int:
    """When the newest state of a run was saved in a directory, in nanoseconds; 0: never."""
    with suppress(OSError):
        states = [path for path in directory.iterdir() if path.name != BEGUN]
        return max((path.stat().st_mtime_ns for path in states), default=0)
    return 0


def _begun(directory: Path) -> _Begun | None:
    """The contents of `begun.json`; None if there is none."""
    if (data := _bytes(directory / BEGUN)) is None:
        return None
    try:
        stored = json.loads(data)
        if isinstance(stored, dict) and stored.get("format", 1) not in range(FORMAT + 1):
            check_version(f"the checkpoint {directory}", stored["format"], [str(FORMAT)], "")
        begun = _Begun.from_json(stored)
    except NewerFormatError:  # the newer one may go on with it: the run is not begun anew
        raise
    except (ValueError, RecursionError, UserError) as error:
        raise UnusableError(f"{BEGUN} is damaged") from error
    if begun.format != FORMAT:
        raise UnusableError(f"{BEGUN} is damaged, or of an earlier version")
    return begun


def _bytes(path: Path) -> bytes | None:
    try:
        with open_regular(path) as file:
            return file.read()
    except FileNotFoundError:
        return None
    except (OSError, MemoryError) as error:
        raise UnusableError(f"{path.name} cannot be read ({error})") from error
