"""Choosing settings on validation data of a stream's first sessions; test data is never used."""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from math import inf, isnan
from pathlib import Path
from typing import Any

import numpy as np

from embedbench.array_types import Floats
from embedbench.config.json_records import ABSENT, JsonRecord, parse_json
from embedbench.config.run_seeds import format_seeds
from embedbench.engines.engine import HERE, Engine, run_calls
from embedbench.engines.local_pool import use_card
from embedbench.errors import UserError, keep_inside
from embedbench.runs.run_dirs import TUNING, trials_path
from embedbench.runs.run_spec import RunSpec
from embedbench.runs.run_task import make_task
from embedbench.runs.stream_cache import StreamCache
from embedbench.runs.stream_metadata import list_code
from embedbench.storage import atomic_write, leases, regular_files, value_digest
from embedbench.streams.stream import EvalSet, Stream
from embedbench.system import callback_types, cpu_threads
from embedbench.text.undecoded_text import check_text
from embedbench.version import __version__

from . import resolve, tuning_rule

FIRST_SEED = 100  # of those that tune: tables begin at 0
N_SEEDS = 3


def unused_seeds(used: Sequence[int]) -> tuple[int, ...]:
    """The three lowest seeds from 100 on that a table does not use.

    >>> unused_seeds([0, 1, 101])
    (100, 102, 103)
    """
    few = range(FIRST_SEED, FIRST_SEED + N_SEEDS + len(used))
    return tuple(seed for seed in few if seed not in used)[:N_SEEDS]


def trial_stream(stream: Stream, sessions: int) -> Stream:
    """The first sessions of a stream, evaluated on their validation data; it has no test data.

    A multi-label stream is evaluated on its post-task validation data, as in the IIRC paper.
    """
    if stream.validation != "train":
        raise UserError(
            "this stream has no validation data to tune on"
            if stream.validation == "none"
            else "this stream's validation data is its test data, on which nothing may be tuned",
            "use --set protocol.validation=train",
        )
    kept = stream.sessions[:sessions]
    for i, session in enumerate(kept):
        if len(session.val_x) == 0:
            raise UserError(
                f"session {i} has no validation data to tune on",
                "raise protocol.val_fraction, or tune on the sessions before it (--tune-sessions)",
            )
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
    """Mean-per-class accuracy on validation data, over all moments of the first sessions."""
    from embedbench.runs.stream_runner import run_stream

    use_card(spec.device)
    stream = trial_stream(streams.stream(spec), sessions)
    with cpu_threads.limit_threads(threads), keep_inside(f"the learner {spec.learner}"):
        predictions, _ = run_stream(stream, spec.learner.fresh(), spec.seeds, spec.device)
    return float(np.mean(predictions.score_matrix().pooled))


@dataclass(frozen=True)
class _Log(JsonRecord):
    """The log of a search, as `tune` returns it; `UnscoredRun.tuning` has its keys."""

    learner: str
    grid: dict[str, tuple[Any, ...]]
    sessions: int
    tried: tuple[dict[str, Any], ...]
    chosen: dict[str, Any]
    seed: int | None = field(default=None, metadata=ABSENT)
    seeds: tuple[int, ...] | None = field(default=None, metadata=ABSENT)
    default: dict[str, Any] | None = field(default=None, metadata=ABSENT)
    gain: float | None = field(default=None, metadata=ABSENT)
    standard_error: float | None = field(default=None, metadata=ABSENT)
    edge: tuple[str, ...] | None = field(default=None, metadata=ABSENT)
    made_from: dict[str, str] | None = field(default=None, metadata=ABSENT)  # in the file alone


@dataclass(frozen=True)
class _Trials(JsonRecord):
    """The scores of the finished trials of a search that goes on, by `_key`."""

    scores: dict[str, float]
    made_from: dict[str, str] = field(default_factory=dict)


def _made_from(spec: RunSpec, streams: StreamCache) -> dict[str, str]:
    """What decides the scores of a search and is not in the name of its log."""
    files = [streams.file(path).digests for path in spec.files]
    columns = [digests["columns"] for digests in files if "columns" in digests]
    code = list_code(learner=spec.learner.settings, protocol=spec.protocol.settings)
    facts = {}
    if code is not None:
        facts = {f"code of the {kind}": digest for kind, digest in code.items()}
    if columns:
        facts["columns"] = value_digest.digest(*columns)
    return facts


def _where(spec: RunSpec, threads: int) -> dict[str, str]:
    """What trials have in common only as long as nobody updates anything: see `checkpoint_key`."""
    return {
        "version of embedbench": __version__,
        "version of torch": version("torch"),
        "kind of device": spec.device.partition(":")[0],
        "number of threads": str(threads),
    }


