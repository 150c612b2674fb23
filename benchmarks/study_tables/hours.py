"""How long a study file would take: its cells times the mean seconds of finished ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from embedbench.studies.study_file import read_study
from embedbench.studies.study_runs import parts

from .rows import Row


def estimate(path: Path, rows: Sequence[Row]) -> tuple[int, int, float]:
    """The cells and trials of a study file, and the hours of one core that they take.

    A cell takes the mean seconds of the learner's runs on the same file and protocol; if there are
    none, on the same protocol; if there are none, of the mean run. A trial of a search takes a
    cell's share of sessions. References are not counted.
    """
    study = read_study(path)
    cells, trials, seconds = 0, 0, 0.0
    for part in parts(study):
        counted: dict[str, int] = {}
        for cell in part.cells():
            counted[cell.learner.name] = counted.get(cell.learner.name, 0) + 1
        values = {k: math.prod(map(len, v.values())) for k, v in _searched(part.tune).items()}
        for learner, n in counted.items():
            each = _mean(rows, learner, Path(part.files[0]).stem, part.protocol)
            share = min(1.0, (study.tune_sessions or 3) / _sessions(rows, part.protocol))
            cells, trials = cells + n, trials + values.get(learner, 0)
            seconds += each * (n + share * values.get(learner, 0))
    return cells, trials, seconds / 3600


def _searched(items: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    """Learner → setting → values, of items such as `er.lr=0.1,0.2`."""
    result: dict[str, dict[str, list[str]]] = {}
    for item in items:
        key, _, values = item.partition("=")
        learner, _, setting = key.partition(".")
        result.setdefault(learner, {})[setting] = values.split(",")
    return result


def _mean(rows: Sequence[Row], learner: str, file: str, protocol: str) -> float:
    known = [
        [r for r in rows if (r.learner, r.file, r.protocol) == (learner, file, protocol)],
        [r for r in rows if (r.learner, r.protocol) == (learner, protocol)],
        [r for r in rows if r.learner == learner],
        rows,
    ]
    nearest = next(k for k in known if k)
    return float(np.mean([r.learn_seconds + r.evaluate_seconds for r in nearest]))


def _sessions(rows: Sequence[Row], protocol: str) -> float:
    return float(np.mean([r.sessions for r in rows if r.protocol == protocol] or [10]))
