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
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from embedbench.array_types import Floats

from . import metrics
from .run_answers import RunAnswers
from .score_matrix import ScoreMatrix

Compute = Callable[[dict[str, ScoreMatrix]], float]  # from one run, by base score
SCORES = ("accuracy", "class_accuracy", "within_accuracy")  # that definitions read


def _ours(name: str, score: str) -> tuple[str, Compute]:
    """Name and function of a metric of ours, of a base score."""
    metric, reference = metrics.all_metrics()[name], metrics.Reference()
    return f"{name} of `{score}`", lambda scores: metric(scores[score], reference)


def _of_matrix(compute: Callable[[Floats], float]) -> Compute:
    """A function of R, (T, T) accuracies per sample."""
    return lambda scores: compute(scores["accuracy"].R)


def _forgetting(R: Floats, left_out: int = 0) -> float:
    """Mean over sessions but the last of the drop from the best score since they were learned.

    The best score is sought in all rows but the `left_out` last; with 0 no session counts below 0.
    """
    L = len(R) - 1
    if L < 1:
        return math.nan
    best = [np.max(R[j : len(R) - left_out, j]) for j in range(min(L, len(R) - left_out))]
    return float(np.sum(best - R[L, : len(best)])) / L


def _since(R: Floats, gap: int) -> float:
    """Σ of R[i, j] - R[j, j] over i ≥ j + gap, divided by the number of pairs i > j."""
    T = len(R)
    if T < 2:
        return math.nan
    result = [float(R[i, j] - R[j, j]) for i in range(T) for j in range(i - gap + 1)]
    return sum(result) / (T * (T - 1) / 2)


# name; who computes it under which name; formula, where R[i, j] is per-sample accuracy on session j
# after session i and α_i that on all sessions so far, or the metric of ours; and how
Definition = tuple[str, str, str, Compute]
DEFINITIONS: dict[str, tuple[Definition, ...]] = {
    "accuracy": (
        ("final, per class", "Kemker et al. 2018", *_ours("final_accuracy", "class_accuracy")),
        (
            "final, per sample",
            "Avalanche: StreamAccuracy; Continuum: Logger.accuracy; PyCIL: accuracy total",
            *_ours("final_accuracy", "accuracy"),
        ),
        (
            "mean over sessions",
            "FACIL: avg_accs_tag; Mammoth: Class-IL mean accuracy; OCL: avg_end_acc",
            *_ours("average_accuracy", "accuracy"),
        ),
        (
            "mean over sessions, session known",
            "FACIL: avg_accs_taw; Mammoth: Task-IL mean accuracy",
            *_ours("average_accuracy", "within_accuracy"),
        ),
        (
            "average incremental",
            "PyCIL: Average Accuracy; Continuum: Logger.average_incremental_accuracy",
            *_ours("average_incremental_accuracy", "accuracy"),
        ),
        (
            "average incremental, sessions alike",
            "OCL: avg_acc",
            "1/T Σ_i 1/(i+1) Σ_{j≤i} R[i, j]",
            _of_matrix(lambda R: float(np.mean([np.mean(r[: i + 1]) for i, r in enumerate(R)]))),
        ),
    ),
    "forgetting": (
        (
            "from the best before, per class",
            "Chaudhry et al. 2018, Eq. 3",
            *_ours("average_forgetting", "class_accuracy"),
        ),
        (
            "from the best before",
            "FACIL: TAg Forg; Chaudhry et al. 2018, Eq. 3",
            *_ours("average_forgetting", "accuracy"),
        ),
        (
            "from the best before, session known",
            "FACIL: TAw Forg",
            *_ours("average_forgetting", "within_accuracy"),
        ),
        (
            "from the best, the last included",
            "PyCIL: trainer Forgetting; Mammoth: utils.metrics.forgetting",
            "1/L Σ_{j<L} (max_{j≤l≤L} R[l, j] - R[L, j])",
            _of_matrix(_forgetting),
        ),
        (
            "from the first",
            "Avalanche: StreamForgetting",
            "1/L Σ_{j<L} (R[j, j] - R[L, j])",
            lambda scores: -metrics.bwt(scores["accuracy"], metrics.Reference()),
        ),
        (
            "two sessions left out",
            "Continuum 1.2.7: metrics.forgetting (its issue 281)",
            "1/L Σ_{j<L-1} (max_{j≤l<L-1} R[l, j] - R[L, j])",
            _of_matrix(lambda R: _forgetting(R, 2)),
        ),
    ),
    "backward transfer": (
        (
            "at the end",
            "Mammoth: utils.metrics.backward_transfer; Avalanche: StreamBWT",
            *_ours("bwt", "accuracy"),
        ),
        (
            "over all sessions",
            "OCL: before negative values become 0; Díaz-Rodríguez et al. 2018",
            "2/(T(T-1)) Σ_i Σ_{j<i} (R[i, j] - R[j, j])",
            _of_matrix(lambda R: _since(R, 1)),
        ),
        (
            "over all sessions, the newest pairs left out",
            "Continuum 1.2.7: metrics.backward_transfer",
            "2/(T(T-1)) Σ_i Σ_{j<i-1} (R[i, j] - R[j, j])",
            _of_matrix(lambda R: _since(R, 2)),
        ),
    ),
}


def can_audit(scores: Iterable[str]) -> bool:
    """Whether the definitions can be applied to answers with these base scores."""
    return {*SCORES} <= {*scores}


def audit(p: RunAnswers) -> list[dict[str, Any]]:
    """Every definition with its value on one run, as plain JSON; fractions, NaN where undefined."""
    scores = {name: p.score_matrix(name) for name in SCORES}
    return [
        {
            "group": group,
            "name": name,
            "formula": formula,
            "value": compute(scores),
            "sources": sources.split("; "),
        }
        for group, definitions in DEFINITIONS.items()
        for name, sources, formula, compute in definitions
    ]
