"""A short script that imports nothing of ours recomputes every stored score, bit for bit."""

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from plan_runs import plan
from report_records import unscored
from toy import blobs, random_predictions

from embedbench.config.json_records import plain
from embedbench.files.sample_metadata import TEST, TRAIN, Samples
from embedbench.files.write_file import write_file
from embedbench.runs.grid_scheduler import run_grid
from embedbench.scores import record_files
from embedbench.scores.metrics import all_metrics
from embedbench.scores.predictions import Predictions
from embedbench.scores.single_label_scores import SCORES

SCRIPT = Path(__file__).parents[1] / "helpers" / "standalone_score.py"


def standalone(run: Path) -> subprocess.CompletedProcess[str]:
    """Run the script from an empty place, so that it cannot find embedbench by accident."""
    command = [sys.executable, "-I", str(SCRIPT), str(run)]
    return subprocess.run(command, capture_output=True, text=True, cwd=run, check=False)


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


# --- real runs ---


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three protocols by two learners, with their references, on classes of unequal size."""
    root = tmp_path_factory.mktemp("runs")
    labels = np.repeat(np.arange(6), [9, 12, 15, 9, 11, 14])
    rank = np.concatenate([np.arange(n) for n in np.bincount(labels)])
    samples = Samples(
        ids=np.array([f"s/{i:03d}" for i in range(len(labels))]),
        labels=labels,
        split=np.where(rank % 3 == 0, TEST, TRAIN).astype(np.uint8),
        classes=tuple("abcdef"),
        parents=np.full(6, -1),
    )
    features = blobs(labels, 5, seed=0, spread=1.0)
    write_file(root / "toy.h5", samples, features, {"backbone": {"name": "toy"}})
    brief = ("units=8", "stop.rule=epochs", "stop.epochs=4")
    every = [f"{name}.{item}" for name in ("mlp", "offline.mlp") for item in brief]
    every += ["references=2", "protocol.scale_least=0"]
    cells = []
    for protocol, params in (
        ("incremental-class", ("protocol.base=3", "protocol.evaluate_every=10")),
        ("permutation", ("protocol.sessions=3",)),
        ("instance", ("protocol.ordering=iid", "protocol.sessions=3")),
    ):
        file = str(root / "toy.h5")
        cells += plan([file], protocol, ["mlp", "ncm"], [1], [*every, *params])
    outcome = run_grid(cells, root)
    assert not outcome.failed
    return root


def places(root: Path) -> list[Path]:
    return sorted(path.parent for path in root.rglob("record.json"))


def test_an_online_run_has_moments_between_the_ends_of_sessions(runs: Path) -> None:
    kept = [json.loads((run / "record.json").read_text()) for run in places(runs)]
    (online,) = [r for r in kept if r["learner"] == "ncm" and "base" in r["protocol_params"]]
    moments = online["moments"]
    assert len(moments["pooled"]) == len(moments["samples_seen"]) > len(online["pooled"])
    assert moments["samples_seen"][-1] == sum(online["n_train"])
    ends = [moments["samples_seen"].index(n) for n in np.cumsum(online["n_train"])]
    assert [moments["pooled"][m] for m in ends] == online["pooled"]


def test_every_run_and_every_reference_is_reproduced(runs: Path) -> None:
    found = places(runs)
    assert (
        len(found) >= 6 + 2 + 2 + 3 * 2 + 3
    )  # the runs, the offline references, chance for each protocol
    for run in found:
        done = standalone(run)
        assert (done.returncode, done.stderr) == (0, ""), run


def test_score_is_reproduced_by_the_package_too(runs: Path) -> None:
    for run in record_files.find(runs):
        kept = record_files.load(run)
        again = record_files.evaluate(kept, run, runs)
        assert again.to_json() == kept.to_json()
        main = kept.by_score[kept.score]
        parts = [(r.R, r.pooled, r.metrics) for r in (kept, main)]
        assert plain(parts[0]) == plain(parts[1])
        if kept.learner in ("mlp", "ncm"):
            assert not any(np.isnan(kept.metrics[m]) for m in ("omega_base", "omega_all"))


@pytest.mark.parametrize(
    ("dataset", "complaint"),
    [("answer", "accuracy: "), ("within", "within_"), ("y", "accuracy: "), ("seen", "accuracy: ")],
)
def test_a_changed_answer_is_noticed(
    runs: Path, tmp_path: Path, dataset: str, complaint: str
) -> None:
    run = next(
        r for r in record_files.find(runs) if record_files.load(r).protocol == "incremental-class"
    )
    for name in ("record.json", "predictions.h5"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    with h5py.File(tmp_path / "predictions.h5", "r+") as file:
        values = file[dataset][()]
        if dataset == "seen":
            values[-1, 0] = 0
        elif dataset == "y":
            values[0] = values[-1]
        else:
            values[-1, 0] = -1 if values[-1, 0] == file["y"][0] else file["y"][0]
        file[dataset][...] = values
    done = standalone(tmp_path)
    assert done.returncode == 1
    assert complaint in done.stderr


# --- random predictions through the record ---


def keep(directory: Path, predictions: Predictions) -> str:
    directory.mkdir(parents=True)
    predictions.save(directory / "predictions.h5")
    return directory.name


@pytest.mark.parametrize("seed", range(6))
def test_random_predictions_are_reproduced(tmp_path: Path, seed: int) -> None:
    """Eval sets of unequal size, unanswered samples, both kinds of stream, both presets."""
    p = random_predictions(seed, permutation=seed % 2 == 1)
    name = keep(tmp_path / "run", p)
    everything = np.zeros_like(p.eval_set)
    offline = []
    for k in range(2):
        whole: dict[str, Any] = {
            **vars(random_predictions(seed, permutation=seed % 2 == 1)),
            "eval_set": everything,
            "set_classes": p.set_classes.any(axis=0, keepdims=True),
            "session": np.zeros(1, np.int64),
            "samples_seen": np.ones(1, np.int64),
            "seen": p.seen[-1:],
            "answer": p.answer[[k]],
            "within": p.within[[k]],
        }
        offline.append(keep(tmp_path / f"offline-{k}", Predictions(**whole)))
        alone = record_files.evaluate(unscored(1), tmp_path / offline[-1], tmp_path)
        record_files.save(alone, tmp_path / offline[-1])
    reference = {
        "preset": ["kemker_table", "kemker_eq"][seed // 2 % 2],
        "normalise_new": seed % 2 == 1,
        "offline_runs": offline,
        "chance_run": name,
    }
    made = unscored(len(set(p.session.tolist())), reference=reference)
    record_files.save(record_files.evaluate(made, tmp_path / name, tmp_path), tmp_path / name)
    kept = record_files.load(tmp_path / name)
    assert list(kept.by_score) == list(SCORES)
    assert kept.reference.ideal["accuracy"] > 0
    done = standalone(tmp_path / name)
    assert (done.returncode, done.stderr) == (0, "")
