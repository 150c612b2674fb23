"""Records of real runs are reproduced bit for bit: by us, and by a short script without us."""

import ast
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from pinned_runs import merged, write_run
from plan_runs import plan
from protocol_files import make_file
from toy import random_predictions

from embedbench.reports.html_report import render
from embedbench.reports.tables_from_runs import collect
from embedbench.reports.terminal_tables import table_text
from embedbench.runs.grid_scheduler import run_grid
from embedbench.scores import record_files
from embedbench.scores.metrics import all_metrics
from embedbench.scores.predictions import Predictions
from embedbench.scores.run_record import RunRecord
from embedbench.scores.verified_records import rescore

SCRIPT = Path(__file__).parents[1] / "helpers" / "standalone_score.py"
CODE = compile(SCRIPT.read_text(encoding="utf-8"), SCRIPT.name, "exec")


def complaint(run: Path) -> str:
    """What the script says of a run; empty if every score is reproduced."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setattr(sys, "argv", [SCRIPT.name, str(run)])
        warnings.simplefilter("error")
        try:
            exec(CODE, {})
        except SystemExit as end:
            return str(end.code)
    return ""


def test_the_script_is_short_and_imports_nothing_of_ours() -> None:
    source = SCRIPT.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 55
    imported = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported |= {name.name for name in node.names}
        assert not isinstance(node, ast.ImportFrom)
    assert imported == {"json", "sys", "h5py", "numpy"}
    assert not [name for name in all_metrics() if f'"{name}"' not in source]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four protocols by two learners, with their references, on classes of unequal size."""
    root = tmp_path_factory.mktemp("runs")
    sizes, few = ([6, 8, 10, 6, 7, 9], [3, 4, 5, 3, 4, 5]), ([6, 7, 6], [3, 4, 3])
    files = [
        str(make_file(root, train, [0] * len(train), test, apart=4, name=f"{len(train)}.h5").path)
        for train, test in (sizes, few)
    ]
    brief = ("units=8", "stop.rule=epochs", "stop.epochs=4")
    every = [f"{name}.{item}" for name in ("mlp", "offline.mlp") for item in brief]
    every += ["references=2", "protocol.scale_least=0"]
    cells = []
    for protocol, many, params in (
        ("incremental-class", 1, ("protocol.base=3", "protocol.evaluate_every=10")),
        ("permutation", 1, ("protocol.sessions=3",)),
        ("instance", 1, ("protocol.ordering=iid", "protocol.sessions=3")),
        ("multi-modal", 2, ()),
    ):
        cells += plan(files[:many], protocol, ["mlp", "ncm"], [1], [*every, *params])
    assert not run_grid(cells, root).failed
    return root


def test_an_online_run_has_moments_between_the_ends_of_sessions(runs: Path) -> None:
    kept = [record_files.load(run) for run in record_files.find(runs)]
    (online,) = [r for r in kept if r.learner == "ncm" and "base" in r.protocol_params]
    assert online.moments is not None
    pooled, seen = online.moments.pooled, online.moments.samples_seen
    assert len(pooled) == len(seen) > len(online.pooled)
    assert seen[-1] == sum(online.n_train)
    assert [pooled[seen.index(n)] for n in np.cumsum(online.n_train)] == [*online.pooled]


def test_every_run_and_every_reference_is_reproduced(runs: Path, tmp_path: Path) -> None:
    found = record_files.find(runs, references=True)
    assert len(found) > 4 * (2 + 1)  # with offline references, and chance for each protocol
    for run in found:
        assert complaint(run) == "", run
        kept = record_files.load(run)
        record_files.save(kept, tmp_path)
        assert (tmp_path / "record.json").read_bytes() == (run / "record.json").read_bytes()
        assert record_files.evaluate(kept, run, runs).to_json() == kept.to_json()
        if kept.learner in ("mlp", "ncm"):
            assert not any(np.isnan(kept.metrics[m]) for m in ("omega_base", "omega_all"))


# keys and metrics that the first records did not have
LATER = (
    *("session_id_at_test", "order", "n_classes", "n_candidates", "tuning", "resumed"),
    *("moments", "curves", "predictions_sha256", "n_train_by_class"),
)
LATER_METRICS = ("worst_class_accuracy", "per_class_forgetting", "few_shot_accuracy")


def old(data: dict[str, Any]) -> dict[str, Any]:
    data = {k: v for k, v in json.loads(json.dumps(data)).items() if k not in LATER}
    for scored in (data, *data["by_score"].values()):
        scored["metrics"] = {k: v for k, v in scored["metrics"].items() if k not in LATER_METRICS}
        scored.pop("curves", None)
    for file in data["files"]:
        file.pop("kind", None)
    return data


@pytest.mark.thorough
def test_an_older_record_loads_is_shown_and_scored(runs: Path, tmp_path: Path) -> None:
    for place in record_files.find(runs):
        data = old(record_files.load(place).to_json())
        (copy := tmp_path / place.relative_to(runs)).mkdir(parents=True)
        (copy / "predictions.h5").write_bytes((place / "predictions.h5").read_bytes())
        again = record_files.evaluate(RunRecord.from_json(data), copy, runs)
        data["flags"] = list(again.flags)  # chance without n_candidates
        (copy / "record.json").write_text(json.dumps(data))
        read = record_files.load(copy)
        assert old(read.to_json()) == data
        result = rescore(copy, tmp_path, update=True)
        assert result.differs == ()
        assert result.updated is True
        assert result.pinned is True
        again = record_files.load(copy).to_json()  # has its curves, and what it lacked stays out
        assert set(again) - set(data) == {"order", "moments", "curves", "predictions_sha256"}
        assert set(LATER_METRICS) <= set(again["metrics"])
        assert again["metrics"]["few_shot_accuracy"] is None  # the sizes of classes are not known
        record_files.save(read, copy)
    rows = collect(tmp_path)
    assert all(r.curves for row in rows for r in row.records)
    assert "P  not-pinned" in table_text(rows)
    assert "ncm" in render(rows, "old runs")


@pytest.mark.parametrize("seed", range(4))
def test_random_predictions_are_reproduced(tmp_path: Path, seed: int) -> None:
    """Eval sets of unequal size, unanswered samples, both kinds of stream, both presets."""
    p = random_predictions(seed, permutation=seed % 2 == 1)
    write_run(tmp_path, "offline", merged(p), learner="offline")
    reference = {
        "preset": ["kemker_table", "kemker_eq"][seed // 2 % 2],
        "normalise_new": seed % 2 == 1,
        "offline_runs": ["offline"],
        "chance_run": "run",
    }
    kept = write_run(tmp_path, "run", p, reference=reference)
    assert list(kept.by_score) == list(Predictions.SCORES)
    assert kept.reference.ideal is not None
    assert kept.reference.ideal["accuracy"] > 0
    assert complaint(tmp_path / "run") == ""
    with h5py.File(tmp_path / "run" / "predictions.h5", "r+") as file:
        file["answer"][-1] = -1
    assert "accuracy: " in complaint(tmp_path / "run")
