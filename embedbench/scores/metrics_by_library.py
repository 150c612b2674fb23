"""What the field's libraries would print for one run: their definitions side by side.

"Accuracy" and "forgetting" are computed in several ways under one name. Every definition here is
applied to the same answers, so that whatever differs is the definition. Libraries as of November
2026: Avalanche 0.6.0, Continuum 1.2.7, and the public repositories of FACIL, PyCIL, Mammoth and
online-continual-learning (OCL).

What is not reproduced: PyCIL rounds every percentage to two decimals before it averages, and counts
groups of `increment` classes instead of sessions; Avalanche and OCL let a learner answer classes
that it has not seen. Sessions are counted from 0; T sessions, the last is L = T - 1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from embedbench.array_types import Floats

from .predictions import Predictions
from .single_label_scores import score_matrix

EQUAL = 1e-9  # values closer than this are one


class Scores:
    """The material of the definitions, from one run with one eval set a session."""

    def __init__(self, p: Predictions) -> None:
        sample, within = score_matrix(p, "accuracy"), score_matrix(p, "within_accuracy")
        by_class = score_matrix(p, "class_accuracy")
        self.R, self.alpha = sample.R, sample.pooled[sample.ends]  # (T, T), (T,)
        self.within, self.by_class = within.R, by_class.R
        self.class_alpha = by_class.pooled[by_class.ends]
        self.n_classes = sample.n_classes  # (T,) classes of each session

        self.lower = [row[: i + 1] for i, row in enumerate(self.R)]  # up to session i
        # (T,) mean recall over the classes of all sessions, also of those to come
        last = np.full_like(p.session, len(p.set_classes) - 1)
        everything = score_matrix(replace(p, session=last), "class_accuracy").pooled
        self.whole = everything[sample.ends]


@dataclass(frozen=True)
class Definition:
    """One way to compute what a name of `DEFINITIONS` stands for, and who does so under which name.

    R[i, j] is per-sample accuracy on session j after session i, α_i that on all sessions so far.
    """

    name: str
    formula: str
    sources: tuple[str, ...]
    value: Callable[[Scores], float]


def _forgetting(R: Floats, *, until: int = 0, sessions: int | None = None) -> float:
    """Mean over sessions but the last of the drop from the best score since they were learned.

    `until`: the best score is sought before the last session; 1: up to it, so that no session
    counts below 0; -1: before the one before it. `sessions`: to divide by instead.
    """
    L = len(R) - 1
    if L < 1:
        return math.nan
    drops = (np.max(R[j : L + until, j]) - R[L, j] for j in range(L + min(until, 0)))
    return sum(map(float, drops)) / (sessions or L)


def _since(R: Floats, gap: int) -> float:
    """Σ of R[i, j] - R[j, j] over i ≥ j + gap, divided by the number of pairs i > j."""
    T = len(R)
    if T < 2:
        return math.nan
    result = [float(R[i, j] - R[j, j]) for i in range(T) for j in range(i - gap + 1)]
    return sum(result) / (T * (T - 1) / 2)


def _bwt(s: Scores) -> float:
    return float(np.mean(s.R[-1, :-1] - np.diagonal(s.R)[:-1])) if len(s.R) > 1 else math.nan


DEFINITIONS: dict[str, tuple[Definition, ...]] = {
    "accuracy": (
        Definition(
            "final, per class",
            "mean recall of all classes after session L",
            ("embedbench: final_accuracy", "Kemker et al. 2018"),
            lambda s: float(s.class_alpha[-1]),
        ),
        Definition(
            "final, per sample",
            "α_L",
            (
                "Avalanche: StreamAccuracy, TrainedExperienceAccuracy",
                "Continuum: Logger.accuracy",
                "PyCIL: utils.toolkit.accuracy total, the last of the top1 curve",
                "embedbench: final_accuracy of `accuracy`",
            ),
            lambda s: float(s.alpha[-1]),
        ),
        Definition(
            "mean over sessions",
            "1/T Σ_j R[L, j]",
            (
                "FACIL: avg_accs_tag",
                "Mammoth: Class-IL mean accuracy",
                "OCL: compute_performance avg_end_acc",
                "embedbench: average_accuracy of `accuracy`",
                "Lopez-Paz and Ranzato 2017; Michel et al. 2023, Eq. 1",
            ),
            lambda s: float(np.mean(s.R[-1])),
        ),
        Definition(
            "mean over sessions, by their classes",
            "Σ_j c_j R[L, j] / Σ_j c_j, c_j classes of session j",
            ("FACIL: wavg_accs_tag",),
            lambda s: float(np.average(s.R[-1], weights=s.n_classes)),
        ),
        Definition(
            "mean over sessions, session known",
            "1/T Σ_j R[L, j], answers within the session",
            ("FACIL: avg_accs_taw", "Mammoth: Task-IL mean accuracy"),
            lambda s: float(np.mean(s.within[-1])),
        ),
        Definition(
            "average incremental",
            "1/T Σ_i α_i",
            (
                "PyCIL: trainer Average Accuracy",
                "Continuum: Logger.average_incremental_accuracy",
                "embedbench: average_incremental_accuracy of `accuracy`",
                "Rebuffi et al. 2017",
            ),
            lambda s: float(np.mean(s.alpha)),
        ),
        Definition(
            "average incremental, sessions alike",
            "1/T Σ_i 1/(i+1) Σ_{j≤i} R[i, j]",
            ("OCL: compute_performance avg_acc",),
            lambda s: float(np.mean([np.mean(row) for row in s.lower])),
        ),
        Definition(
            "mean of the lower triangle",
            "2/(T(T+1)) Σ_i Σ_{j≤i} R[i, j]",
            ("Continuum: accuracy_A", "Díaz-Rodríguez et al. 2018"),
            lambda s: float(np.mean(np.concatenate(s.lower))),
        ),
        Definition(
            "average of all classes, also future ones",
            "1/T Σ_i mean recall of the classes of all T sessions after session i",
            ("Avalanche: amca_metrics",),
            lambda s: float(np.mean(s.whole)),
        ),
    ),
    "forgetting": (
        Definition(
            "from the best before, per class",
            "1/L Σ_{j<L} (max_{j≤l<L} R[l, j] - R[L, j]), R mean recall",
            ("embedbench: average_forgetting",),
            lambda s: _forgetting(s.by_class),
        ),
        Definition(
            "from the best before",
            "1/L Σ_{j<L} (max_{j≤l<L} R[l, j] - R[L, j])",
            (
                "FACIL: print_summary TAg Forg",
                "embedbench: average_forgetting of `accuracy`",
                "Chaudhry et al. 2018, Eq. 3; Michel et al. 2023, Eq. 2",
            ),
            lambda s: _forgetting(s.R),
        ),
        Definition(
            "from the best before, session known",
            "the same, answers within the session",
            ("FACIL: print_summary TAw Forg",),
            lambda s: _forgetting(s.within),
        ),
        Definition(
            "from the best, the last included",
            "1/L Σ_{j<L} (max_{j≤l≤L} R[l, j] - R[L, j])",
            ("PyCIL: trainer Forgetting", "Mammoth: utils.metrics.forgetting"),
            lambda s: _forgetting(s.R, until=1),
        ),
        Definition(
            "from the best, over all sessions",
            "1/T Σ_{j≤L} (max_{j≤l≤L} R[l, j] - R[L, j]), 0 for the last",
            ("OCL: compute_performance avg_fgt before its pull request 23",),
            lambda s: _forgetting(s.R, until=1, sessions=len(s.R)),
        ),
        Definition(
            "from the first",
            "1/L Σ_{j<L} (R[j, j] - R[L, j])",
            ("Avalanche: StreamForgetting",),
            lambda s: -_bwt(s),
        ),
        Definition(
            "two sessions left out",
            "1/L Σ_{j<L-1} (max_{j≤l<L-1} R[l, j] - R[L, j])",
            ("Continuum 1.2.7: metrics.forgetting (its issue 281)",),
            lambda s: _forgetting(s.R, until=-1),
        ),
    ),
    "backward transfer": (
        Definition(
            "at the end",
            "1/L Σ_{j<L} (R[L, j] - R[j, j])",
            (
                "Mammoth: utils.metrics.backward_transfer",
                "Avalanche: StreamBWT",
                "embedbench: bwt of `accuracy`",
                "Lopez-Paz and Ranzato 2017, Eq. 3",
            ),
            _bwt,
        ),
        Definition(
            "over all sessions",
            "2/(T(T-1)) Σ_i Σ_{j<i} (R[i, j] - R[j, j])",
            (
                "OCL: compute_performance, before negative values become 0",
                "Díaz-Rodríguez et al. 2018",
            ),
            lambda s: _since(s.R, 1),
        ),
        Definition(
            "over all sessions, the newest pairs left out",
            "2/(T(T-1)) Σ_i Σ_{j<i-1} (R[i, j] - R[j, j])",
            ("Continuum 1.2.7: metrics.backward_transfer",),
            lambda s: _since(s.R, 2),
        ),
    ),
}


def audit(p: Predictions) -> list[dict[str, Any]]:
    """Every definition with its value on one run, as plain JSON; fractions, NaN where undefined.

    `same` is a letter within the group: definitions that share it have the same value here; on
    another run they may differ.
    """
    scores = Scores(p)
    result = []
    for group, definitions in DEFINITIONS.items():
        letters: list[tuple[float, str]] = []
        for d in definitions:
            value = d.value(scores)
            same = next((k for v, k in letters if abs(v - value) < EQUAL), None)
            if same is None and not math.isnan(value):
                same = chr(ord("a") + len(letters))
                letters.append((value, same))
            about = {"group": group, "name": d.name, "formula": d.formula, "value": value}
            result.append({**about, "same": same, "sources": list(d.sources)})
    return result
