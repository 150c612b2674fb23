"""Tuning: what a trial sees, what is chosen, and that test data cannot choose."""

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from plan_runs import plan
from protocol_files import make_file
from toy import class_stream

from embedbench.config.run_seeds import Seeds
from embedbench.errors import UserError
from embedbench.runs.run_spec import RunSpec
from embedbench.runs.stream_cache import StreamCache
from embedbench.runs.stream_runner import run_stream
from embedbench.scores.single_label_scores import score_matrix
from embedbench.storage import leases
from embedbench.streams.view import rows_of
from embedbench.studies.resolve import grids
from embedbench.studies.study import Study, parse_lists
from embedbench.studies.tuning import outcome, trial_score, trial_stream, tune

ITEMS = ["protocol.val_fraction=0.3", "mlp.stop.rule=epochs"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("file")
    return make_file(folder, [12] * 4, [0] * 4, [5] * 4, apart=8.0).path


def cells(path: Path, items: list[str]) -> list[RunSpec]:
    return plan([str(path)], "incremental-class", ["mlp"], [0], [*ITEMS, *items])


@pytest.mark.parametrize("sessions", [1, 2])
def test_a_trial_holds_no_test_data(sessions: int) -> None:
    stream = class_stream([[0, 1], [2], [3]], n_val=5, n_test=7)
    trial = trial_stream(stream, sessions)
    assert len(trial.sessions) == len(trial.eval_sets) == sessions
    test_rows = {r for e in stream.eval_sets for r in rows_of(e.x).tolist()}
    seen = {r for s in trial.sessions for v in (s.x, s.val_x) for r in rows_of(v).tolist()}
    seen |= {r for e in trial.eval_sets for r in rows_of(e.x).tolist()}
    assert not seen & test_rows
    for s, e in zip(stream.sessions, trial.eval_sets, strict=False):
        assert e.split == "val"
        np.testing.assert_array_equal(rows_of(e.x), rows_of(s.val_x))
        np.testing.assert_array_equal(e.y, s.val_y)


def test_a_trial_refuses_test_data_and_sessions_without_validation_data() -> None:
    stream = class_stream([[0, 1], [2]])
    with pytest.raises(UserError, match="nothing may be tuned"):
        trial_stream(replace(stream, validation="test"), 1)
    with pytest.raises(UserError, match="session 0 has no validation data"):
        trial_stream(class_stream([[0, 1], [2]], n_val=0), 1)


def test_of_a_few_shot_stream_the_base_session_alone_can_be_tuned_on(tmp_path: Path) -> None:
    path = make_file(tmp_path, [20] * 6, [0] * 6, [5] * 6, apart=8.0).path
    settings = ["protocol.base=4", "protocol.way=1"]
    (cell,) = plan([str(path)], "fscil", ["prototype"], [0], settings)
    streams = StreamCache()
    with pytest.raises(UserError, match=r"session 1 has no validation data .*--tune-sessions"):
        trial_stream(streams.stream(cell), 3)
    trial = trial_stream(streams.stream(cell), 1)
    assert trial.eval_sets[0].y.tolist() == np.repeat(range(4), 2).tolist()
    assert trial_score(cell, 1, 1, streams) > 0.8


def test_the_best_average_incremental_accuracy_on_validation_data_is_chosen_and_kept(
    file: Path, tmp_path: Path
) -> None:
    grid = {"lr": ["1e-9", "0.01"], "batch_size": ["8", "4"]}
    short = ["mlp.stop.epochs=4"]
    (cell,) = cells(file, short)
    log = tune(cell, grid, tmp_path / "runs", sessions=2)
    assert [t["settings"] for t in log["tried"]] == [
        {"lr": a, "batch_size": b} for a in grid["lr"] for b in grid["batch_size"]
    ]
    for tried in log["tried"]:  # each trial again, by hand
        items = [*short, *(f"mlp.{k}={v}" for k, v in tried["settings"].items())]
        (alone,) = cells(file, items)
        trial = trial_stream(StreamCache().stream(alone), 2)
        found, _ = run_stream(trial, alone.learner.fresh(), Seeds.of(0))
        assert tried["average_incremental_accuracy"] == pytest.approx(
            score_matrix(found).pooled.mean()
        )
    best = max(log["tried"], key=lambda t: t["average_incremental_accuracy"])
    assert log["chosen"] == best["settings"] != log["tried"][0]["settings"]

    (kept,) = (tmp_path / "runs" / "tuning").iterdir()
    kept.write_text(json.dumps({**log, "seed": 99}))
    assert tune(cell, grid, tmp_path / "runs", sessions=2)["seed"] == 99  # not searched again
    assert tune(cell, grid, tmp_path / "runs", sessions=1)["seed"] == 0  # another search
    for wrong, sentence in (
        ([], "must be an object"),
        ({"learner": 1}, "learner must be"),
        ({**log, "tried": [1]}, r"tried\[0\] must be an object"),
        ({**log, "chosen": {"layers": "100000"}}, "chose settings that it did not try"),
        ({**log, "tried": [{"settings": 1}]}, "chose settings that it did not try"),
    ):
        kept.write_text(json.dumps(wrong))
        with pytest.raises(UserError, match=sentence):
            tune(cell, grid, tmp_path / "runs", sessions=2)


def test_a_search_of_another_process_is_waited_for(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cell,) = cells(file, ["mlp.stop.epochs=1"])
    log = tune(cell, {"lr": ["0.01"]}, tmp_path / "runs", sessions=1)
    (kept,) = (tmp_path / "runs" / "tuning").iterdir()
    text = kept.read_text()
    kept.unlink()
    said: list[str] = []

    def sleep(seconds: float) -> None:
        if seconds == leases.POLL:  # not the thread that keeps this process's leases
            kept.write_text(text)

    monkeypatch.setattr(leases, "time", SimpleNamespace(sleep=sleep, monotonic=float))
    monkeypatch.setattr("embedbench.studies.tuning.trial_score", None)
    with leases.take(kept.with_name(f".{kept.name}.lease")) or pytest.fail("it is free"):
        again = tune(cell, {"lr": ["0.01"]}, tmp_path / "runs", sessions=1, notify=said.append)
    assert again == log
    (sentence,) = said
    assert sentence.startswith("waiting for the search for mlp")


def test_grids() -> None:
    study = Study(learners=("mlp", "ewc", "ncm"))
    assert grids(study, parse_lists(["lr=0.1,0.01", "ewc.lam=1, 10"])) == {
        "mlp": {"lr": ("0.1", "0.01")},
        "ewc": {"lr": ("0.1", "0.01"), "lam": ("1", "10")},
    }
    for item, message in (
        ("mlp.lr", "--tune takes name=value,value, such as mlp.lr=0.1,0.01; got 'mlp.lr'"),
        ("mlp.lr=,", "got 'mlp.lr=,'"),
        ("lamb=1,2", "unknown setting to tune 'lamb'"),
    ):
        with pytest.raises(UserError, match=message):
            grids(study, parse_lists([item]))


def test_a_wrong_setting_is_refused_before_anything_is_tried(file: Path, tmp_path: Path) -> None:
    (cell,) = cells(file, [])
    with pytest.raises(UserError, match="unknown setting of mlp 'lrr'"):
        tune(cell, {"lrr": ["1"]}, tmp_path)
    assert not (tmp_path / "tuning").exists()


def said(scores: dict[str, float | None], chosen: str, name: str = "lam") -> list[str]:
    """The lines on a search over one setting, on two sessions."""
    log = {
        "learner": "ewc",
        "seed": 3,
        "sessions": 2,
        "tried": [
            {"settings": {name: v}, "average_incremental_accuracy": s} for v, s in scores.items()
        ],
        "chosen": {name: chosen},
    }
    return outcome(log).split("\n")


def test_what_was_chosen_by_which_score_and_every_score_is_said() -> None:
    assert said({"1": 0.55, "1e2": 0.652, "1e4": 0.5111}, "1e2") == [
        "tuned ewc on seed 3: lam=1e2, by average incremental accuracy on the validation data of "
        "2 sessions",
        "  lam → %: 1→55.0 · 1e2→65.2 · 1e4→51.1",
    ]


def test_values_of_equal_scores_decided_nothing() -> None:
    tie = 0.5527777777777777
    *_, last = said(dict.fromkeys(["0.0001", "0.01", "1", "100"], tie), "0.0001")
    assert last.startswith("  all 4 scored 55.3 %: nothing was decided; try")
    *_, last = said({"1": None, "2": math.nan}, "1")
    assert last.startswith("  all 2 scored – %: nothing was decided")
    assert said({"1": None, "2": 0.5}, "2")[1:] == ["  lam → %: 1→– · 2→50.0"]
    assert len(said({"1": tie}, "1")) == 2  # one value alone


def test_the_edge_of_a_grid_of_two_settings() -> None:
    # along lr the best has 0.2 beside it; along lam a tie
    rows = {"1": (0.1, 0.2, 0.3), "2": (0.1, 0.2, 0.3), "3": (0.1, 0.2, 0.0)}
    tried = [
        {"settings": {"lam": lam, "lr": lr}, "average_incremental_accuracy": score}
        for lam, scores in rows.items()
        for lr, score in zip(("4", "5", "6"), scores, strict=True)
    ]
    log = {"learner": "ewc", "seed": 0, "sessions": 1, "tried": tried}
    lines = outcome(log | {"chosen": {"lam": "1", "lr": "6"}}).split("\n")
    assert lines[0].endswith(": lam=1, lr=6, by average incremental accuracy on the validation "
                             "data of 1 session")  # fmt: skip
    assert lines[1].startswith("  lam,lr → %: 1,4→10.0 · 1,5→20.0 · ")
    assert lines[2:] == ["  lr=6: at the edge of the grid, a value beyond may be better"]
