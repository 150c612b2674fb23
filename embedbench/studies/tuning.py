"""Choosing settings on validation data of a stream's first sessions; test data is never used."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, isclose, isnan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from embedbench.arrays import digest
from embedbench.config.json_types import JsonRecord, parse_json
from embedbench.engines.engine import HERE, Engine
from embedbench.engines.local_pool import use_card
from embedbench.errors import UserError
from embedbench.runs.run_spec import RunSpec
from embedbench.runs.run_task import StreamCache
from embedbench.storage import leases
from embedbench.storage.atomic_write import read_text, write_safely
from embedbench.streams.stream import EvalSet, Stream
from embedbench.system.callback_types import StageProgress
from embedbench.system.cpu import limit_threads

from .resolve import Grid

FEW = 200  # validation samples: one answer is half a point or more


def trial_stream(stream: Stream, sessions: int) -> Stream:
    """The first sessions of a stream, evaluated on their validation data; it has no test data.

    A multi-label stream is evaluated on its post-task validation data, as in the IIRC paper.

    Raises
    ------
    UserError
        The stream's validation data is its test data, or a session has none.
    """
    if stream.validation != "train":
        raise UserError(
            "this stream's validation data is its test data, on which nothing may be tuned; use "
            "--set protocol.validation=train"
        )
    kept = stream.sessions[:sessions]
    for i, session in enumerate(kept):
        if len(session.val_x) == 0:
            remedy = "raise protocol.val_fraction"
            if i:
                remedy = (
                    "few-shot sessions never have any: tune on the sessions before it with "
                    f"--tune-sessions {i}"
                )
            raise UserError(f"session {i} has no validation data to tune on; {remedy}")
    held = [replace(e, split="test") for e in stream.eval_sets if e.split == "val"]
    sets = tuple(held) or tuple(
        EvalSet(
            x=s.val_x,
            y=s.val_y,
            ids=s.val_ids,
            classes=e.classes,
            split="val",
            candidates=e.candidates,
        )
        for s, e in zip(kept, stream.eval_sets, strict=False)
    )
    return replace(
        stream, sessions=kept, eval_sets=sets, recipe=f"{stream.recipe} trial {sessions}", alone=()
    )


def trial_score(spec: RunSpec, sessions: int, threads: int, streams: StreamCache) -> float:
    """Mean-per-class accuracy on validation data, over all moments of the first sessions.

    Parameters
    ----------
    spec : RunSpec
        Learner, stream and seed.
    sessions : int
        How many sessions of the stream are learned.
    threads : int
        Threads of its arithmetic; see `limit_threads`.
    streams : StreamCache
        Builds the stream.
    """
    from embedbench.runs.stream_runner import run_stream
    from embedbench.scores.make_score_matrices import main_matrix

    use_card(spec.device)
    stream = trial_stream(streams.stream(spec), sessions)
    with limit_threads(threads):
        predictions, _ = run_stream(
            stream, spec.learner.fresh(), spec.seeds, spec.device, full=False
        )
    return float(np.mean(main_matrix(predictions).pooled))


@dataclass(frozen=True)
class _Log(JsonRecord):
    """The log of a search, as `tune` returns it."""

    learner: str
    grid: dict[str, tuple[Any, ...]]
    sessions: int
    seed: int
    tried: tuple[dict[str, Any], ...]
    chosen: dict[str, Any]


def tune(
    spec: RunSpec,
    grid: Grid,
    root: Path,
    *,
    sessions: int = 3,
    engine: Engine = HERE,
    threads: int = 1,
    progress: StageProgress = lambda *_: None,
    notify: Callable[[str], None] = lambda _: None,
    streams: StreamCache | None = None,
) -> dict[str, Any]:
    """Try every combination of a grid on a run's stream, and choose the best on validation data.

    The log is saved under `root/tuning`; a search that has finished there is not repeated. If
    several combinations are equally good, the first in the grid is chosen.

    Parameters
    ----------
    spec : RunSpec
        Learner, stream and seed.
    grid : Grid
        The values to try, by setting.
    root : Path
        The directory of all runs.
    sessions : int
        How many sessions of the stream a trial learns.
    engine : Engine
        Who runs the trials.
    threads : int
        Threads of each trial's arithmetic.
    progress : callable
        `progress(label, done, total)` is called with a label, the number of finished trials and the
        number of all trials.
    notify : callable
        Takes a sentence if another process is at this search, which is waited for.
    streams : StreamCache or None
        Files and streams that an earlier step opened; None opens them again.

    Returns
    -------
    dict
        "learner", "grid", "sessions", "seed", "tried" (the settings and the average incremental
        accuracy of each trial) and "chosen" (settings).
    """
    candidates = [dict(zip(grid, v, strict=True)) for v in itertools.product(*grid.values())]
    specs = [spec.with_settings(**settings) for settings in candidates]
    run_dir = (streams or StreamCache()).run_dir(spec, root).relative_to(root)
    key = digest(str(run_dir), json.dumps(dict(grid)), sessions)
    path = root / "tuning" / f"{spec.learner.name.replace(':', '.')}-{key[:8]}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    lease = leases.wait(
        leases.lease_path(path), path.is_file, f"the search for {spec.learner}", notify
    )
    if lease is None:
        kept = _Log.from_json(parse_json(read_text(path), str(path)), str(path)).to_json()
        tried = [each.get("settings") for each in kept["tried"]]
        if tried != candidates or kept["chosen"] not in candidates:
            raise UserError(f"{path} chose settings that are not tried here; delete it")
        return kept
    with lease:
        values = []
        trial = partial(trial_score, sessions=sessions, threads=threads)
        for value in _scores(specs, trial, engine, streams or StreamCache()):
            values.append(value)
            progress(f"tuning {spec.learner}", len(values), len(specs))
        best = max(range(len(values)), key=lambda i: -inf if isnan(values[i]) else values[i])
        log = _Log(
            learner=spec.learner.name,
            grid={k: tuple(v) for k, v in grid.items()},
            sessions=sessions,
            seed=spec.seed,
            tried=tuple(
                {"settings": c, "average_incremental_accuracy": v}
                for c, v in zip(candidates, values, strict=True)
            ),
            chosen=candidates[best],
        ).to_json()
        write_safely(path, json.dumps(log, indent=1, ensure_ascii=False) + "\n")
    return log


def _scores(
    specs: Sequence[RunSpec], trial: Callable[..., float], engine: Engine, streams: StreamCache
) -> Iterator[float]:
    """The score of each trial, as the engine runs them."""
    with engine.executor(len(specs)) as pool:
        if pool is None:
            yield from (trial(spec, streams=streams) for spec in specs)
            return
        trials = [pool.submit(trial, spec, streams=streams) for spec in specs]
        yield from (each.result() for each in trials)


def search(
    runs: Sequence[RunSpec],
    grids: Mapping[str, Grid],
    root: Path,
    *,
    sessions: int,
    engine: Engine,
    threads: int = 1,
    progress: StageProgress = lambda *_: None,
    notify: Callable[[str], None] = lambda _: None,
    streams: StreamCache | None = None,
) -> list[RunSpec]:
    """Run `tune` for each learner, on its first run; the runs with what was chosen, and its log.

    Parameters
    ----------
    runs : sequence of RunSpec
        All runs on a stream, those of the first seed first.
    grids : mapping
        Learner → the values to try, by setting.
    root : Path
        The directory of all runs.
    sessions, engine, threads : int, Engine, int
        The same as in `tune`.
    progress, notify, streams : callable, callable, StreamCache or None
        The same as in `tune`.
    """
    first = {run.learner.name: run for run in reversed(runs)}
    how: dict[str, Any] = {"sessions": sessions, "engine": engine, "threads": threads}
    streams = streams or StreamCache()
    how |= {"progress": progress, "notify": notify, "streams": streams}
    logs: dict[str, dict[str, Any]] = {}
    for name, grid in grids.items():
        # refused before anything is made
        trial = trial_stream(streams.stream(first[name]), sessions)
        logs[name] = tune(first[name], grid, root, **how)
        notify(outcome(logs[name], trial))
    return [_with_chosen(run, logs) for run in runs]


def _with_chosen(run: RunSpec, logs: Mapping[str, Mapping[str, Any]]) -> RunSpec:
    """A run with the settings that were chosen for its learner and for its offline reference."""
    if "offline" in logs:
        run = run.with_offline(**logs["offline"]["chosen"])
    log = logs.get(run.learner.name)
    return replace(run.with_settings(**log["chosen"]), tuning=dict(log)) if log else run


# --- the text on a search ---


class _Trial(NamedTuple):
    """The settings of a trial, and its score; -inf where that is undefined."""

    settings: Mapping[str, str]
    score: float

    @property
    def text(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.settings.items())

    @property
    def value(self) -> str:
        """The values alone, without a space."""
        return ",".join(self.settings.values())

    @property
    def percent(self) -> str:
        return "–" if self.score == -inf else f"{100 * self.score:.1f}"

    def is_equal(self, other: _Trial) -> bool:
        """Whether two trials have the same score, up to rounding."""
        return isclose(self.score, other.score, rel_tol=1e-12)


def outcome(log: Mapping[str, Any], trial: Stream) -> str:
    """Text on a search: its choice and score, the scores of all trials, and what is left open.

    Parameters
    ----------
    log : mapping
        What `tune` returns.
    trial : Stream
        The stream of the trials, as `trial_stream` makes it.
    """
    trials = [_trial(t) for t in log["tried"]]
    best = next(t for t in trials if t.settings == log["chosen"])
    n = len(trial.sessions)
    samples = sum(len(e.x) for e in trial.eval_sets[:n])
    score = "pw-JS" if trial.spec.multilabel else "accuracy"
    head = (
        f"tuned {log['learner']} on seed {log['seed']}: {best.text}, by average incremental "
        f"{score} on {samples} validation samples of {'1 session' if n == 1 else f'{n} sessions'}"
    )
    doubts = _doubts(trials, best, 1 / samples)
    if samples < FEW:
        other = f"--seed {log['seed'] + 1} with another --out"
        doubts.append(f"few samples decide little: see whether {other} chooses the same")
    names = ",".join(best.settings)
    scores = " · ".join(f"{t.value}→{t.percent}" for t in trials)
    return "\n".join([head, f"  {names} → %: {scores}", *(f"  {d}" for d in doubts)])


def _trial(tried: Mapping[str, Any]) -> _Trial:
    score = tried.get("average_incremental_accuracy")
    if not isinstance(score, float | int) or isnan(score):
        score = -inf
    return _Trial(tried["settings"], score)


def _doubts(trials: Sequence[_Trial], best: _Trial, answer: float) -> list[str]:
    """Sentences on what the scores leave open; one sample makes about `answer` of a score."""
    equal = [t for t in trials if t.is_equal(best)]
    if len(equal) == len(trials) > 1:
        what = "values" if len(best.settings) == 1 else "combinations"
        scored = "have no score" if best.score == -inf else f"scored {best.percent} %"
        return [
            f"all {len(trials)} {what} {scored}: nothing was decided, and the first is used; try "
            "values far beyond these, or more sessions (--tune-sessions)"
        ]
    doubts = []
    if len(equal) > 1:
        *first, last = (t.value for t in equal)
        doubts.append(f"{', '.join(first)} and {last} scored the same, and {best.value} is used")
    near = [t.value for t in trials if t not in equal and best.score - t.score <= answer]
    if near:
        who = f"{', '.join(near)} {'is' if len(near) == 1 else 'are'}"
        doubts.append(f"{who} within one answer of the best ({100 * answer:.1f} points)")
    edge = [f"{k}={v}" for k, v in best.settings.items() if _rises(trials, best, k)]
    if edge:
        where = "is at the edge of its grid" if len(edge) == 1 else "are at the edge of their grids"
        doubts.append(f"{', '.join(edge)} {where}, a value beyond may be better")
    return doubts


def _rises(trials: Sequence[_Trial], best: _Trial, name: str) -> bool:
    """Whether the best value of a setting is at the edge of its numbers and better than the next.

    The next is the neighbour in size, with the other settings of the best.
    """
    rest = {k: v for k, v in best.settings.items() if k != name}
    line = [t for t in trials if {k: v for k, v in t.settings.items() if k != name} == rest]
    try:
        line.sort(key=lambda t: float(t.settings[name]))
    except ValueError:
        return False
    if len(line) < 3 or best not in (line[0], line[-1]):
        return False
    neighbour = line[1] if best == line[0] else line[-2]
    return best.score > neighbour.score and not best.is_equal(neighbour)
