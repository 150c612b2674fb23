"""Trackers: finished runs are replayed to TensorBoard, Weights & Biases, or one of other people.

What has been replayed is remembered in `.tracked.json` in the directory of all runs, so that
nothing is replayed twice. A search for settings leaves no run, so nothing of it reaches a tracker.
"""

from __future__ import annotations

import difflib
import json
import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

from embedbench import leases, plugins
from embedbench.disk import read_text, write_safely
from embedbench.errors import UserError, printable, short
from embedbench.scores import record
from embedbench.scores.checked import Checker
from embedbench.scores.compare import MISSING
from embedbench.scores.run_record import RunRecord
from embedbench.typed import JsonRecord, parse_json

from .run_data import Run

TRACKERS = {
    "tensorboard": "event files in DIR: tensorboard:DIR",
    "wandb": "Weights & Biases, online or offline as WANDB_MODE says: wandb:PROJECT",
}
SEEN, LEASE = ".tracked.json", ".tracked.lease"


class Tracker(Protocol):
    """What takes runs. Of each run, the calls come in this order; `close` comes at the end of all.

    A tracker is made by a function of one text: what follows its name in `--to NAME:TEXT`.
    """

    def cell_started(self, cell: Run) -> None:
        """A run begins: `cell.name`, and its settings in `cell.row()`."""

    def session(self, cell: Run, i: int, scores: dict[str, float], log: dict[str, Any]) -> None:
        """Session i, from 0, is learned and evaluated.

        Parameters
        ----------
        cell : Run
            The run.
        i : int
            The session.
        scores : dict
            Of the test data: the main score over all classes so far, under its name; the curves of
            docs/record.md; and `R/j`, the score on eval set j. NaN is left out.
        log : dict
            Seconds, bytes, and the learner's log of the session.
        """

    def cell_done(self, record: RunRecord) -> None:
        """The run that began last is finished, with these metrics."""

    def close(self) -> None:
        """Nothing follows."""


@dataclass(frozen=True)
class _Seen(JsonRecord):
    """What was replayed: tracker → run → SHA-256 of its predictions."""

    trackers: dict[str, dict[str, str]] = field(default_factory=dict)


def make_tracker(text: str) -> Tracker:
    """The tracker that `--to` names, such as "tensorboard:DIR".

    Raises
    ------
    UserError
        It is unknown, its library is missing, or it cannot be made.
    """
    name, target = _parts(text)
    make = _maker(name)
    try:
        return make(target)
    except UserError:
        raise
    except Exception as e:  # code of other people
        raise UserError(f"--to {text} made no tracker: {type(e).__name__}: {e}") from e


def _maker(name: str) -> Callable[[str], Tracker]:
    """The class or function that makes a tracker from its target."""
    if name == "tensorboard":
        from .track_tensorboard import TensorBoard

        return TensorBoard
    if name == "wandb":
        from .track_wandb import WeightsAndBiases

        return WeightsAndBiases
    try:
        return cast(Callable[[str], Tracker], plugins.load("trackers", name, TRACKERS))
    except UserError as e:
        head = name.partition(":")[0]
        if difflib.get_close_matches(head, TRACKERS, n=1):
            raise plugins.absent("trackers", head, TRACKERS) from e
        raise


def _parts(text: str) -> tuple[str, str]:
    """Name and target of `name:target` or `package.module:Name:target`."""
    name, _, target = text.partition(":")
    if name in TRACKERS or name in plugins.entry_points_by_name("trackers"):
        if name in TRACKERS and not target:
            raise UserError(f"--to {name} needs a target: {TRACKERS[name].rpartition(' ')[2]}")
        return name, target
    attribute, _, target = target.partition(":")
    if not attribute:
        raise plugins.absent("trackers", name, TRACKERS)
    return f"{name}:{attribute}", target


