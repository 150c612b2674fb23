"""`load_runs`: rows, filters, what is checked when; and that nothing is imported or read early."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from pinned_runs import MLP, STREAM, answers, edit, write_run, write_runs

import embedbench
from embedbench.errors import UserError
from embedbench.reports.load_results import load_runs
from embedbench.reports.run_rows import settings_apart, streams
from embedbench.scores import record_files


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of a learner, the chance run on their stream, and an offline reference."""
    root = tmp_path_factory.mktemp("runs")
    write_runs(root)
    return root


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """The same, to be changed."""
    write_runs(tmp_path)
    return tmp_path


def test_a_row_has_settings_metrics_costs_and_digests(root: Path) -> None:
    runs = embedbench.load_runs(root)
    assert [r.name for r in runs] == [f"{STREAM}/chance-1/seed-0", MLP, f"{STREAM}/mlp-1/seed-1"]
    row, made = runs[1].row(), record_files.load(root / MLP)
    metrics = {k: v for k, v in row.items() if k in made.metrics}
    assert metrics == pytest.approx(made.metrics, nan_ok=True)
    assert any(math.isnan(v) for v in metrics.values())  # undefined
    expected = {
        "learner.stop.rule": "patience", "learner.units": 400, "protocol.base": 2, "seed": 0,
        "seeds.order": 7, "seconds.learn": 6.0, "bytes.total": 2_000_000, "files": "toy.h5",
        "digests.predictions": made.predictions_sha256, "digests.recipe": "a" * 64, "run": MLP,
        "command": made.command, "learner": "mlp", "learns": True, "protocol": made.protocol,
        "order": None, "sessions": len(made.n_train), "n_train": sum(made.n_train), "flags": "",
        "validation": "train", "score": made.score, "root": str(root), "digests.train": "0" * 64,
    }  # fmt: skip
    assert row | expected == pytest.approx(row, nan_ok=True)
    assert runs.rows()[1].keys() == row.keys()


def test_a_setting_that_an_earlier_version_lacked_has_its_earlier_value(mine: Path) -> None:
    """Runs of both versions are one row of tables: the settings do not tell them apart."""
    edit(mine / MLP, "learner_params", "passes", value=0.0)
    edit(mine / MLP, "protocol_params", "scale_least", value=0)
    runs = load_runs(mine)
    assert [r.row().get("learner.passes") for r in runs] == [None, 0.0, 0.0]
    assert {r.row()["protocol.scale_least"] for r in runs} == {0}
    rows = runs.where(learner="mlp").rows()
    assert {*settings_apart(rows)} == {""}
    assert len({*streams(rows)}) == 1
    edit(mine / MLP, "learner_params", "passes", value=20.0)
    assert {*settings_apart(load_runs(mine).rows())} == {"", "passes=0", "passes=20"}


def test_where_slices_and_several_directories(root: Path) -> None:
    runs = load_runs(root)
    assert [r.name for r in runs.where(learner="mlp", seed=1)] == [f"{STREAM}/mlp-1/seed-1"]
    assert len(runs.where({"seeds.order": 7}, seed=[0, 1], learner=("mlp", "er"))) == 2
    assert len(runs.where(learner="er")) == 0
    assert [r.name for r in runs[1:]] == [r.name for r in runs.where(learner="mlp")]
    assert len([r for r in runs if r.row()["learns"]]) == 2
    assert (len(load_runs(root, root / STREAM)), len(load_runs(root, references=True))) == (6, 4)
    learners, protocols = "chance, mlp", "incremental-class"
    assert repr(runs) == f"<3 runs\n learners: {learners}\n protocols: {protocols}>"
    assert repr(runs[:0]) == "[]"
    with pytest.raises(UserError, match="rows 'leaner'"):
        runs.where(leaner="mlp")


def test_where_takes_the_values_of_an_array(root: Path) -> None:
    runs = load_runs(root).where(learner="mlp")
    assert [r.record.seed for r in runs.where(seed=np.array([1, 7]))] == [1]


