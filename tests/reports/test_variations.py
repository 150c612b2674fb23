"""Runs that repeat others with single seeds set otherwise, and the tables that leave them out."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
from report_records import make, put

from embedbench.config.run_seeds import Seeds
from embedbench.reports.comparison_tables import pooled_sd
from embedbench.reports.tables_from_runs import collect, variations
from embedbench.reports.terminal_tables import table_text
from embedbench.scores.run_record import RunRecord


def run(seed: int, final: float = 0.8, **other: int) -> dict[str, Any]:
    """A record with the four seeds of `seed`, but for `other`."""
    seeds = dataclasses.asdict(Seeds.of(seed, **other))
    return make(seed=seed, final=final, seeds=seeds, digests={"train": f"{seeds['order']:064x}"})


def keep(root: Path, *runs: dict[str, Any]) -> Path:
    for i, r in enumerate(runs):
        put(RunRecord.from_json(r), root / "stream-1" / r["learner"] / f"seed-{r['seed']}-{i}")
    return root


def test_variations_of_a_run_are_told_from_runs_of_their_own() -> None:
    def records(*runs: dict[str, Any]) -> list[RunRecord]:
        return [RunRecord.from_json(one) for one in runs]

    base = records(run(0), run(1), run(2))
    varied = records(run(0, order=9), run(0, init=9), run(0, init=8), run(2, memory=9))
    assert variations([*varied, *base]) == (base, varied)
    # one order for all seeds: each run has a seed of its own
    fixed = records(*(run(s, order=9) for s in range(3)))
    assert variations(fixed) == (fixed, [])
    # the same and one of its seeds varied: the run that is varied stands for itself
    more = records(run(0, order=9, init=8))
    assert variations([*fixed, *more]) == (fixed, more)
    # by hand, without a run that they vary: as they were asked for
    orders = records(*(run(0, order=v) for v in (7, 8, 9)))
    assert variations(orders) == (orders, [])


def test_tables_average_independent_runs_only(tmp_path: Path) -> None:
    runs = [run(0, 0.8), run(1, 0.6), run(0, 0.1, order=9), run(0, 0.2, init=9)]
    (row,) = collect(keep(tmp_path, *runs))
    assert row.metrics["final_accuracy"].mean == pytest.approx(0.7)
    assert row.n == "2"
    assert "single seeds set otherwise, in no mean: 2" in table_text([row])
    assert "in no mean" not in table_text(collect(keep(tmp_path / "alone", *runs[:2])))


def test_spread_within_groups_by_hand() -> None:
    assert pooled_sd([[0.1, 0.2, 0.3]]) == pytest.approx(0.1)
    # two groups about their own means, one run that tells nothing: (2·.01 + 2·.0025)/3
    pooled = pooled_sd([[0.1, 0.2, 0.3], [0.9], [0.5, 0.6]])
    assert pooled == pytest.approx(math.sqrt((0.02 + 0.005) / 3))
    assert math.isnan(pooled_sd([[0.1], [0.2]]))
    assert math.isnan(pooled_sd([]))
    assert pooled_sd([[0.5, 0.5]]) == 0
