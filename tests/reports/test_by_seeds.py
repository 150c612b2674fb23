"""Seeds varied one at a time: the cells, the tables that leave them out, the split of variance."""

import dataclasses
import json
import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import embedbench
from plan_runs import plan
from protocol_files import make_file
from report_records import make, put

from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.reports import comparison_tables
from embedbench.reports.comparison_tables import (
    KINDS,
    TableView,
    pool_spread,
    spread_over_seeds,
)
from embedbench.reports.tables_from_runs import collect, variations
from embedbench.reports.terminal_tables import table_text
from embedbench.runs.run_spec import RunSpec
from embedbench.scores import record_files
from embedbench.scores.run_record import RunRecord
from embedbench.text.terminal_text import render_text

# --- cells ---


def planned(
    items: Sequence[str] = (), seeds: Sequence[int] = (0, 1, 2), vary: Sequence[str] = ()
) -> list[RunSpec]:
    return plan(["toy.h5"], "permutation", ["ncm"], seeds, items, vary=vary, out="RUNS")


def test_every_cell_but_the_first_has_one_seed_of_another_number() -> None:
    first, *others = planned(vary=list(KINDS), seeds=[3, 5, 8])
    assert first.seeds == Seeds.of(3)
    found = []
    for cell in others:
        apart = {k for k in KINDS if getattr(cell.seeds, k) != getattr(first.seeds, k)}
        (kind,) = apart
        drawn = [s for s in (5, 8) if getattr(Seeds.of(s), kind) == getattr(cell.seeds, kind)]
        found.append((kind, *drawn))
    assert found == [(kind, seed) for kind in KINDS for seed in (5, 8)]


def test_the_command_of_a_cell_makes_that_cell() -> None:
    for cell in planned(["protocol.sessions=3"], vary=["init", "memory"]):
        words = shlex.split(cell.command)
        items = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
        (again,) = planned(items, seeds=[int(words[words.index("--seed") + 1])])
        assert again == dataclasses.replace(cell, command=again.command)


def test_a_seed_given_by_hand_is_held_in_all_cells() -> None:
    cells = planned(["seeds.order=7"], vary=["init"])
    assert [c.seeds.order for c in cells] == [7, 7, 7]
    assert len({c.seeds.init for c in cells}) == 3


@pytest.mark.parametrize(
    ("items", "seeds", "vary", "says"),
    [
        ([], [0, 1], ["inti"], "Did you mean 'init'"),
        ([], [4], ["init"], "two seeds or more"),
        (["seeds.init=1"], [0, 1], ["init"], "contradict"),
    ],
)
def test_a_design_that_cannot_be(
    items: list[str], seeds: list[int], vary: list[str], says: str
) -> None:
    with pytest.raises(UserError, match=says):
        planned(items, seeds, vary)


# --- which runs stand for themselves ---


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
    assert (row.n, len(row.varied)) == ("2", 2)
    assert "single seeds set otherwise, in no mean: 2" in table_text([row])
    assert "in no mean" not in table_text(collect(keep(tmp_path / "alone", *runs[:2])))


# --- spreads ---


def test_spread_by_hand() -> None:
    # .1 .2 .3: sd .1; χ² with 2 degrees of freedom is exponential: quantiles -2 ln .025, -2 ln .975
    found = pool_spread([[0.1, 0.2, 0.3]])
    low = 0.1 * math.sqrt(2 / (-2 * math.log(0.025)))
    high = 0.1 * math.sqrt(2 / (-2 * math.log(0.975)))
    assert tuple(found.values()) == pytest.approx((0.1, low, high, 3))
    # two groups about their own means, one run that tells nothing: (2·.01 + 2·.005)/3
    pooled = pool_spread([[0.1, 0.2, 0.3], [0.9], [0.5, 0.6]])
    assert (pooled["sd"], pooled["n"]) == (pytest.approx(math.sqrt((0.02 + 0.005) / 3)), 5)
    nothing = pool_spread([[0.1], [0.2]])
    assert nothing["n"] == 0
    assert comparison_tables._sd_text(nothing, "final_accuracy") == "–"
    assert math.isnan(pool_spread([])["sd"])
    assert list(pool_spread([[0.5, 0.5]]).values()) == [0, 0, 0, 2]