def test_answers_matrices_and_classes_are_computed_on_demand(root: Path) -> None:
    run = load_runs(root)[1]
    p = run.predictions()
    sessions, final = len(run.record.n_train), run.record.metrics["final_accuracy"]
    assert repr(run) == (
        f"<Run {MLP}\n mlp on incremental-class of toy.h5, {sessions} sessions, seed 0\n"
        f" final_accuracy {final:.4f} ({run.record.score})>"
    )
    R = np.array(run.record.by_score["accuracy"].R)
    np.testing.assert_array_equal(run.matrix("accuracy").R, R)
    assert run.matrix().name == run.record.score
    recalls, ends = run.per_class(), run.matrix().ends
    assert recalls.shape == (len(ends), p.seen.shape[1])
    last = np.array([np.mean(p.answer[-1][p.y == c] == c) for c in np.unique(p.y)])
    np.testing.assert_allclose(recalls[-1][np.unique(p.y)], last)
    assert run.classes == ["a", "b", "c", "d"]
    with pytest.raises(UserError, match="unknown score 'acuracy'"):
        run.matrix("acuracy")


def test_what_cannot_be_read_is_left_out_with_a_warning(mine: Path, tmp_path: Path) -> None:
    edit(mine / MLP, "seed", value="0\x1b[31m")
    with pytest.warns(UserWarning, match="left out: .*seed must be an integer") as caught:
        assert len(load_runs(mine)) == 2
    assert "\x1b" not in str(caught[0].message)
    assert caught[0].filename == __file__
    (mine / MLP / "record.json").write_text("[" * 10**5)
    (mine / f"{STREAM}/mlp-1/seed-1/predictions.h5").unlink()
    edit(mine / f"{STREAM}/chance-1/seed-0", "schema", value="other")
    left: list[str] = []
    assert (len(load_runs(mine, notify=left.append)), len(left)) == (0, 3)
    assert any("schema 'other'; expected" in sentence for sentence in left)
    (mine / MLP / "record.json").write_text("[1]")
    assert len(load_runs(mine, notify=left.append)) == 0
    (tmp_path / "empty").mkdir()
    for roots, says in (
        *(([tmp_path / "empty"], "empty .* finished"), ([tmp_path / "none"], "directory .*/none")),
        ([], "load_runs takes"),
    ):
        with pytest.raises(UserError, match=says):
            load_runs(*roots)


def test_nothing_of_a_record_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And torch is not, either."""
    (tmp_path / "planted.py").write_text("raise SystemExit('planted code ran')")
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path, "s/m-1/seed-0", answers(1), learner="planted:Mine", protocol="planted:P")
    before = {*sys.modules}
    (run,) = load_runs(tmp_path)
    run.row()
    run.matrix()
    assert not {m for m in {*sys.modules} - before if m.startswith(("planted", "torch", "pandas"))}
    assert run.row()["learner"] == "planted:Mine"


def test_as_a_data_frame(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    frame = load_runs(root).to_pandas()
    assert type(frame) is pandas.DataFrame
    assert frame.shape[0] == 3
    means = frame[frame.learns].groupby("learner")["final_accuracy"].mean()
    assert means["mlp"] == record_files.load(root / MLP).metrics["final_accuracy"]  # both seeds'
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match=r"embedbench-cl\[pandas\]"):
        load_runs(root).to_pandas()


def test_what_is_edited_is_found_when_it_is_read_or_verified(mine: Path) -> None:
    answers, other = mine / MLP / "predictions.h5", f"{STREAM}/mlp-1/seed-1"
    answers.write_bytes(answers.read_bytes() + b"x")
    edit(mine / other, "metrics", "final_accuracy", value=0.999)
    edit(mine / other, "metrics", "learner", value=0.5)  # replaces no setting
    _, run, edited = load_runs(mine)
    for read in (run.predictions, run.matrix, run.per_class):
        with pytest.raises(UserError, match=r"predictions\.h5 is not .* record"):
            read()
    row = edited.row()
    assert row["final_accuracy"] == 0.999
    assert row["learner"] == "mlp"
    left: list[str] = []
    assert len(load_runs(mine, verify=True, notify=left.append)) == 1
    assert "is not the file that its record was made from" in left[0]
    assert "final_accuracy" in left[1]
    edit(mine / other, "n_train_by_class", value=[sum(edited.record.n_train)])
    with pytest.raises(UserError, match=r"n_train_by_class .* 1 .* predictions\.h5 .* 8"):
        load_runs(mine)[2].per_class()
