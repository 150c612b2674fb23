"""How long a study file would take: its cells times the mean seconds of finished ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from embedbench.studies.resolve import grids, resolve
from embedbench.studies.study_file import read_study

from .rows import Row


def estimate(path: Path, rows: Sequence[Row]) -> tuple[int, int, float]:
    """The cells and trials of a study file, and the hours of one core that they take.

    A cell takes the mean seconds of the learner's runs on the same file and protocol; if there are
    none, on the same protocol; if there are none, of the mean run. A trial of a search takes a
    cell's share of sessions. References are not counted.
    """
    study = read_study(path)
    cells, trials, seconds = 0, 0, 0.0
    searched = {k: math.prod(map(len, v.values())) for k, v in grids(study, study.tune).items()}
    for (files, protocol), runs in groupby(resolve(study), lambda r: (r.files, r.protocol)):
        for learner, n in Counter(run.learner.name for run in runs).items():
            each = _mean(rows, learner, Path(files[0]).stem, protocol.name)
            share = min(1.0, (study.tune_sessions or 3) / _sessions(rows, protocol.name))
            cells, trials = cells + n, trials + searched.get(learner, 0)
            seconds += each * (n + share * searched.get(learner, 0))
    return cells, trials, seconds / 3600


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
