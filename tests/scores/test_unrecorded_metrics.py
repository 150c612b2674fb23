"""Metrics of other people: computed beside ours, never stored; wrong ones are a sentence."""

import importlib.metadata
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Call
from confident_runs import keep_runs
from file_helpers import says
from pinned_runs import answers

from embedbench.errors import UserError
from embedbench.reports.compare_learners import studies
from embedbench.reports.html_report import render
from embedbench.reports.tables_from_runs import collect
from embedbench.reports.terminal_tables import table_text
from embedbench.scores import record_files
from embedbench.scores.metrics import Reference
from embedbench.scores.score_matrix import ScoreMatrix
from embedbench.scores.unrecorded_metrics import (
    WINDOW,
    OutsideMetric,
    min_accuracy,
    outside_metrics,
    windowed_forgetting,
    with_outside,
)

HERE = __name__


def spread(scores: Any, reference: Any) -> float:
    """Best minus worst recall at the end. **Source**: ours <b>here</b>."""
    return float(np.nanmax(scores.per_class[-1]) - np.nanmin(scores.per_class[-1]))


spread.lower_is_better = True  # type: ignore[attr-defined]


def fails(scores: Any, reference: Any) -> float:
    """Fails."""
    raise ZeroDivisionError("no session")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    keep_runs(tmp_path, {name: [answers(4), answers(5)] for name in ("mlp", "ncm")})
    return tmp_path


def test_it_is_a_column_and_never_in_a_record(runs: Path) -> None:
    name, said = f"{HERE}:spread", list[str]()
    before = {p: p.read_bytes() for p in runs.rglob("record.json")}
    rows = collect(runs, notify=said.append, metrics=[name, "bwt"])
    assert said == []
    assert {p: p.read_bytes() for p in runs.rglob("record.json")} == before
    for row in rows:
        for run in row.records:
            place = runs / "stream-1" / run.learner / f"seed-{run.seed}"
            p: Any = record_files.read_predictions(place)
            recalls = [(p.answer[-1] == c)[p.y == c].mean() for c in np.unique(p.y)]
            assert run.metrics[name] == pytest.approx(max(recalls) - min(recalls))
            assert name in run.by_score["within_accuracy"].metrics
    text = table_text(rows)
    assert f"metrics of a file of yours, which no record holds: {name}" in text
    assert "BWT" in text
    assert name in render(rows, "runs")
    (study,) = studies(rows, name)
    best = study.learners[0]
    assert all(study.mean(best) <= study.mean(other) for other in study.learners)


def test_one_that_fails_is_nan_and_said_once(runs: Path) -> None:
    said: list[str] = []
    rows = collect(runs, notify=said.append, metrics=[f"{HERE}:fails"])
    assert len(rows) == 2
    assert not OutsideMetric.load(f"{HERE}:fails").lower_is_better
    assert all(math.isnan(row.metrics[f"{HERE}:fails"].mean) for row in rows)
    assert said == [
        f"the metric {HERE}:fails of a file of yours failed: ZeroDivisionError: no session"
    ]


def test_what_is_no_metric_is_refused() -> None:
    with pytest.raises(UserError, match=r"no metric: .*\(scores, reference\)"):
        outside_metrics([f"{HERE}:Path"], lambda _: None)
    with pytest.raises(UserError, check=says(what="unknown metric", got="bwtt", expected="bwt")):
        outside_metrics(["bwtt"], lambda _: None)


def test_a_package_takes_no_name_of_ours(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offers = [("bwt", "spread"), ("gone", "nothing"), ("good", "spread")]
    entries = tuple(
        importlib.metadata.EntryPoint(name, f"{HERE}:{value}", "embedbench.metrics")
        for name, value in offers
    )
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda *, group: entries)
    said: list[str] = []
    rows = collect(runs, notify=said.append)
    assert rows[0].group.further == ("good",)
    assert "left out: bwt" in said[0]
    assert "a metric is left out: cannot import" in said[1]
    place = runs / "stream-1" / "mlp" / "seed-0"
    kept = record_files.load(place)
    assert with_outside(kept, place, {}, said.append) is kept
    assert rows[0].records[0].metrics["bwt"] in [
        record_files.load(p).by_score["accuracy"].metrics["bwt"] for p in record_files.find(runs)
    ]


# Session 0 rises to .9, falls to .2 as session 1 begins, and is back at .8 when that ends.
N = math.nan
GAP = ScoreMatrix.from_matrix(
    [[0.5, N, N], [0.9, N, N], [0.2, 0.6, N], [0.6, 0.7, N], [0.8, 0.8, N],
     [0.3, 0.4, 0.9], [0.7, 0.8, 0.8]], [0, 0, 1, 1, 1, 2, 2],
)  # fmt: skip


def test_the_stability_gap_by_hand() -> None:
    # the lowest: .2 of session 0 and .4 of session 1, each after its own session
    assert min_accuracy(GAP, Reference()) == pytest.approx((0.2 + 0.4) / 2)
    # the largest drops: .9 to .2, .8 to .4, .9 to .8
    assert windowed_forgetting(GAP, Reference()) == pytest.approx((0.7 + 0.4 + 0.1) / 3)
    ends = ScoreMatrix.from_matrix(GAP.R)  # alone they say nothing
    assert np.isnan([f(ends, Reference()) for f in (min_accuracy, windowed_forgetting)]).all()


def test_a_drop_outside_the_window_does_not_count() -> None:
    slow = ScoreMatrix.from_matrix([[1.0 - 0.05 * k] for k in range(15)], [0] * 15)
    assert windowed_forgetting(slow, Reference()) == pytest.approx(0.05 * 9)
    rising = ScoreMatrix.from_matrix([[0.1 * k] for k in range(8)], [0] * 8)
    assert windowed_forgetting(rising, Reference()) == 0


@pytest.mark.parametrize("seed", range(3))
def test_all_agree_with_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sets = int(rng.integers(2, 5))
    session = [s for s in range(sets) for _ in range(rng.integers(2, 9))]
    table = rng.random((len(session), sets))
    table[np.array(session)[:, None] < np.arange(sets)] = math.nan
    scores = ScoreMatrix.from_matrix(table, session)
    lows, drops = [], []
    for j in range(sets):
        later = [table[m, j] for m in range(len(session)) if session[m] > j]
        lows += [min(later)] if later else []
        here = [v for v in table[:, j] if not math.isnan(v)]
        windows = [here[k : k + WINDOW] for k in range(len(here))]
        drops.append(max(0.0, *(w[0] - v for w in windows for v in w)))
    assert min_accuracy(scores, Reference()) == pytest.approx(np.mean(lows))
    assert windowed_forgetting(scores, Reference()) == pytest.approx(np.mean(drops))


def leaves(scores: ScoreMatrix, reference: Reference) -> float:
    """**Source**: none."""
    raise SystemExit(0)


def test_a_metric_that_exits_is_nan_and_said(runs: Path) -> None:
    said: list[str] = []
    rows = collect(runs, notify=said.append, metrics=[f"{HERE}:leaves"])
    assert all(math.isnan(row.metrics[f"{HERE}:leaves"].mean) for row in rows)
    (sentence,) = said
    assert "leaves of a file of yours failed: it left with SystemExit: 0" in sentence


def test_a_report_whose_metric_fails_ends_with_1(runs: Path, call: Call) -> None:
    assert call("report", runs, "--metric", f"{HERE}:spread").code == 0
    for name in ("leaves", "fails"):
        done = call("report", runs, "--metric", f"{HERE}:{name}")
        assert done.code == 1
        assert "mlp" in done.out
