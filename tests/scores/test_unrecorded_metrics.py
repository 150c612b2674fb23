"""Metrics of other people: computed beside ours, never stored; wrong ones are a sentence."""

import importlib.metadata
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confident_runs import keep_runs
from pinned_runs import answers

from embedbench.errors import UserError
from embedbench.reports.compare_learners import studies
from embedbench.reports.html_report import render
from embedbench.reports.tables_from_runs import collect
from embedbench.reports.terminal_tables import table_text
from embedbench.scores import record_files
from embedbench.scores.unrecorded_metrics import outside_metrics, with_outside
from embedbench.scores.verified_records import rescore

HERE = __name__


def spread(scores: Any, reference: Any) -> float:
    """Best minus worst recall at the end. **Source**: ours <b>here</b>."""
    return float(np.nanmax(scores.per_class[-1]) - np.nanmin(scores.per_class[-1]))


spread.lower_is_better = True  # type: ignore[attr-defined]


def fails(scores: Any, reference: Any) -> float:
    """Fails."""
    raise ZeroDivisionError("no session")


def one(scores: Any) -> float:
    """Takes no reference."""
    return 1.0


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two learners with two seeds each, of random answers."""
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
    assert f"{name} is a metric of a file of yours; records do not hold it" in text
    assert "bwt" in text
    page = render(rows, "runs")
    assert "ours &lt;b&gt;here&lt;/b&gt;" in page
    (study,) = studies(rows, name)
    best = study.learners[0]
    assert all(study.mean(best) <= study.mean(other) for other in study.learners)


def test_score_prints_it_and_updates_nothing_of_it(runs: Path) -> None:
    place = runs / "stream-1" / "mlp" / "seed-0"
    metrics = outside_metrics([f"{HERE}:spread"], lambda _: None)
    result = rescore(place, runs, update=True, metrics=metrics)
    assert result.agrees
    assert result.outside is not None
    assert 0 <= result.outside[f"{HERE}:spread"] <= 1
    assert f"{HERE}:spread" not in record_files.load(place).metrics
    assert rescore(place, runs).to_json().get("outside") is None


def test_one_that_fails_is_nan_and_said_once(runs: Path) -> None:
    said: list[str] = []
    rows = collect(runs, notify=said.append, metrics=[f"{HERE}:fails"])
    assert len(rows) == 2
    assert all(math.isnan(row.metrics[f"{HERE}:fails"].mean) for row in rows)
    assert said == [
        f"the metric {HERE}:fails of a file of yours failed: ZeroDivisionError: no session"
    ]


def test_what_is_no_metric_is_refused() -> None:
    for name, sentence in (
        (f"{HERE}:one", "expected a function of (scores, reference), got function one"),
        (f"{HERE}:Path", "is no metric"),
        ("bwtt", "unknown metric 'bwtt'. Did you mean 'bwt'?"),
    ):
        with pytest.raises(UserError) as error:
            outside_metrics([name], lambda _: None)
        assert sentence in str(error.value)


def test_a_package_cannot_take_the_name_of_ours_nor_stop_a_report(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offers = [("bwt", "spread"), ("gone", "nothing"), ("good", "spread")]
    entries = tuple(
        importlib.metadata.EntryPoint(name, f"{HERE}:{value}", "embedbench.metrics")
        for name, value in offers
    )
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda *, group: entries)
    said: list[str] = []
    rows = collect(runs, notify=said.append)
    assert rows[0].group.further == ("good",)
    assert ["bwt" in said[0], "a metric is left out: cannot import" in said[1]] == [True, True]
    place = runs / "stream-1" / "mlp" / "seed-0"
    kept = record_files.load(place)
    assert with_outside(kept, place, {}, said.append) is kept
    assert rows[0].records[0].metrics["bwt"] in [
        record_files.load(p).metrics["bwt"] for p in record_files.find(runs)
    ]
