"""Trackers: finished runs are replayed to TensorBoard, Weights & Biases, or one of other people.

What has been replayed is remembered in `.tracked.json` in the directory of all runs, so that
nothing is replayed twice. A search for settings leaves no run, so nothing of it reaches a tracker.
"""

import difflib
import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from embedbench import plugins
from embedbench.config.json_records import JsonRecord, parse_json
from embedbench.errors import UserError, error_text, keep_inside, short
from embedbench.scores import record_files
from embedbench.scores.offline_references import MISSING
from embedbench.scores.run_record import RunRecord
from embedbench.scores.verified_records import Checker
from embedbench.storage.atomic_write import write_safely
from embedbench.storage.regular_files import read_text
from embedbench.text.printable_text import printable
from embedbench.text.undecoded_text import as_text

from .load_results import Run
from .tracker_names import TRACKERS

T = TypeVar("T")
SEEN = ".tracked.json"


class Session(NamedTuple):
    """What a tracker gets of one session."""

    # of the test data: the main score over all classes so far, under its name; the curves of
    # `RunRecord`; and `R/j`, the score on eval set j; NaN is left out
    scores: dict[str, float]
    log: dict[str, Any]  # seconds, bytes, and the learner's log of the session


class Tracker(Protocol):
    """What takes runs.

    A tracker is made by a function of one text: what follows its name in `--to NAME:TEXT`.
    """

    def add_run(self, run: Run, sessions: Sequence[Session]) -> None:
        """Take a finished run: `run.name`, settings in `run.row()`, metrics in `run.record`."""


@dataclass(frozen=True)
class _Seen(JsonRecord):
    """What was replayed: tracker → run → SHA-256 of its predictions."""

    trackers: dict[str, dict[str, str]] = field(default_factory=dict)


def make_tracker(text: str) -> Tracker:
    """The tracker that `--to` names: `tensorboard:DIR`, or `package.module:Name:TARGET`."""
    name, _, target = text.partition(":")
    make: Callable[[str], Tracker]
    if name in TRACKERS:
        if not target:
            raise UserError(f"--to {name} needs a target: {TRACKERS[name].rpartition(' ')[2]}")
        make = TensorBoard if name == "tensorboard" else WeightsAndBiases
    else:
        known = plugins.entry_points_by_name("trackers")
        if target and name not in known and not difflib.get_close_matches(name, TRACKERS, n=1):
            attribute, _, target = target.partition(":")
            name = f"{name}:{attribute}"
        make = plugins.load("trackers", name, TRACKERS)
    return _call(text, partial(make, target))


def track(root: Path, names: Sequence[str], *, notify: Callable[[str], None]) -> int:
    """Replay finished runs to trackers, as they finished; those that each has got are skipped.

    Runs whose references are not finished wait for them, since Ω would be missing. `notify` takes
    a sentence on each run that is left out. The result is the number of replays. A tracker that
    fails at a run gets the others all the same; an error at the end counts what failed.
    """
    places = record_files.find(root)
    trackers = {name: make_tracker(name) for name in names}
    notify = cache(notify)
    seen = _seen(root)
    checker = Checker(root, notify)
    replays = 0
    waiting = 0
    failed: list[UserError] = []
    for place in sorted(places, key=lambda p: (p / record_files.RECORD).stat().st_mtime_ns):
        try:
            made = checker.record(place)
            sha256 = record_files.predictions_sha256(place, made)
        except UserError as e:
            notify(printable(f"left out: {e}"))
            continue
        if made.reference.source == MISSING and made.reference.runs:
            waiting += 1
            continue
        run = Run(place, root, made)
        for name, tracker in trackers.items():
            mine = seen.trackers.setdefault(_key(name), {})
            if mine.get(run.name) == sha256:
                continue
            try:
                _call(name, partial(tracker.add_run, run, _sessions(made)))
            except UserError as e:
                failed.append(e)
                notify(printable(f"failed: {run.name}: {e}"))
                continue
            replays, mine[run.name] = replays + 1, sha256
            write_safely(root / SEEN, json.dumps(seen.to_json(), indent=1) + "\n", sync=False)
    if waiting:
        notify(f"{waiting} runs wait for their references; embedbench run makes them")
    if failed:
        raise UserError(
            f"{len(failed)} replays failed, {replays} did not; the first: {failed[0]}",
            "the same command tries them again",
        )
    return replays


