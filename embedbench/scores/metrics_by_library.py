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
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from embedbench.array_types import Floats

from . import metrics
from .run_answers import RunAnswers
from .score_matrix import ScoreMatrix

Compute = Callable[[dict[str, ScoreMatrix]], float]  # from one run, by base score
SCORES = ("accuracy", "class_accuracy", "within_accuracy")  # that definitions read


class Definition(NamedTuple):
    """One way to compute what goes by a name."""

    name: str
    sources: tuple[str, ...]  # who computes it, and under which name
    formula: str  # or the metric of ours, and of which base score
    compute: Compute


def _ours(name: str, sources: tuple[str, ...], metric_name: str, score: str) -> Definition:
    """A definition that is a metric of ours, of a base score."""
    metric = metrics.all_metrics()[metric_name]
    reference = metrics.Reference()

    def compute(scores: dict[str, ScoreMatrix]) -> float:
        return metric(scores[score], reference)

    return Definition(name, sources, f"{metric_name} of `{score}`", compute)


def _of_matrix(
    name: str, sources: tuple[str, ...], formula: str, of_R: Callable[[Floats], float]
) -> Definition:
    """A definition on R, (T, T) accuracies per sample."""

    def compute(scores: dict[str, ScoreMatrix]) -> float:
        return of_R(scores["accuracy"].R)

    return Definition(name, sources, formula, compute)


def _sessions_alike(R: Floats) -> float:
    """Mean over i of the mean of R[i, j], j ≤ i."""
    return float(np.mean([np.mean(row[: i + 1]) for i, row in enumerate(R)]))


def _from_the_first(scores: dict[str, ScoreMatrix]) -> float:
    """Mean over sessions but the last of the drop from the score when they were learned."""
    return -metrics.bwt(scores["accuracy"], metrics.Reference())


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
    total = 0.0
    for i in range(T):
        for j in range(i - gap + 1):
            total += float(R[i, j] - R[j, j])
    return total / (T * (T - 1) / 2)


# In formulas R[i, j] is per-sample accuracy on session j after session i.
DEFINITIONS: dict[str, tuple[Definition, ...]] = {
    "accuracy": (
        _ours("final, per class", ("Kemker et al. 2018",), "final_accuracy", "class_accuracy"),
        _ours(
            "final, per sample",
            (
                "Avalanche: StreamAccuracy",
                "Continuum: Logger.accuracy",
                "PyCIL: accuracy total",
            ),
            "final_accuracy",
            "accuracy",
        ),
        _ours(
            "mean over sessions",
            (
                "FACIL: avg_accs_tag",
                "Mammoth: Class-IL mean accuracy",
                "OCL: avg_end_acc",
            ),
            "average_accuracy",
            "accuracy",
        ),
        _ours(
            "mean over sessions, session known",
            ("FACIL: avg_accs_taw", "Mammoth: Task-IL mean accuracy"),
            "average_accuracy",
            "within_accuracy",
        ),
        _ours(
            "average incremental",
            ("PyCIL: Average Accuracy", "Continuum: Logger.average_incremental_accuracy"),
            "average_incremental_accuracy",
            "accuracy",
        ),
        _of_matrix(
            "average incremental, sessions alike",
            ("OCL: avg_acc",),
            "1/T Σ_i 1/(i+1) Σ_{j≤i} R[i, j]",
            _sessions_alike,
        ),
    ),
    "forgetting": (
        _ours(
            "from the best before, per class",
            ("Chaudhry et al. 2018, Eq. 3",),
            "average_forgetting",
            "class_accuracy",
        ),
        _ours(
            "from the best before",
            ("FACIL: TAg Forg", "Chaudhry et al. 2018, Eq. 3"),
            "average_forgetting",
            "accuracy",
        ),
        _ours(
            "from the best before, session known",
            ("FACIL: TAw Forg",),
            "average_forgetting",
            "within_accuracy",
        ),
        _of_matrix(
            "from the best, the last included",
            ("PyCIL: trainer Forgetting", "Mammoth: utils.metrics.forgetting"),
            "1/L Σ_{j<L} (max_{j≤l≤L} R[l, j] - R[L, j])",
            _forgetting,
        ),
        Definition(
            "from the first",
            ("Avalanche: StreamForgetting",),
            "1/L Σ_{j<L} (R[j, j] - R[L, j])",
            _from_the_first,
        ),
        _of_matrix(
            "two sessions left out",
            ("Continuum 1.2.7: metrics.forgetting (its issue 281)",),
            "1/L Σ_{j<L-1} (max_{j≤l<L-1} R[l, j] - R[L, j])",
            partial(_forgetting, left_out=2),
        ),
    ),
    "backward transfer": (
        _ours(
            "at the end",
            ("Mammoth: utils.metrics.backward_transfer", "Avalanche: StreamBWT"),
            "bwt",
            "accuracy",
        ),
        _of_matrix(
            "over all sessions",
            ("OCL: before negative values become 0", "Díaz-Rodríguez et al. 2018"),
            "2/(T(T-1)) Σ_i Σ_{j<i} (R[i, j] - R[j, j])",
            partial(_since, gap=1),
        ),
        _of_matrix(
            "over all sessions, the newest pairs left out",
            ("Continuum 1.2.7: metrics.backward_transfer",),
            "2/(T(T-1)) Σ_i Σ_{j<i-1} (R[i, j] - R[j, j])",
            partial(_since, gap=2),
        ),
    ),
}


def can_audit(scores: Iterable[str]) -> bool:
    """Whether the definitions can be applied to answers with these base scores."""
    return {*SCORES} <= {*scores}


def audit(p: RunAnswers) -> list[dict[str, Any]]:
    """Every definition with its value on one run, as plain JSON; fractions, NaN where undefined."""
    scores = {name: p.score_matrix(name) for name in SCORES}
    rows = []
    for group, definitions in DEFINITIONS.items():
        for definition in definitions:
            rows.append(
                {
                    "group": group,
                    "name": definition.name,
                    "formula": definition.formula,
                    "value": definition.compute(scores),
                    "sources": list(definition.sources),
                }
            )
    return rows
