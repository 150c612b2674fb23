"""The few-shot paper on a small file."""

from dataclasses import dataclass, field

import numpy as np
from report_records import scored

from embedbench.array_types import Floats
from embedbench.papers.fscil.runs import FSCILRuns
from embedbench.papers.paper_table import PaperTable
from embedbench.scores.few_shot_scores import curves_from_accuracies
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import RunRecord


def made(seed: int, R: Floats, sizes: list[int]) -> RunRecord:
    return scored(R, R[-1], curves_from_accuracies(R, sizes), seed=seed, n_classes=sizes)


@dataclass
class Made(FSCILRuns):
    """Runs with the records of `had`, by variant."""

    had: dict[str, list[RunRecord]] = field(default_factory=dict)

    def of(self, name: str, variant: str) -> list[RunRecord]:
        return self.had.get(variant, [])

    def possible(self, name: str, variant: str) -> bool:
        return variant != "teen"

    def layers(self, name: str) -> tuple[str, ...]:
        return ()


def flat(base: float, novel: float) -> Floats:
    """Accuracies that never change."""
    R = np.where(np.tri(4, dtype=np.bool_), novel, np.nan)
    R[:, 0] = base
    return R


def ours(table: PaperTable, label: str, head: str) -> Stat:
    (values,) = [row.values for row in table.rows if label in row.labels]
    stat = values[head].ours
    assert stat is not None
    return stat