def _sessions(made: RunRecord) -> list[Session]:
    sessions = []
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
        sessions.append(Session({k: v for k, v in scores.items() if not math.isnan(v)}, log))
    return sessions


def _call(name: str, action: Callable[[], T]) -> T:
    try:
        with keep_inside("it"):
            return action()
    except UserError:
        raise
    except Exception as e:  # code of other people
        why = printable(error_text(e))
        raise UserError(f"the tracker {short(name)} failed: {why}") from e


def _key(name: str) -> str:
    """A tracker in `.tracked.json`; a directory by its whole path."""
    kind, _, target = name.partition(":")
    return as_text(f"{kind}:{Path(target).resolve()}" if kind == "tensorboard" else name)


def _seen(root: Path) -> _Seen:
    path = root / SEEN
    if not path.exists():
        return _Seen()
    return _Seen.from_json(parse_json(read_text(path), str(path)), str(path))


# --- our trackers ---

SETTINGS = ("learner", "protocol", "seed", "files", "order")


def _chosen(row: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The values of a run under these names, and under those within them: `learner.lam`."""
    return {k: v for k, v in row.items() if k.partition(".")[0] in names}


def _numbers(session: Session) -> dict[str, float]:
    """The numbers of a session as `scores/NAME` and `log/NAME`."""
    log = {f"log/{k}": v for k, v in session.log.items() if isinstance(v, int | float)}
    return {f"scores/{k}": v for k, v in session.scores.items()} | log


class TensorBoard:
    """One folder a run, in that which `tensorboard --logdir` gets: curves, metrics, settings."""

    def __init__(self, target: str) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UserError(
                "--to tensorboard needs TensorBoard: pip install 'embedbench-cl[tensorboard]'"
            ) from None
        self._make = SummaryWriter
        self._root = Path(target)

    def add_run(self, run: Run, sessions: Sequence[Session]) -> None:
        """Write the run's event file: a point of each curve a session, and the HPARAMS."""
        row = run.row()
        metrics = run.record.metrics
        settings = {
            k: v if isinstance(v, bool | str | int | float) else str(v)
            for k, v in _chosen(row, SETTINGS).items()
        }
        with self._make(str(self._root / run.name)) as writer:
            writer.add_text("command", row["command"])
            for i, session in enumerate(sessions):
                for name, value in _numbers(session).items():
                    writer.add_scalar(name, value, i)
            known = {f"metrics/{k}": v for k, v in metrics.items() if v == v}
            writer.add_hparams(settings, known, run_name=".")


class WeightsAndBiases:
    """One run there for each run here, with the same id each time, in PROJECT or ENTITY/PROJECT.

    `WANDB_MODE=offline` writes them to files, see its own pages.
    """

    def __init__(self, target: str) -> None:
        try:
            import wandb
        except ImportError:
            raise UserError(
                "--to wandb needs Weights & Biases: pip install 'embedbench-cl[wandb]'"
            ) from None
        self._wandb: Any = wandb
        self._entity, _, self._project = target.rpartition("/")

    def add_run(self, run: Run, sessions: Sequence[Session]) -> None:
        """Make a run with a step a session and the metrics; its group is its learner's."""
        row = run.row()
        key = f"{run.name} {row['digests.predictions'] or ''}"
        with self._wandb.init(
            project=self._project,
            entity=self._entity or None,
            name=run.name,
            id=hashlib.sha256(key.encode()).hexdigest()[:16],
            group=run.name.rpartition("/")[0],
            config=_chosen(row, (*SETTINGS, "command", "seeds", "digests", "environment")),
            settings=self._wandb.Settings(console="off", silent=True),
        ) as there:
            for i, session in enumerate(sessions):
                there.log(_numbers(session), step=i)
            for name, value in run.record.metrics.items():
                if value == value:
                    there.summary[f"metrics/{name}"] = value