def spreads(root: Path) -> list[TableView]:
    return spread_over_seeds(collect(root), "final_accuracy")


EFFECT = {"order": 0.04, "init": 0.02, "batches": 0.01}  # a seed of k adds k times as much


def design() -> list[dict[str, Any]]:
    """Seed 0 with 1 to 3 put in for each kind in turn; and seeds 1 to 3 in full."""

    def final(**level: int) -> float:
        return 0.4 + sum(EFFECT[kind] * n for kind, n in level.items())

    single = [
        run(0, final(**{kind: s}), **{kind: getattr(Seeds.of(s), kind)})
        for kind in EFFECT
        for s in (1, 2, 3)
    ]
    full = [run(s, final(order=s, init=s, batches=s)) for s in range(4)]
    return [*full, *single]


def test_each_seed_gets_the_variance_it_makes(tmp_path: Path) -> None:
    (found,) = spreads(keep(tmp_path / "plain", *design()))
    (entry,) = found.data["learners"]
    sd = float(np.std([0, 1, 2, 3], ddof=1))
    for kind, effect in EFFECT.items():
        spread = entry["seeds"][kind]
        assert (spread["n"], spread["sd"]) == (4, pytest.approx(effect * sd))
        assert spread["share"] == pytest.approx(effect**2 / 0.0021)  # .0016 + .0004 + .0001
    assert entry["seeds"]["memory"]["n"] == 0
    assert entry["seeds"]["memory"]["sd"] is None
    head, line = render_text(found.parts).splitlines()[2:4]
    assert head.split() == ["learner", "order", "init", "batches"]
    assert "5.16 (4) [2.93, 19.25] 76 %" in line


def test_a_run_left_out_of_means_tells_no_spread(tmp_path: Path) -> None:
    broken = {**run(0, 0.0, init=9), "flags": ["diverged"]}
    runs = [run(0), run(0, 0.7, init=8), broken]
    (found,) = spreads(keep(tmp_path, *runs))
    spread = found.data["learners"][0]["seeds"]["init"]
    assert (spread["n"], spread["sd"]) == (2, pytest.approx(0.1 / math.sqrt(2)))


def test_runs_that_share_no_three_seeds_are_refused(tmp_path: Path) -> None:
    keep(tmp_path, run(0), run(1))
    with pytest.raises(UserError, match="--vary order,init,batches,memory"):
        spreads(tmp_path)
    with pytest.raises(UserError, match="Did you mean 'final_accuracy'"):
        spread_over_seeds(collect(tmp_path), "final_acuracy")


# --- the command line ---


def test_one_command_makes_the_runs_and_one_shows_them(tmp_path: Path) -> None:
    file = make_file(tmp_path, (20,) * 4, test=(10,) * 4).path
    told = ["run", file, "--protocol", "incremental-class", "--order", "random", "--learner", "er"]
    told += ["--set", "er.memory.total=8", "--set", "offline.mlp.stop.epochs=1", "--set"]
    told += ["offline.mlp.stop.rule=epochs", "--vary", "order,memory", "--seeds", "0-1"]
    told += ["--jobs", 1, "--quiet", "--out", tmp_path / "runs"]
    done = embedbench(*told)
    assert done.exit_code == 0, done.output
    assert "in no mean: 2" in done.stdout
    kept = [record_files.load(p) for p in record_files.find(tmp_path / "runs")]
    kept = [r for r in kept if r.learner == "er"]
    assert len(kept) == 1 + 2
    assert len({r.digests.train for r in kept}) == 2  # only another order is another stream
    there = len(list((tmp_path / "runs").rglob("record.json")))  # with chance and offline runs
    assert f"{there} finished runs were there" in embedbench(*told).stderr
    done = embedbench("report", tmp_path / "runs", "--by", "seeds", "--json")
    ((entry,),) = [s["learners"] for s in json.loads(done.stdout)["studies"]]
    assert [entry["seeds"][k]["n"] for k in KINDS] == [2, 0, 0, 2]
    one_memory = [r for r in kept if r.seeds.memory == Seeds.of(0).memory]
    finals = [r.metrics["final_accuracy"] for r in one_memory]
    assert entry["seeds"]["order"]["sd"] == pytest.approx(np.std(finals, ddof=1))
