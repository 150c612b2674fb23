"""The few-shot paper on a small file."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from embedbench.arrays import Floats
from embedbench.papers.fscil.runs import Runs
from embedbench.papers.published import PaperTable
from embedbench.scores.few_shot import curves_of
from embedbench.scores.record import Record, to_json
from embedbench.scores.stats import Stat


def made(seed: int, found: Floats, sizes: list[int]) -> Record:
    own = {"R": found, "curves": curves_of(found, sizes)}
    return {"seed": seed, "n_classes": sizes, "by_score": {"accuracy": to_json(own)}, "flags": []}


@dataclass
class Made(Runs):
    """Runs with the records of `had`, by variant."""

    had: dict[str, list[Record]] = field(default_factory=dict)

    def of(self, name: str, variant: str) -> list[Record]:
        return self.had.get(variant, [])

    def possible(self, name: str, variant: str) -> bool:
        return variant != "teen"


def flat(base: float, novel: float) -> Floats:
    """Accuracies that never change."""
    found = np.where(np.tri(4, dtype=np.bool_), novel, np.nan)
    found[:, 0] = base
    return found


def ours(found: PaperTable, label: str, head: str) -> Stat:
    (values,) = [v for labels, v in found.rows if label in labels]
    stat = values[head].ours
    assert stat is not None
    return stat
