"""Ω of streaming learning: an offline learner after every session, and what a record has of it."""

from pathlib import Path

import numpy as np
import pytest
from plan_runs import plan
from protocol_files import make_file

from embedbench.runs.grid_scheduler import run_grid
from embedbench.scores import record_files
from embedbench.scores.label_set_predictions import load_any
from embedbench.scores.single_label_scores import score_matrix
from embedbench.scores.verified_records import rescore

SETTINGS = (
    *("offline.mlp.units=8", "offline.mlp.stop.rule=epochs", "offline.mlp.stop.epochs=3"),
    *("protocol.ordering=class-iid", "protocol.sessions=3", "protocol.evaluate_every=4"),
    "protocol.scale=none",
)


def pooled(place: Path) -> list[float]:
    scores = score_matrix(load_any(place / "predictions.h5"))
    return scores.pooled[scores.ends].tolist()


def test_each_session_has_its_offline_learner(tmp_path: Path) -> None:
    file = make_file(tmp_path, [9] * 4, [0] * 4, [4] * 4, apart=2.0)
    runs = tmp_path / "runs"
    outcome = run_grid(plan([str(file.path)], "instance", ["ncm"], [0, 1], SETTINGS), runs)
    assert not outcome.failed
    firsts = set()
    for place in outcome.run_dirs:
        made = record_files.load(place)
        assert made.reference.so_far
        assert len(made.reference.offline_runs) == 3
        ideals = [pooled(runs / run[0])[-1] for run in made.reference.offline_runs]
        firsts.add(made.reference.offline_runs[0])
        assert made.reference.ideal is not None
        assert made.reference.ideal["class_accuracy"] == pytest.approx(ideals)
        shares = np.array(pooled(place)) / ideals
        assert made.metrics["omega_streaming"] == pytest.approx(shares.mean())
        assert made.metrics["omega_all"] == pytest.approx(
            np.mean(np.array(pooled(place))[1:] / ideals[-1])
        )
        assert made.ideals == (pytest.approx(ideals[-1]),)
        assert len(made.moments.pooled) > 3  # type: ignore[union-attr]  # evaluated in between, too
        checked = rescore(place, runs)
        assert checked.agrees
        assert not checked.new
    assert len(firsts) == 2  # another order of the classes has other references