def _same_files(
    trial: Callable[[RunSpec], float], streams: StreamCache, planned: list[str], spec: RunSpec
) -> float:
    """Run a trial, here or in a worker, on the files that the search was planned for."""
    streams.begin()
    if _contents(spec, streams) != planned:
        raise UserError(
            f"{', '.join(spec.files)}: the file is not the one that the search was planned for",
            "let files be as they are while a command runs, and run it again",
        )
    return trial(spec)


def _contents(spec: RunSpec, streams: StreamCache) -> list[str]:
    return [*streams.contents(spec), spec.protocol.settings.recipe()]


def tune(
    spec: RunSpec,
    grid: resolve.Grid,
    root: Path,
    *,
    sessions: int = 3,
    seeds: Sequence[int] = (),
    engine: Engine = HERE,
    threads: int = 1,
    progress: callback_types.StageProgress = lambda *_: None,
    notify: Callable[[str], None] = lambda _: None,
    streams: StreamCache | None = None,
) -> dict[str, Any]:
    """Try settings on a run's stream, and choose one on validation data, see `choose`; the log.

    On several seeds the learner's defaults are tried too. The log is saved under `root/tuning`. A
    search that has finished there is not repeated, nor is a finished trial of one that was
    interrupted.

    Parameters
    ----------
    grid : Grid
        The values to try, by setting; every combination.
    sessions : int
        How many sessions of the stream a trial learns.
    seeds : sequence of int
        Those of the trials; none: the run's own alone.
    progress : callable
        `progress(label, done, total)` is called with a label, the number of finished trials and the
        number of all trials.
    notify : callable
        Takes a sentence if another process is at this search, which is waited for.
    streams : StreamCache or None
        Files and streams that an earlier step opened; None opens them again.
    """
    streams = streams or StreamCache()
    seeds = tuple(dict.fromkeys(seeds)) or (spec.seed,)
    candidates = [dict(zip(grid, v, strict=True)) for v in itertools.product(*grid.values())]
    specs = [spec.with_settings(**settings) for settings in candidates]  # refused before any trial
    default = None
    if len(seeds) > 1:
        same = [i for i, each in enumerate(specs) if each.learner == spec.learner]
        if not same:
            candidates.append(tuning_rule.default_of(spec.learner.settings, grid))
        default = same[0] if same else len(candidates) - 1
    check_text(candidates, f"a setting of {spec.learner}")
    place = make_task(replace(spec, seed=seeds[0]), root, streams).place
    more = [] if len(seeds) == 1 else [json.dumps([seeds, None])]
    key = value_digest.digest(str(place), json.dumps(dict(grid)), sessions, *more)
    path = root / TUNING / f"{spec.learner.name.replace(':', '.')}-{key[:8]}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    made_from = _made_from(spec, streams)
    _drop_stale(path, made_from, spec, notify)
    lease = leases.wait(
        leases.lease_path(path), path.is_file, f"the search for {spec.learner}", notify
    )
    if lease is None:
        data = parse_json(regular_files.read_text(path), str(path))
        log = replace(_Log.from_json(data, str(path)), made_from=None).to_json()
        if log["chosen"] not in [each.get("settings") for each in log["tried"]]:
            raise UserError(f"{path} chose settings that it did not try", "delete it")
        return log
    with lease:
        kept = trials_path(path)
        tell = _noted(lease, progress)
        trial = partial(
            _same_files,
            partial(trial_score, sessions=sessions, threads=threads, streams=streams),
            streams,
            _contents(spec, streams),
        )
        facts = made_from | _where(spec, threads)
        finished = _finished_trials(kept, facts, spec, notify)
        save = partial(_save_trials, kept, facts)
        scores = _run_trials(spec, finished, save, seeds, trial, engine, tell, candidates)
        log = _log(spec, grid, sessions, seeds, candidates, scores, default)
        stored = {**log, "made_from": made_from} if made_from else log
        text = json.dumps(stored, indent=1, ensure_ascii=False)
        atomic_write.write_safely(path, text + "\n")
        atomic_write.remove(kept)
    return log


def _noted(
    lease: leases.Lease, progress: callback_types.StageProgress
) -> callback_types.StageProgress:
    """A progress that the lease notes too, for `runs status`."""

    def tell(label: str, done: int, total: int) -> None:
        lease.note(f"trials {done}/{total}")
        progress(label, done, total)

    return tell