def track(
    root: Path,
    names: Sequence[str],
    *,
    notify: Callable[[str], None],
    watch: float | None = None,
    wait: Callable[[float], None] = time.sleep,
) -> int:
    """Replay finished runs to trackers; those that each has got before are skipped.

    Runs whose references are not finished wait for them, since Ω would be missing.

    Parameters
    ----------
    root : Path
        The directory of all runs.
    names : sequence of str
        Trackers, as `--to` takes them.
    tell : callable
        Takes a sentence on each run that is left out.
    watch : float or None
        Seconds after which to look for new runs, again and again until Ctrl-C; None looks once.
    wait : callable
        Waits so many seconds.

    Returns
    -------
    int
        The number of replays.

    Raises
    ------
    UserError
        A tracker cannot be made or fails, or another process tracks these runs.
    """
    record.find(root)  # refuses what is no directory
    lease = leases.take(root / LEASE)
    if lease is None:
        raise UserError(f"another process tracks the runs in {root}; wait until it ends")
    told: set[str] = set()

    def once(sentence: str) -> None:
        if sentence not in told:
            told.add(sentence)
            notify(sentence)

    with lease, ExitStack() as stack:
        trackers = {}
        for name in dict.fromkeys(names):
            trackers[name] = make_tracker(name)
            stack.callback(_call, name, trackers[name].close)
        done: dict[Path, int] = {}
        replays = _replay(root, trackers, once, done)
        try:
            while watch is not None:
                wait(watch)
                replays += _replay(root, trackers, once, done)
        except KeyboardInterrupt:  # how watching ends
            pass
    return replays


def _replay(
    root: Path, trackers: dict[str, Tracker], notify: Callable[[str], None], done: dict[Path, int]
) -> int:
    """Replay what is new, the run that finished first being the first; the number of replays.

    Parameters
    ----------
    done : dict
        Records that need not be looked at again, with the times of their last change.
    """
    seen, checker, replays, waiting = _seen(root), Checker(root, notify), 0, 0
    times = {place: (place / record.RECORD).stat().st_mtime_ns for place in record.find(root)}
    new = [place for place, changed in times.items() if done.get(place) != changed]
    for place in sorted(new, key=lambda p: (times[p], p)):
        try:
            made = checker.record(place)
            sha256 = record.predictions_sha256(place, made)
        except UserError as e:
            notify(printable(f"left out: {e}"))
            continue
        if made.reference.source == MISSING and made.reference.runs:
            waiting += 1
            continue
        run = Run.of(made, place, root)
        for name, tracker in trackers.items():
            mine = seen.trackers.setdefault(_key(name), {})
            if mine.get(run.name) == sha256:
                continue
            _call(name, partial(_send, run, tracker))
            replays, mine[run.name] = replays + 1, sha256
            write_safely(root / SEEN, json.dumps(seen.to_json(), indent=1) + "\n", sync=False)
        done[place] = times[place]
    if waiting:
        notify(f"{waiting} runs wait for their references; embedbench run makes them")
    return replays


def _send(run: Run, tracker: Tracker) -> None:
    """Give one run to a tracker."""
    made = run.record
    tracker.cell_started(run)
    for i, costs in enumerate(made.sessions):
        scores = {made.score: made.pooled[i]}
        scores |= {name: values[i] for name, values in (made.curves or {}).items()}
        scores |= {f"R/{j}": value for j, value in enumerate(made.R[i])}
        log = {
            "learn_seconds": costs.learn_seconds,
            "evaluate_seconds": costs.evaluate_seconds,
            "bytes": sum(costs.footprint.values()),
            **costs.log,
        }
        tracker.session(run, i, {k: v for k, v in scores.items() if not math.isnan(v)}, log)
    tracker.cell_done(made)


def _call(name: str, action: Callable[[], None]) -> None:
    try:
        action()
    except Exception as e:  # code of other people
        why = printable(f"{type(e).__name__}: {e}")
        raise UserError(f"the tracker {short(name)} failed: {why}") from e


def _key(name: str) -> str:
    """A tracker in `.tracked.json`; a directory by its whole path."""
    kind, _, target = name.partition(":")
    return f"{kind}:{Path(target).resolve()}" if kind == "tensorboard" else name


def _seen(root: Path) -> _Seen:
    path = root / SEEN
    if not path.exists():
        return _Seen()
    return _Seen.from_json(parse_json(read_text(path), str(path)), str(path))
