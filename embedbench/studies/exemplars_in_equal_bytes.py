"""Equal memory: how many exemplars a learner may keep so that all it holds fits a byte budget."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from embedbench.array_types import Ints
from embedbench.errors import UserError
from embedbench.learning import exemplars
from embedbench.runs.run_spec import RunSpec
from embedbench.runs.stream_cache import StreamCache
from embedbench.streams.stream import Stream
from embedbench.streams.view import View, rows_of

MEMORY = "memory"  # the field of learners that keep exemplars
TOTAL = f"{MEMORY}.total"
BASE = "base_samples"  # of learners that keep whole samples before others are smaller
PROBE = 4  # training samples per class in the probe; a smaller class repeats its samples


def fit_settings(
    spec: RunSpec, megabytes: float, streams: StreamCache | None = None
) -> dict[str, int] | None:
    """The settings with which a learner's footprint stays within the budget, by name.

    The stream is learned twice with a few samples per class and one epoch per session: once with
    one exemplar per class, once with two. The two footprints give the bytes of one exemplar and of
    everything else (parameters, importance vectors, kept optimiser states, heads that grow). What
    exists only during a session, such as a teacher copy, is not counted. A learner that keeps whole
    samples until its quantiser is trained gets as many of them as fit, too. None where the learner
    keeps no exemplars, so that nothing can be chosen.
    """
    memory = getattr(spec.learner.settings, MEMORY, None)
    if not isinstance(memory, exemplars.Capacity):
        return None
    if isinstance(memory, exemplars.Memory) and memory.select == "all":
        raise UserError(
            f"{spec.learner}.memory.select=all keeps every sample, which no budget bounds",
            "leave --budget-mb out, or choose another",
        )
    stream = few((streams or StreamCache()).stream(spec))
    n = stream.spec.n_classes
    one = _held(spec, stream, n)
    two = _held(spec, stream, 2 * n)
    each = (two["samples"] - one["samples"]) / n
    fixed = sum(one.values()) - one["samples"]
    room = megabytes * 1e6 - fixed
    total = int(room // each)
    if total < n:
        raise UserError(
            f"{spec.learner} holds {fixed / 1e6:.2f} MB without exemplars and {each / 1e3:.1f} kB "
            f"for each, so {megabytes:g} MB have no room for one of each of the {n} classes",
            f"raise --budget-mb to {(fixed + n * each) / 1e6:.2f} or more, or shrink its network",
        )
    settings = {TOTAL: total}
    base = getattr(spec.learner.settings, BASE, None)
    if base is not None:
        whole = 4 * math.prod(stream.spec.input_shape) + 8  # float32 values, and a label
        most = max(1, int(room // whole) + 1)  # the last one is not kept whole
        if most < base:
            settings[BASE] = most
    return settings


def few(stream: Stream) -> Stream:
    """The stream with four training samples and one validation sample per class and session.

    A class with fewer training samples repeats them, so that every class fills its share.
    """

    def cut(view: View, y: Ints, size: int) -> tuple[View, Ints, Ints]:
        by_class = [np.resize(np.flatnonzero(y == c), size) for c in np.unique(y)]
        kept = np.sort(np.concatenate([*by_class, np.zeros(0, np.int64)]))
        return view.select(kept), y[kept], rows_of(view)[kept]

    sessions = []
    for s in stream.sessions:
        (x, y, ids), (val_x, val_y, _) = cut(s.x, s.y, PROBE), cut(s.val_x, s.val_y, 1)
        sessions.append(dataclasses.replace(s, x=x, y=y, ids=ids, val_x=val_x, val_y=val_y))
    sets = []
    for e in stream.eval_sets:
        x, y, ids = cut(e.x, e.y, 1)
        sets.append(dataclasses.replace(e, x=x, y=y, ids=ids))
    return dataclasses.replace(
        stream, sessions=tuple(sessions), eval_sets=tuple(sets), recipe=f"{stream.recipe} few"
    )


def _held(spec: RunSpec, stream: Stream, total: int) -> dict[str, float]:
    """The footprint after the whole stream with `total` exemplars."""
    from embedbench.runs.stream_runner import run_stream

    changes: dict[str, Any] = {TOTAL: total}
    names = {f.name for f in dataclasses.fields(spec.learner.settings)}
    if "stop" in names:
        changes |= {"stop.rule": "epochs", "stop.epochs": 1}
    if BASE in names:
        changes[BASE] = 1
    learner = spec.with_settings(**changes).learner.settings
    _, logs = run_stream(stream, learner, spec.seeds, spec.device)
    return logs[-1].footprint


def fit_budget(
    runs: Sequence[RunSpec],
    megabytes: float | None,
    streams: StreamCache | None = None,
    *,
    failed: dict[RunSpec, Exception] | None = None,
) -> list[RunSpec]:
    """The runs on a stream with as many exemplars as fit the budget; as they are without one.

    Runs of a learner that fails while it is measured get into `failed` and stay as they are; None:
    the error is raised.
    """
    if megabytes is None:
        return list(runs)
    first: dict[str, RunSpec] = {}
    for run in runs:
        if failed is None or run not in failed:
            first.setdefault(run.learner.name, run)
    settings: dict[str, dict[str, Any] | None] = {}
    for name, run in sorted(first.items()):
        try:
            settings[name] = fit_settings(run, megabytes, streams)
        except UserError:
            raise
        except Exception as error:  # of the learner
            if failed is None:
                raise
            for other in runs:
                if other.learner.name == name:
                    failed[other] = error
    fitted = []
    for run in runs:
        chosen = settings.get(run.learner.name)
        fitted.append(run if chosen is None else run.with_settings(**chosen))
    return fitted