def _log(
    spec: RunSpec,
    grid: resolve.Grid,
    sessions: int,
    seeds: tuple[int, ...],
    candidates: Sequence[tuning_rule.Candidate],
    scores: Floats,
    default: int | None,
) -> dict[str, Any]:
    """The log of a search whose trials are finished; `scores` is (candidates, seeds)."""
    choice = tuning_rule.choose(scores, default)
    chosen = candidates[choice.index]
    tried: list[dict[str, Any]] = [
        {"settings": c, "average_incremental_accuracy": mean}
        for c, mean in zip(candidates, scores.mean(1).tolist(), strict=True)
    ]
    several: dict[str, Any] = {"seed": seeds[0]}
    if default is not None:
        for each, row in zip(tried, scores.tolist(), strict=True):
            each["by_seed"] = row
        means = tuning_rule.means(scores)
        best = candidates[choice.index]
        if choice.index == default:  # a value of the grid may be as good
            best = tuning_rule.best_of_grid(candidates, means, grid)
        edge: tuple[str, ...] = ()
        if means[candidates.index(best)] >= means[default] - tuning_rule.ROUNDING:
            edge = tuple(k for k in grid if tuning_rule.rises(candidates, means, best, k))
        several = {"seeds": seeds, "default": candidates[default], "edge": edge}
        several |= {"gain": choice.gain, "standard_error": choice.error}
    return _Log(
        learner=spec.learner.name,
        grid={k: tuple(v) for k, v in grid.items()},
        sessions=sessions,
        tried=tuple(tried),
        chosen=chosen,
        **several,
    ).to_json()


def _drop_stale(
    path: Path, made_from: dict[str, str], spec: RunSpec, notify: Callable[[str], None]
) -> None:
    """Drop the log of a finished search that was made from something else, as far as it says."""
    if not path.is_file():
        return
    kept = _Log.from_json(parse_json(regular_files.read_text(path), str(path)), str(path)).made_from
    if kept is None or kept == made_from:
        return
    notify(
        f"the search for {spec.learner} is made again: {_others(kept, made_from)} is another than "
        "when it was made"
    )
    atomic_write.remove(path)


def _others(a: dict[str, str], b: dict[str, str]) -> str:
    return ", ".join(sorted(key for key in {*a, *b} if a.get(key) != b.get(key)))


def _finished_trials(
    kept: Path, facts: dict[str, str], spec: RunSpec, notify: Callable[[str], None]
) -> dict[str, float]:
    """The scores of an interrupted search, if its trials can be compared with those of now."""
    if not kept.is_file():
        return {}
    trials = _Trials.from_json(parse_json(regular_files.read_text(kept), str(kept)), str(kept))
    if trials.made_from == facts:
        return dict(trials.scores)
    notify(
        f"the trials of an interrupted search for {spec.learner} are made again: "
        f"{_others(trials.made_from, facts)} is another now"
    )
    return {}


def _save_trials(kept: Path, facts: dict[str, str], scores: dict[str, float]) -> None:
    atomic_write.write_safely(kept, json.dumps(_Trials(scores, facts).to_json()))


def _run_trials(
    spec: RunSpec,
    finished: dict[str, float],
    save: Callable[[dict[str, float]], None],
    seeds: tuple[int, ...],
    trial: Callable[[RunSpec], float],
    engine: Engine,
    progress: callback_types.StageProgress,
    candidates: Sequence[tuning_rule.Candidate],
) -> Floats:
    """(candidates, seeds) the scores; the trials that are not among the finished ones are run."""
    todo = []
    for seed in seeds:  # a stream is built once a seed
        for candidate in candidates:
            key = _key(seed, candidate)
            if key not in finished:
                todo.append((key, replace(spec, seed=seed).with_settings(**candidate)))
    total = len(seeds) * len(candidates)
    done = total - len(todo)
    progress(f"tuning {spec.learner}", done, total)
    with engine.executor(len(todo)) as pool:
        scores = run_calls(pool, partial(_run_trial, trial), todo)
        for (key, _), score in scores:
            finished[key] = score()
            save(finished)
            done += 1
            progress(f"tuning {spec.learner}", done, total)
    return np.array([[finished[_key(s, c)] for s in seeds] for c in candidates])


def _run_trial(trial: Callable[[RunSpec], float], keyed: tuple[str, RunSpec]) -> float:
    _, spec = keyed
    return trial(spec)


def _key(seed: int, settings: tuning_rule.Candidate) -> str:
    return json.dumps([seed, settings])


