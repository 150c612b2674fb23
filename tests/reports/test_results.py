"""The table of results: means, pairs and verdicts by hand and by loops; rows of a mean alone."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import embedbench
from report_records import keep, make, put, typed

from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.reports.load_results import load_runs
from embedbench.reports.measurement_words import count_text
from embedbench.reports.results import Result, Results, column_stats
from embedbench.reports.tables_from_runs import collect, csv_rows, to_json
from embedbench.reports.terminal_tables import table_text
from embedbench.scores.learner_verdicts import compare_with_best
from embedbench.scores.mean_intervals import Stat
from embedbench.scores.run_record import RunRecord


def numbers(learner: str, *values: float, stream: str = "s", order: str = "") -> list[Result]:
    """A run for each value, of seeds 0, 1, …."""
    names = {"learner": learner, "stream": stream, "order": order}
    each = enumerate(values)
    return [Result(**names, seed=s, seeds=Seeds.of(s), values={"x": v}) for s, v in each]


def table(*rows: Sequence[Result]) -> Results:
    return Results(tuple(itertools.chain(*rows)))


def test_a_mean_over_seeds_by_hand() -> None:
    (row,) = table(numbers("a", 0.1, 0.2, 0.6)).mean("x").rows
    # mean .3, sd √(.14/2); t(.975, 2) = 4.302653
    half = 4.302653 * math.sqrt(0.07) / math.sqrt(3)
    assert (row.value("x"), row.values["x"].half) == pytest.approx((0.3, half))


def test_a_mean_over_streams_counts_each_stream_once() -> None:
    """(.1 + .3)/2 = .2 and .8: their mean is .5, that of the three runs .4."""
    rows = table(numbers("a", 0.1, 0.3), numbers("a", 0.8, stream="t"))
    (row,) = rows.mean("x", over="seeds").mean("x", over="streams").rows
    assert row.values["x"] == Stat.of([0.2, 0.8])


def test_means_are_those_of_a_loop() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        rows = [
            Result(
                learner=str(rng.integers(3)), stream=str(rng.integers(2)),
                order=str(rng.integers(2)), seed=i, values={"x": float(rng.random())},
            )
            for i in range(30)
        ]  # fmt: skip
        for over in (["seeds"], ["orders", "seeds"], ["learners", "seeds"]):
            kept = [k for k in ("stream", "learner", "order") if f"{k}s" not in over]
            expected: dict[Any, list[float]] = {}
            for row in rows:
                key = tuple(getattr(row, k) for k in kept)
                expected.setdefault(key, []).append(row.values["x"])
            found = Results(tuple(rows)).mean("x", over=over)
            got = {tuple(getattr(r, k) for k in kept): r.values["x"].mean for r in found}
            assert got == pytest.approx({k: sum(v) / len(v) for k, v in expected.items()})


@pytest.mark.parametrize("lower", ["x", "average_forgetting"])
def test_verdicts_are_those_of_values_paired_by_a_loop(lower: str) -> None:
    """Over random runs, some of which are missing."""
    rng = np.random.default_rng(1)
    rows = [
        Result(learner=name, seed=s, values={lower: float(rng.random())})
        for name, s in itertools.product("abcd", range(6))
        if rng.random() < 0.8
    ]
    values = np.full((4, 6), np.nan)
    for row in rows:
        values["abcd".index(row.learner), row.seed or 0] = row.values[lower]
    expected = compare_with_best(values, lower=lower != "x")
    found = dict(
        zip(
            dict.fromkeys(r.learner for r in rows),
            Results(tuple(rows)).verdicts(lower).rows,
            strict=True,
        )
    )
    for name, verdict in zip("abcd", expected, strict=True):
        mine = found[name]
        assert mine is not None
        assert mine.behind_by == pytest.approx(verdict.behind_by)
        assert mine.behind_by_least == pytest.approx(verdict.behind_by_least, nan_ok=True)
        assert mine.n == verdict.n


def test_pairs_are_those_of_a_loop() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        sides = [[r for r in numbers(name, *rng.random(8)) if rng.random() < 0.6] for name in "ab"]
        pairs = table(sides[0]).pair(table(sides[1]))
        expected = [(a, b) for a in sides[0] for b in sides[1] if a.seed == b.seed]
        assert pairs.rows == expected
        assert len(pairs.alone) == len(sides[0]) + len(sides[1]) - 2 * len(expected)
        if expected:
            gap = pairs.stats("x")[2]
            by_loop = np.mean([b.values["x"] - a.values["x"] for a, b in expected])
            assert gap.mean == pytest.approx(by_loop)


def test_a_row_with_two_partners_is_in_no_pair() -> None:
    pairs = table(numbers("a", 0.1)).pair(table(numbers("b", 0.2), numbers("c", 0.3)))
    assert pairs.rows == []
    assert len(pairs.alone) == 3
    assert pairs.alone[0][1] == "2 rows of the other have its seeds"


def test_learners_of_other_settings_are_rows_of_their_own() -> None:
    rows = [
        Result(learner="ewc", setting=setting, seed=s, values={"x": 0.1 * s + shift})
        for setting, shift in (("lam=1", 0.5), ("lam=10", 0.0))
        for s in range(3)
    ]
    found = Results(tuple(rows))
    assert found.learners == ["ewc lam=1", "ewc lam=10"]
    assert [v.rank for v in found.verdicts("x").rows if v] == [1, 2]


def test_verdicts_are_on_one_stream() -> None:
    rows = table(numbers("a", 0.1, 0.2), numbers("b", 0.3, 0.5, stream="t"))
    with pytest.raises(UserError, match="verdicts are on one stream, and there are 2"):
        rows.verdicts("x")


# --- rows of which only a mean, a spread and a number of runs is known ---


PRINTED = Result(learner="theirs", stream="s", values={"x": Stat.printed(0.5, 5, sd=0.1)})


def test_a_printed_mean_has_the_interval_of_its_spread() -> None:
    stat = table([PRINTED]).stat("x")
    # t(.975, 4) = 2.776445
    assert stat.mean == 0.5
    assert stat.n == 5
    assert stat.half == pytest.approx(2.776445 * 0.1 / math.sqrt(5))
    assert Stat.printed(0.5, 5, half=stat.half).sd == pytest.approx(0.1)


def test_a_printed_mean_of_one_run_has_no_interval() -> None:
    assert math.isnan(Stat.printed(0.5, 1).half)


def test_a_printed_mean_stays_what_it_is() -> None:
    found = table([PRINTED], numbers("ours", 0.1, 0.2)).mean("x")
    assert [(r.learner, r.values["x"].n) for r in found] == [("theirs", 5), ("ours", 2)]


def test_a_printed_mean_is_in_no_pair_and_no_verdict() -> None:
    ours = numbers("ours", 0.1, 0.2)
    pairs = table(ours).pair(table([PRINTED]))
    assert pairs.rows == []
    assert {row.learner: why.partition(",")[0] for row, why in pairs.alone} == {
        "ours": "no row of the other has its seeds",
        "theirs": "only its mean is known",
    }
    verdicts = table([PRINTED], ours, numbers("b", 0.3, 0.5)).verdicts("x").rows
    assert [v is None for v in verdicts] == [True, False, False]


def test_a_printed_mean_is_not_averaged_with_runs() -> None:
    rows = table([PRINTED], numbers("theirs", 0.1))
    with pytest.raises(UserError, match="theirs: a mean cannot be averaged with single runs"):
        rows.mean("x")


# --- one measurement ---


def run(seed: int, final: float, sha256: str = "", **other: int) -> dict[str, Any]:
    """A record with the four seeds of `seed`, but for `other`, and the SHA-256 of its answers."""
    seeds = asdict(Seeds.of(seed, **other))
    given = {"predictions_sha256": sha256 * 64} if sha256 else {}
    return make(seed=seed, final=final, seeds=seeds, **given)


def records(*runs: dict[str, Any]) -> Results:
    return Results(tuple(Result.of_run(RunRecord.from_json(one)) for one in runs))


def test_equal_answers_are_one_measurement() -> None:
    runs = records(*(run(s, 0.195, "a") for s in range(3)))
    stat = runs.stat("final_accuracy")
    assert stat.mean == 0.195
    assert stat.n == 1
    assert math.isnan(stat.half)
    assert count_text(stat.n, len(runs)) == "=3"


def test_equal_scores_of_other_answers_are_measurements() -> None:
    runs = records(*(run(s, 0.195, sha) for s, sha in enumerate("abc")))
    stat = runs.stat("final_accuracy")
    assert stat.n == 3
    assert stat.half == pytest.approx(0, abs=1e-12)


def test_what_runs_cost_is_not_in_their_answers() -> None:
    runs = records(*(run(s, 0.195, "a") for s in range(3)))
    assert runs.stat("seconds.learn").n == 3


def test_some_equal_answers_are_counted_once() -> None:
    """.2 twice and .6: the mean of the two measurements."""
    runs = records(run(0, 0.2, "a"), run(1, 0.2, "a"), run(2, 0.6, "b"))
    assert runs.stat("final_accuracy").values == (0.2, 0.6)


def test_runs_that_share_a_seed_are_one_measurement() -> None:
    """Seed 0 with .1 and .3, seed 1 with .8: (.2 + .8)/2."""
    runs = records(run(0, 0.1, "a", init=1), run(0, 0.3, "b", init=2), run(1, 0.8, "c", init=1))
    assert runs.stat("final_accuracy").values == pytest.approx((0.2, 0.8))
    assert runs.units == "seeds"
    assert runs.matrix("final_accuracy").tolist() == [pytest.approx([0.2, 0.8])]


def test_runs_of_one_seed_say_what_they_vary() -> None:
    runs = records(*(run(0, 0.1 * i, str(i), init=i, memory=i) for i in (1, 2, 3)))
    assert runs.stat("final_accuracy").n == 3
    assert runs.units == "init and memory seeds"


def keep_init(root: Path, learner: str, finals: Sequence[float]) -> None:
    """Runs of seed 0 with other seeds of the initial weights; equal scores are equal answers."""
    for i, final in enumerate(finals, 1):
        made = make(learner, 0, final, seeds=asdict(Seeds.of(0, init=i)))
        put(RunRecord.from_json(made), root / "stream-1" / learner / f"seed-0-init{i}")


def test_equal_answers_among_others_are_said(tmp_path: Path) -> None:
    keep_init(tmp_path, "ncm", (0.5, 0.5, 0.4))
    line = (
        "n of ncm 2 of 3 runs: runs that share a seed, or gave equal answers, are one measurement"
    )
    assert line in table_text(collect(tmp_path)).splitlines()


def test_the_report_says_it_in_every_form(tmp_path: Path) -> None:
    keep_init(tmp_path, "ncm", (0.5, 0.5, 0.5))
    keep_init(tmp_path, "mlp", (0.3, 0.4, 0.2))
    rows = collect(tmp_path)
    lines = table_text(rows).splitlines()
    cells = {line.split()[0]: line.split()[1:4] for line in lines if line[:4] in ("ncm ", "mlp ")}
    assert cells == {"ncm": ["=3", "50.0", "0.0"], "mlp": ["3", "30.0", "±24.8"]}
    assert "± of mlp: over init seeds alone, the others are the same in all runs" in lines
    assert "=: runs with equal answers, one measurement: ncm (=3)" in lines
    made = to_json(rows)
    ncm, mlp = made["tables"][0]["rows"]
    assert [(r["n"], r["measurements"], r["over"]) for r in (ncm, mlp)] == [
        (3, 1, "init seeds"),
        (3, 3, "init seeds"),
    ]
    assert ncm["metrics"]["final_accuracy"]["half_95"] is None
    assert [line["final_accuracy.half_95"] is None for line in csv_rows(made)] == [True, False]
    compared = embedbench("report", tmp_path, "--compare").stdout
    assert "over 3 init seeds alone" in compared
    assert "=3" in embedbench("report", tmp_path, "--latex").stdout


# --- as data ---


def test_load_runs_hands_it_out(tmp_path: Path) -> None:
    keep(tmp_path, make("ewc", 0, 0.6), make("ewc", 1, 0.8), make("mlp", 0, 0.5))
    results = load_runs(tmp_path).results()
    assert results.where(learner="ewc", seed=1).stat("final_accuracy").mean == 0.8
    (ewc, mlp) = results.mean("final_accuracy").to_rows("final_accuracy")
    assert ewc == {
        "stream": "incremental-class · toy.h5", "learner": "ewc", "setting": "", "order": "",
        "seed": None, "moment": None, "eval_set": None, "metric": "final_accuracy",
        "value": pytest.approx(0.7), "half_95": pytest.approx(12.7062047 * 0.1),
        "sd": pytest.approx(math.sqrt(0.02)), "n": 2,
    }  # fmt: skip
    assert (mlp["value"], mlp["n"]) == (0.5, 1)
    with pytest.raises(UserError, match="what to average over 'runs'"):
        results.mean("final_accuracy", over="runs")


def test_values_at_a_moment_and_on_an_eval_set() -> None:
    rows = Results((Result.of_run(typed(final=0.8, curves={"raa": [0.1, 0.2, 0.3]})),))
    for moment, eval_set, metric, value in (
        *((0, None, "final_accuracy", 0.9), (1, None, "accuracy", 0.75)),
        *((1, 0, "final_accuracy", 0.8), (2, 2, "final_accuracy", 0.8)),
        *((1, None, "raa", 0.2), (7, None, "raa", math.nan)),
    ):
        found = rows.stat(metric, moment, eval_set).mean
        assert found == pytest.approx(value, nan_ok=True), (metric, moment, eval_set)


def test_columns_of_numbers() -> None:
    assert column_stats([[1.0, 2.0], [3.0, 6.0]]) == [Stat.of([1.0, 3.0]), Stat.of([2.0, 6.0])]
    assert column_stats([]) == []


def test_runs_of_chance_are_not_compared() -> None:
    """The others are tested as if they were not there, and name each other by their places."""
    finals = {"chance": (0.2, 0.3, 0.25), "ncm": (0.8, 0.81, 0.82), "ewc": (0.5, 0.51, 0.53)}
    rows = [
        Result(learner=name, record=typed(name, seed, final), seed=seed)
        for name, each in finals.items()
        for seed, final in enumerate(each)
    ]
    alone = Results(tuple(rows[3:])).verdicts("final_accuracy").rows[1]
    chance, _, row = Results(tuple(rows)).verdicts("final_accuracy").rows
    assert chance is None
    assert row is not None
    assert alone is not None
    assert row.behind_by_least == alone.behind_by_least
    assert row.against == 1
    assert row.above == (1,)
    assert alone.against == 0
