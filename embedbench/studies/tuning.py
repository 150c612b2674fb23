"""Choosing settings on validation data of a stream's first sessions; test data is never used."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import inf, isnan
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.arrays import digest
from embedbench.config.declared_settings import make
from embedbench.config.json_types import JsonRecord, parse_json
from embedbench.engines.engine import HERE, Engine
from embedbench.engines.local_pool import use_card
from embedbench.errors import UserError, unknown
from embedbench.runs.class_registry import learner_class
from embedbench.runs.run_spec import RunSpec, Spec
from embedbench.runs.run_task import StreamCache
from embedbench.storage import leases
from embedbench.storage.atomic_write import read_text, write_safely
from embedbench.streams.stream import EvalSet, Stream
from embedbench.system.callback_types import StageProgress
from embedbench.system.cpu import limit_threads

from .single_run_command import split_key
from .tuned_settings import outcome

Grid = Mapping[str, Sequence[str]]  # setting of a learner → values to try


def parse_grid(items: Sequence[str], learners: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    """Read `--tune` items: learner → its grid.

    Parameters
    ----------
    items : sequence of str
        Such as "mlp.lr=0.1,0.01"; without a learner's name, for every learner that has the setting.
    learners : sequence of str
        The learners of the run.

    Raises
    ------
    UserError
        An item names no values, or a setting that no learner of the run has.
    """
    grids: dict[str, dict[str, list[str]]] = {}
    for item in items:
        key, equals, values = item.partition("=")
        listed = [v.strip() for v in values.split(",") if v.strip()]
        if not equals or not listed:
            raise UserError(f"--tune takes name=value,value, such as mlp.lr=0.1,0.01; got {item!r}")
        head, _, rest = split_key(key)
        named = [name for name in learners if name == head and rest]
        field = head.replace("-", "_")
        chosen = named or [n for n in learners if field in learner_class(n).__dataclass_fields__]
        if not chosen:
            raise unknown("setting to tune", key, [f"{n}.…" for n in learners])
        for name in chosen:
            grids.setdefault(name, {})[rest if named else key] = listed
    return grids


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
    held = [dataclasses.replace(e, split="test") for e in stream.eval_sets if e.split == "val"]
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
    return dataclasses.replace(
        stream, sessions=kept, eval_sets=sets, recipe=f"{stream.recipe} trial {sessions}", alone=()
    )


def trial_score(cell: RunSpec, sessions: int, threads: int, workshop: StreamCache) -> float:
    """Mean-per-class accuracy on validation data, over all moments of the first sessions.

    Parameters
    ----------
    cell : Cell
        Learner, stream and seed.
    sessions : int
        How many sessions of the stream are learned.
    threads : int
        Threads of its arithmetic; see `limit_threads`.
    workshop : Workshop
        Builds the stream.
    """
    from embedbench.runs.stream_runner import run_stream
    from embedbench.scores.scoring import main_matrix

    use_card(cell.device)
    stream = trial_stream(workshop.stream(cell), sessions)
    with limit_threads(threads):
        predictions, _ = run_stream(stream, cell.learner.fresh(), cell.seeds, cell.device)
    return float(np.mean(main_matrix(predictions).pooled))


@dataclasses.dataclass(frozen=True)
class _Log(JsonRecord):
    """The log of a search, as `tune` returns it."""

    learner: str
    grid: dict[str, tuple[Any, ...]]
    sessions: int
    seed: int
    tried: tuple[dict[str, Any], ...]
    chosen: dict[str, Any]


def tune(
    cell: RunSpec,
    grid: Grid,
    root: Path,
    *,
    sessions: int = 3,
    engine: Engine = HERE,
    threads: int = 1,
    progress: StageProgress = lambda *_: None,
    notify: Callable[[str], None] = lambda _: None,
    workshop: StreamCache | None = None,
) -> dict[str, Any]:
    """Try every combination of a grid on a cell's stream, and choose the best on validation data.

    The log is saved under `root/tuning`; a search that has finished there is not repeated. If
    several combinations are equally good, the first in the grid is chosen.

    Parameters
    ----------
    cell : Cell
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
    workshop : Workshop or None
        Files and streams that an earlier step opened; None opens them again.

    Returns
    -------
    dict
        "learner", "grid", "sessions", "seed", "tried" (the settings and the average incremental
        accuracy of each trial) and "chosen" (settings).
    """
    candidates = [dict(zip(grid, v, strict=True)) for v in itertools.product(*grid.values())]
    cells = [_with(cell, settings) for settings in candidates]
    place = (workshop or StreamCache()).run_dir(cell, root).relative_to(root)
    key = digest(str(place), json.dumps(dict(grid)), sessions)
    path = root / "tuning" / f"{cell.learner.name.replace(':', '.')}-{key[:8]}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    lease = leases.wait(
        leases.lease_path(path), path.is_file, f"the search for {cell.learner}", notify
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
        for value in _scores(cells, trial, engine, workshop or StreamCache()):
            values.append(value)
            progress(f"tuning {cell.learner}", len(values), len(cells))
        best = max(range(len(values)), key=lambda i: -inf if isnan(values[i]) else values[i])
        log = _Log(
            learner=cell.learner.name,
            grid={k: tuple(v) for k, v in grid.items()},
            sessions=sessions,
            seed=cell.seed,
            tried=tuple(
                {"settings": c, "average_incremental_accuracy": v}
                for c, v in zip(candidates, values, strict=True)
            ),
            chosen=candidates[best],
        ).to_json()
        write_safely(path, json.dumps(log, indent=1, ensure_ascii=False) + "\n")
    return log


def _scores(
    cells: Sequence[RunSpec], trial: Callable[..., float], engine: Engine, workshop: StreamCache
) -> Iterator[float]:
    """The score of each trial, as the engine runs them."""
    with engine.executor(len(cells)) as pool:
        if pool is None:
            yield from (trial(cell, workshop=workshop) for cell in cells)
            return
        trials = [pool.submit(trial, cell, workshop=workshop) for cell in cells]
        yield from (each.result() for each in trials)


def search(
    cells: Sequence[RunSpec],
    items: Sequence[str],
    root: Path,
    *,
    sessions: int,
    engine: Engine,
    threads: int = 1,
    progress: StageProgress = lambda *_: None,
    notify: Callable[[str], None] = lambda _: None,
    workshop: StreamCache | None = None,
) -> list[dict[str, Any]]:
    """Run `tune` for each learner, on its first seed; return one log per learner.

    Parameters
    ----------
    cells : sequence of Cell
        All cells of the run, those of the first seed first.
    items : sequence of str
        The `--tune` items.
    root : Path
        The directory of all runs.
    sessions, engine, threads : int, Engine, int
        The same as in `tune`.
    progress, notify, workshop : callable, callable, Workshop or None
        The same as in `tune`.
    """
    first = {cell.learner.name: cell for cell in reversed(cells)}
    grids = parse_grid(items, list(reversed(first)))
    how: dict[str, Any] = {"sessions": sessions, "engine": engine, "threads": threads}
    shop = workshop or StreamCache()
    how |= {"progress": progress, "notify": notify, "workshop": shop}
    logs = []
    for name, grid in grids.items():
        trial = trial_stream(shop.stream(first[name]), sessions)  # refuses before anything is made
        logs.append(tune(first[name], grid, root, **how))
        notify(outcome(logs[-1], trial))
    return logs


def _with(cell: RunSpec, settings: Mapping[str, str]) -> RunSpec:
    """The cell with other settings of its learner; a wrong name or value raises an error here."""
    learner, start = cell.learner, cell.learner.settings
    made = make(type(start), dict(settings), name=learner.name, start=start)
    return dataclasses.replace(cell, learner=Spec(learner.name, made))