def search(
    runs: Sequence[RunSpec],
    grids: Mapping[str, resolve.Grid],
    root: Path,
    *,
    failed: dict[RunSpec, Exception] | None = None,
    notify: Callable[[str], None] = lambda _: None,
    **how: Any,
) -> list[RunSpec]:
    """Tune each learner once, and return the runs with the settings chosen and the search's log.

    A learner is tuned on its first run. `runs` differ in learner and seed only, the first seed
    first. `how` are further arguments of `tune`. Runs of a learner that fails in a trial get into
    `failed` and stay as they are; None: the error is raised.
    """
    first = {run.learner.name: run for run in reversed(runs)}
    logs: dict[str, dict[str, Any]] = {}
    if grids and (shared := overlap(runs, how.get("seeds", ()))):
        notify(shared)
    for name, grid in grids.items():
        try:
            logs[name] = tune(first[name], grid, root, notify=notify, **how)
        except UserError:
            raise
        except Exception as error:  # of the learner
            if failed is None:
                raise
            mine = [run for run in runs if name in (run.learner.name, "offline")]
            failed |= dict.fromkeys(mine, error)
            continue
        notify(outcome(logs[name]))
    return [_with_chosen(run, logs) for run in runs]


def overlap(runs: Sequence[RunSpec], seeds: Sequence[int]) -> str:
    """A sentence on the seeds that both tune and are in the table; "" if there are none.

    A search on no seeds of its own is one on the first run's.
    """
    table = [run.seed for run in runs]
    both = sorted({*table} & {*(seeds or table[:1])})
    if not both:
        return ""
    many = "s" if len(both) > 1 else ""
    return (
        f"seed{many} {format_seeds(both)} of the table also tune{'' if many else 's'}: its scores "
        "there rest on settings that were chosen with the same seed; --tune-seeds takes others, by "
        "default those from 100 on"
    )


def _with_chosen(run: RunSpec, logs: Mapping[str, Mapping[str, Any]]) -> RunSpec:
    """A run with the settings that were chosen for its learner and for its offline reference."""
    if "offline" in logs:
        run = run.with_offline(**logs["offline"]["chosen"])
    log = logs.get(run.learner.name)
    return replace(run.with_settings(**log["chosen"]), tuning=dict(log)) if log else run


# --- the text on a search ---


def outcome(log: Mapping[str, Any]) -> str:
    """Text on a search: its choice and score, the scores of all trials, and what is left open."""
    scores = [_score(t.get("average_incremental_accuracy")) for t in log["tried"]]
    n = log["sessions"]
    seeds = f"seeds {format_seeds(log['seeds'])}" if log.get("seeds") else f"seed {log['seed']}"
    each = " · ".join(
        f"{','.join(t['settings'].values())}→{_percent(s)}"
        for t, s in zip(log["tried"], scores, strict=True)
    )
    lines = [
        f"tuned {log['learner']} on {seeds}: {_choice(log)}, by average incremental accuracy on "
        f"the validation data of {'1 session' if n == 1 else f'{n} sessions'}",
        f"  {','.join(log['chosen'])} → %: {each}",
    ]
    doubt = _doubt(log, scores)
    return "\n".join([*lines, f"  {doubt}"] if doubt else lines)


def _choice(log: Mapping[str, Any]) -> str:
    """What was chosen, and by how much the best one differs from the default."""
    text = ", ".join(f"{name}={value}" for name, value in log["chosen"].items())
    gain = log.get("gain")
    error = log.get("standard_error")
    by = None if gain is None else f"{100 * gain:.1f} ± {100 * (error or 0.0):.1f} points"
    if log["chosen"] != log.get("default"):
        return f"{text} (+{by})" if by else text
    within = f"; the best is only {by} above it" if gain and gain > 0 else ""
    return f"default kept ({text}{within})"


def _score(value: object) -> float:
    """A score of a log; -inf where it is undefined."""
    return float(value) if isinstance(value, float | int) and not isnan(value) else -inf


def _percent(score: float) -> str:
    return "–" if score == -inf else f"{100 * score:.1f}"


def _doubt(log: Mapping[str, Any], scores: Sequence[float]) -> str:
    """A sentence on what the scores leave open; "" if nothing."""
    tried = [t["settings"] for t in log["tried"]]
    chosen = log["chosen"]
    best = scores[tried.index(chosen)]
    if len(tried) > 1 and all(tuning_rule.is_equal(score, best) for score in scores):
        return (
            f"all {len(tried)} scored {_percent(best)} %: nothing was decided; try values far "
            "beyond these, or more sessions (--tune-sessions)"
        )
    edge = log.get("edge")
    if edge is None:
        edge = [name for name in chosen if tuning_rule.rises(tried, scores, chosen, name)]
    if not edge:
        return ""
    shown = chosen
    if chosen == log.get("default"):
        shown = tuning_rule.best_of_grid(tried, scores, log["grid"])
    values = ", ".join(f"{name}={shown[name]}" for name in edge)
    best_tried = ", the best of those tried" if shown != chosen else ""
    return f"{values}{best_tried}: at the edge of the grid, a value beyond may be better"
