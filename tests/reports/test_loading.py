"""`load_runs`: rows, filters, what is checked when; and that nothing is imported or read early."""

import math
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from pinned_runs import MLP, STREAM, answers, edit, write_run, write_runs

import embedbench
from embedbench.errors import UserError
from embedbench.reports.load_results import load_runs
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
    assert {k: v for k, v in row.items() if k in made.metrics} == pytest.approx(
        made.metrics, nan_ok=True
    )
    assert (row["learner.stop.rule"], row["learner.units"]) == ("patience", 400)
    assert (row["protocol.base"], row["seed"], row["seeds.order"]) == (2, 0, 7)
    assert (row["seconds.learn"], row["bytes.total"]) == (6.0, 2_000_000)
    assert row["digests.predictions"] == made.predictions_sha256
    assert row["digests.recipe"] == "a" * 64
    assert row["files"] == "toy.h5"
    assert row["run"] == MLP
    assert row["command"] == made.command
    assert runs.rows()[1].keys() == row.keys()


def test_a_setting_that_an_earlier_version_lacked_has_its_earlier_value(mine: Path) -> None:
    """Runs of both versions are one row of tables: the settings do not tell them apart."""
    edit(mine / MLP, "learner_params", "passes", value=0.0)
    edit(mine / MLP, "protocol_params", "scale_least", value=0)
    runs = load_runs(mine)
    assert [r.row().get("learner.passes") for r in runs] == [None, 0.0, 0.0]
    assert {r.row()["protocol.scale_least"] for r in runs} == {0}
    table = runs.where(learner="mlp").table("final_accuracy")
    assert {*table.settings} == {""}
    assert len({*table.stream}) == 1
    edit(mine / MLP, "learner_params", "passes", value=20.0)
    assert {*load_runs(mine).table("final_accuracy").settings} == {"", "passes=0", "passes=20"}


def test_where_slices_and_several_directories(root: Path) -> None:
    runs = load_runs(root)
    assert [r.name for r in runs.where(learner="mlp", seed=1)] == [f"{STREAM}/mlp-1/seed-1"]
    assert len(runs.where({"seeds.order": 7}, seed=[0, 1], learner=("mlp", "er"))) == 2
    assert len(runs.where(learner="er")) == 0
    assert [r.name for r in runs[1:]] == [r.name for r in runs.where(learner="mlp")]
    assert len([r for r in runs if r.row()["learns"]]) == 2
    assert len(load_runs(root, root / STREAM)) == 6
    assert len(load_runs(root, references=True)) == 4
    first, *rest = repr(runs).splitlines()
    assert first == "<3 runs"
    assert rest == [" learners: chance, mlp", f" protocols: {runs[0].row()['protocol']}>"]
    with pytest.raises(UserError, match="unknown name in the rows 'leaner'"):
        runs.where(leaner="mlp")


def test_answers_matrices_and_classes_are_computed_on_demand(root: Path) -> None:
    run = load_runs(root)[1]
    p = run.predictions()
    assert [len(repr(thing).splitlines()) for thing in (run, p, load_runs(root))] == [3, 3, 3]
    assert max(map(len, repr(p).splitlines())) < 200
    assert f"{run.record.metrics['final_accuracy']:.4f}" in repr(run)
    np.testing.assert_array_equal(
        run.matrix("accuracy").R, np.array(run.record.by_score["accuracy"].R)
    )
    assert run.matrix().name == run.record.score
    recalls, ends = run.per_class(), run.matrix().ends
    assert recalls.shape == (len(ends), p.seen.shape[1])
    last = np.array([np.mean(p.answer[-1][p.y == c] == c) for c in np.unique(p.y)])
    np.testing.assert_allclose(recalls[-1][np.unique(p.y)], last)
    assert run.classes == ["a", "b", "c", "d"]
    with pytest.raises(UserError, match="unknown score 'acuracy'"):
        run.matrix("acuracy")


def test_predictions_are_compared_with_the_record_when_they_are_read(mine: Path) -> None:
    (mine / MLP / "predictions.h5").write_bytes((mine / MLP / "predictions.h5").read_bytes() + b"x")
    runs = load_runs(mine)
    assert len(runs) == 3
    for read in (runs[1].predictions, runs[1].matrix, runs[1].per_class):
        with pytest.raises(UserError, match="is not the file that its record was made from"):
            read()
    left: list[str] = []
    assert len(load_runs(mine, verify=True, notify=left.append)) == 2
    assert "is not the file that its record was made from" in left[0]


def test_class_sizes_of_another_number_are_one_sentence(mine: Path) -> None:
    total = sum(record_files.load(mine / MLP).n_train)
    edit(mine / MLP, "n_train_by_class", value=[total])
    (run,) = (r for r in load_runs(mine) if r.name == MLP)
    with pytest.raises(UserError, match=r"n_train_by_class has 1 values, .* must have 8"):
        run.per_class()


def test_no_metric_of_a_record_replaces_a_setting(mine: Path) -> None:
    edit(mine / MLP, "metrics", "learner", value=0.5)
    edit(mine / MLP, "metrics", "mine", value=0.25)
    row = load_runs(mine)[1].row()
    assert (row["learner"], row["mine"]) == ("mlp", 0.25)


def test_verify_finds_an_edited_metric(mine: Path) -> None:
    edit(mine / MLP, "metrics", "final_accuracy", value=0.999)
    assert load_runs(mine)[1].row()["final_accuracy"] == 0.999
    left: list[str] = []
    assert MLP not in [r.name for r in load_runs(mine, verify=True, notify=left.append)]
    assert "final_accuracy" in left[0]


def test_what_cannot_be_read_is_left_out_with_a_warning(mine: Path) -> None:
    edit(mine / MLP, "seed", value="0\x1b[31m")
    with pytest.warns(UserWarning, match="left out: .*seed must be an integer") as caught:
        assert len(load_runs(mine)) == 2
    assert "\x1b" not in str(caught[0].message)
    (mine / MLP / "record.json").write_text("[1]")
    (mine / f"{STREAM}/mlp-1/seed-1/predictions.h5").unlink()
    left: list[str] = []
    assert len(load_runs(mine, notify=left.append)) == 1
    assert len(left) == 2
    (mine / MLP / "record.json").write_text("[" * 10**5)
    edit(mine / f"{STREAM}/chance-1/seed-0", "schema", value="other")
    left.clear()
    assert len(load_runs(mine, notify=left.append)) == 0
    assert any("schema 'other', expected" in sentence for sentence in left)


def test_directories_without_runs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no finished run"):
        load_runs(tmp_path)
    with pytest.raises(UserError, match="there is no directory"):
        load_runs(tmp_path / "none")
    with pytest.raises(UserError, match="takes a directory of runs"):
        load_runs()


def test_nothing_that_a_record_names_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_as_a_data_frame(root: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = load_runs(root).to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.shape[0] == 3
    means = frame[frame.learns].groupby("learner")["final_accuracy"].mean()
    both = [record_files.load(root / MLP).metrics["final_accuracy"]] * 2
    assert means["mlp"] == pytest.approx(np.mean(both))


def test_a_missing_pandas_is_a_sentence(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match=r"pip install 'embedbench-cl\[pandas\]'; rows\(\) needs"):
        load_runs(root).to_pandas()


def test_undefined_is_nan(root: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = load_runs(root).rows()
    assert any(isinstance(v, float) and math.isnan(v) for v in rows[0].values())
