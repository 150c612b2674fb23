"""`report --by seeds`: over which of the four seeds runs differ, and how far; sd by hand."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from command_line import embedbench
from file_helpers import says
from report_records import make, put

from embedbench.errors import UserError
from embedbench.reports.results import Result
from embedbench.reports.spread_over_seeds import SeedSpread, spreads_over_seeds
from embedbench.reports.tables_from_runs import collect
from embedbench.scores.run_record import RunRecord

SEEDS = {"order": 1, "init": 1, "batches": 1, "memory": 1}
ALL = {"order", "init", "batches", "memory"}


def put_run(root: Path, name: str, final: float, *, learner: str = "er", **seeds: int) -> None:
    """A run by its seeds; those that are not given are 1."""
    seed = int(name.partition("-")[0])
    record = make(learner, seed, final, seeds={**SEEDS, **seeds}, digests={"train": "b" * 64})
    put(RunRecord.from_json(record), root / "stream-1" / learner / f"seed-{name}")


def spreads(root: Path) -> list[dict[str, Any]]:
    (view,) = spreads_over_seeds(collect(root), "final_accuracy")
    learners: list[dict[str, Any]] = view.data["learners"]
    return learners


@pytest.mark.parametrize("name", sorted(ALL - {"order"}))
def test_one_seed_that_differs_is_named(tmp_path: Path, name: str) -> None:
    for seed, final in enumerate((0.5, 0.6, 0.8)):
        put_run(tmp_path, str(seed), final, **{name: seed})
    (one,) = spreads(tmp_path)
    assert one["over"] == [name]


def test_the_spread_is_that_of_single_runs(tmp_path: Path) -> None:
    for seed, final in enumerate((0.5, 0.6, 0.7)):
        put_run(tmp_path, str(seed), final, init=seed)
    (one,) = spreads(tmp_path)
    found = [one[key] for key in ("runs", "mean", "sd", "least", "most")]
    assert found == pytest.approx([3, 0.6, 0.1, 0.5, 0.7])


def test_runs_of_several_seeds_differ_in_all_four(tmp_path: Path) -> None:
    for seed, final in enumerate((0.5, 0.6)):
        put_run(tmp_path, str(seed), final, **dict.fromkeys(ALL, seed))
    (one,) = spreads(tmp_path)
    assert {*one["over"]} == ALL


def test_a_run_that_is_in_no_mean_counts_for_the_seed_that_it_varies(tmp_path: Path) -> None:
    """Two seeds, and the first again with another memory: 50 and 54 by the memory alone."""
    put_run(tmp_path, "0", 0.5)
    put_run(tmp_path, "1", 0.8, **dict.fromkeys(ALL, 2))
    put_run(tmp_path, "0-memory9", 0.54, memory=9)
    each = {tuple(one["over"]): one["sd"] for one in spreads(tmp_path)}
    assert each[("memory",)] == pytest.approx(0.04 / math.sqrt(2))


def test_sets_that_differ_otherwise_are_pooled(tmp_path: Path) -> None:
    """Of each of two orders two first weights: variances 2 and 8, in points."""
    for seed, (order, init, final) in enumerate(
        [(1, 1, 0.50), (1, 2, 0.52), (5, 1, 0.70), (5, 2, 0.74)]
    ):
        put_run(tmp_path, str(seed), final, order=order, init=init)
    each = {tuple(one["over"]): one["sd"] for one in spreads(tmp_path)}
    assert each[("init",)] == pytest.approx(math.sqrt((2 + 8) / 2) / 100)


def test_the_table_says_over_which_seeds(tmp_path: Path) -> None:
    for seed, final in enumerate((0.5, 0.6, 0.7)):
        put_run(tmp_path, str(seed), final, init=seed)
    lines = embedbench("report", tmp_path, "--by", "seeds").stdout.splitlines()
    assert ["er", "init", "3", "60.0", "10.0", "50.0", "70.0"] in [one.split() for one in lines]


@pytest.mark.parametrize("form", ["--latex", "--markdown", "--csv"])
def test_every_form_says_it(tmp_path: Path, form: str) -> None:
    for seed, final in enumerate((0.5, 0.6)):
        put_run(tmp_path, str(seed), final, memory=seed)
    assert "memory" in embedbench("report", tmp_path, "--by", "seeds", form).stdout


def test_it_takes_a_metric(tmp_path: Path) -> None:
    for seed, final in enumerate((0.5, 0.6)):
        put_run(tmp_path, str(seed), final, memory=seed)
    words = ("--by", "seeds", "--metric", "average_forgetting", "--json")
    (study,) = json.loads(embedbench("report", tmp_path, *words).stdout)["studies"]
    assert study["learners"][0]["mean"] == pytest.approx(0.9 - 0.55)


def test_one_run_has_no_spread(tmp_path: Path) -> None:
    put_run(tmp_path, "0", 0.5)
    what = "--by seeds needs two runs of a learner that differ in their seeds"
    with pytest.raises(UserError, check=says(what=what)):
        spreads(tmp_path)


def test_runs_with_equal_answers_in_each_set_are_changed_by_nothing() -> None:
    """Two class orders, and in each two first weights with the same answers."""
    runs = [
        [Result(learner="ncm", answers=answers, values={"m": value}) for _ in range(2)]
        for answers, value in (("a", 0.5), ("b", 0.6))
    ]
    assert SeedSpread("ncm", ("init",), tuple(map(tuple, runs))).changes_nothing


def test_runs_whose_answers_are_not_known_may_be_changed() -> None:
    unknown = (Result(learner="ncm"), Result(learner="ncm"))
    assert not SeedSpread("ncm", ("init",), (unknown,)).changes_nothing


def test_a_metric_that_no_run_has_is_refused(tmp_path: Path) -> None:
    for seed, final in enumerate((0.5, 0.6)):
        put_run(tmp_path, str(seed), final, memory=seed)
    with pytest.raises(UserError, match="unknown metric 'acuracy'"):
        spreads_over_seeds(collect(tmp_path), "acuracy")
