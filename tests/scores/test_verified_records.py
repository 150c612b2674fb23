"""What is kept cannot change unnoticed: score, report, and reading predictions."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import says
from pinned_runs import MLP, OFFLINE, edit, merged, write_references, write_run, write_runs
from toy import predictions, random_predictions
from typer.testing import CliRunner

from embedbench.cli.app import app
from embedbench.errors import UserError
from embedbench.reports.html_report import render
from embedbench.reports.tables_from_runs import collect
from embedbench.scores import record_files
from embedbench.scores.verified_records import fill_reference, rescore
from embedbench.storage import user_cache


def embedbench(*words: Any) -> tuple[int, str, str]:
    """Exit code, stdout, stderr with the message of a user error."""
    done = CliRunner().invoke(app, [str(w) for w in words])
    if isinstance(done.exception, UserError):
        return 2, done.stdout, f"{done.stderr}{done.exception}"
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made")
    write_runs(root)
    return root


@pytest.fixture
def runs(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "runs")


# what the command ends with: no learner was run, and the embedding file was not opened
NOT_CHECKED = (
    "this cannot show that a learner gave the answers (none was run), nor that streams and labels "
    "are those of the embedding file (which was not opened)"
)


def state(root: Path) -> dict[Path, tuple[bytes, int]]:
    files = sorted(p for p in root.rglob("*") if p.is_file())
    return {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in files}


def test_what_agrees_is_left_as_it_is(runs: Path) -> None:
    before = state(runs)
    for words in ((), ("--update",)):
        said = f"4 runs: 4 agree, 0 differ, 0 cannot be recomputed\n{NOT_CHECKED}\n"
        assert embedbench("score", runs, *words) == (0, said, "")
    assert state(runs) == before


EDITS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "metrics.final_accuracy": (("metrics", "final_accuracy"), 0.99),
    "metrics.omega_all": (("metrics", "omega_all"), None),
    "by_score.accuracy.metrics.bwt": (("by_score", "accuracy", "metrics", "bwt"), 0.5),
    "R[1][0]": (("R", 1, 0), 1),
    "pooled[0]": (("pooled", 0), 0.123),
    "moments.pooled[1]": (("moments", "pooled", 1), 0.123),
    "moments.samples_seen[0]": (("moments", "samples_seen", 0), 11),
    "by_score.accuracy.curves.aa[1]": (("by_score", "accuracy", "curves", "aa", 1), 0.1),
    "flags.nan": (("flags",), ["nan"]),
    "reference.ideal.accuracy": (("reference", "ideal", "accuracy"), 0.999),
    "score": (("score",), "accuracy"),
}


@pytest.mark.parametrize("metric", EDITS)
def test_what_was_edited_is_named_and_written_only_when_asked(runs: Path, metric: str) -> None:
    place = runs / MLP
    whole = (place / "record.json").read_bytes()
    keys, value = EDITS[metric]
    edit(place, *keys, value=value)
    edited = state(runs)
    result = rescore(place, runs)
    assert result.run == MLP
    assert result.agrees is False
    assert result.updated is False
    assert rescore(place, place.parent) == replace(result, run="seed-0")  # references by layout
    first, *others = [d.metric for d in result.differs]
    more = f", and {len(others)} more values" if others else ""
    assert metric in (first, *others)
    assert result.describe().startswith(first)
    assert result.describe().endswith(f" from predictions.h5{more}")
    assert state(runs) == edited
    assert rescore(place, runs, update=True).agrees
    assert (place / "record.json").read_bytes() == whole


def test_the_commands_say_what_differs(runs: Path) -> None:
    place = runs / MLP
    edit(place, "metrics", "final_accuracy", value=0.99)
    edited = state(runs)
    code, out, _ = embedbench("score", runs)
    value = record_files.load(place.with_name("seed-1")).metrics["final_accuracy"]
    assert code == 1
    assert out.splitlines() == [
        "4 runs: 3 agree, 1 differ, 0 cannot be recomputed",
        f"differs: {MLP}: metrics.final_accuracy: kept 0.99, recomputed {value}",
        NOT_CHECKED,
    ]
    code, out, _ = embedbench("score", runs, "--json")
    (entry,) = [e for e in json.loads(out) if not e["agrees"]]
    differs = [{"metric": "metrics.final_accuracy", "kept": 0.99, "recomputed": value}]
    assert code == 1
    assert entry["run"] == MLP
    assert entry["differs"] == differs
    code, _, err = embedbench("report", runs)
    assert code == 0
    assert err.count("left out: ") == 1
    assert "final_accuracy is 0.99 in record.json" in err
    assert state(runs) == edited
    code, out, _ = embedbench("score", runs, "--update")
    assert code == 0
    assert f"updated: {MLP}" in out


def test_rounding_is_no_difference(runs: Path) -> None:
    place = runs / MLP
    v = record_files.load(place).metrics["final_accuracy"]
    for name, value, most in (("final_accuracy", v, 1e-9 * v), ("worst_class_accuracy", 0, 1e-12)):
        for share in (1.5, 0.9):
            edit(place, "metrics", name, value=value + share * most)
            assert bool(rescore(place, runs).differs) == (share > 1)


@pytest.mark.parametrize(
    ("keys", "value", "n"),
    [
        (("n_candidates",), [None] * 2, 3),
        (("n_train_by_class",), [1, 2], 8),
        (("reference", "offline_runs"), [["a"], ["b"]], 3),
        (("reference", "ideal", "accuracy"), [0.5] * 2, 3),
        (("reference", "chance", "accuracy"), [None] * 2, 3),
    ],
)
def test_a_list_has_the_length_that_the_predictions_say(
    runs: Path, keys: Any, value: Any, n: int
) -> None:
    place = runs / MLP
    edit(place, *keys, value=value)
    said = f"{place}: {'.'.join(keys)} has 2 values, predictions.h5 has {n}"
    assert str(rescore(place, runs).fault).startswith(said)


def test_a_new_metric_is_listed_and_what_is_not_computed_here_is_left_out(runs: Path) -> None:
    place = runs / MLP
    whole = (place / "record.json").read_bytes()
    for keys in (("metrics", "bwt"), ("by_score", "accuracy", "metrics", "bwt"), ("curves", "raa")):
        edit(place, *keys, value=...)
    edit(place, "metrics", "theirs", value=0.25)
    edit(place, "curves", "gacc", value=[0.9] * 3)  # not of this protocol
    edit(place, "flags", value=[*json.loads(whole)["flags"], "odd"])
    before = state(runs)
    code, out, _ = embedbench("score", runs)
    assert code == 0
    assert f"new: {MLP}: by_score.accuracy.metrics.bwt, curves.raa, metrics.bwt" in out
    assert f"not checked: {MLP}: curves.gacc, flags.odd, metrics.theirs" in out
    assert state(runs) == before
    (row, _) = collect(runs)
    assert all("bwt" in r.metrics and "theirs" not in r.metrics for r in row.records)
    assert not any("gacc" in (r.curves or {}) for r in row.records)
    assert state(runs) == before
    assert embedbench("score", runs, "--update")[0] == 0
    assert (place / "record.json").read_bytes() == whole


def test_a_record_of_a_wider_rule_of_not_learned_or_without_few_steps_is_read(runs: Path) -> None:
    """Earlier versions set not-learned for learners that learn sessions later."""
    place = runs / MLP
    kept = record_files.load(place).flags
    edit(place, "flags", value=["not-learned", *kept])
    edit(place, "sessions", 1, "log", value={"steps": 7, "stopped": "patience"})
    result = rescore(place, runs)
    assert result.agrees is True
    assert result.new == ("flags.few-steps", "flags.not-learned")
    (row, _) = collect(runs)
    assert {*row.flags} == {*kept, "few-steps"}
    assert rescore(place, runs, update=True).updated
    assert {*record_files.load(place).flags} == {*kept, "few-steps"}
    edit(place, "sessions", 1, "log", value={"steps": 70, "stopped": "patience"})
    assert not rescore(place, runs).agrees


def test_what_waits_for_its_reference_is_open(tmp_path: Path) -> None:
    place = write_runs(tmp_path, references=False)
    kept = record_files.load(place)
    assert kept.reference.source == "missing"
    assert np.isnan(kept.metrics["omega_all"])
    assert embedbench("score", tmp_path)[0] == 0
    assert ">open<" in render(collect(tmp_path), "runs")
    assert not fill_reference(place, tmp_path)
    write_references(tmp_path)
    before = state(tmp_path)
    code, out, _ = embedbench("score", tmp_path)
    assert code == 0
    assert f"new: {MLP}: by_score.accuracy.metrics.omega_all" in out
    mlp, _ = collect(tmp_path)
    assert all(r.metrics["omega_all"] > 0 for r in mlp.records)
    assert not any("missing" in note for note in mlp.group.notes)
    assert state(tmp_path) == before
    assert fill_reference(place, tmp_path)
    filled = record_files.load(place).metrics["omega_all"]
    assert not fill_reference(place, tmp_path)
    other = place.with_name("seed-1")
    assert rescore(other, tmp_path, update=True).updated
    assert record_files.load(other).metrics["omega_all"] == filled
    assert record_files.load(other).reference.source == "runs"


def test_run_fills_nothing_in_where_something_differs(tmp_path: Path) -> None:
    place = write_runs(tmp_path, references=False)
    write_references(tmp_path)
    edit(place, "metrics", "final_accuracy", value=0.99)
    before = state(tmp_path)
    assert not fill_reference(place, tmp_path)
    assert state(tmp_path) == before


def test_a_record_without_a_pin_gets_one_if_all_agrees(runs: Path) -> None:
    place = runs / MLP
    whole = (place / "record.json").read_bytes()
    edit(place, "predictions_sha256", value=...)
    row, _ = collect(runs)
    assert row.flags["not-pinned"] == ["0"]
    code, out, _ = embedbench("score", runs)
    assert code == 0
    assert f"not pinned: {MLP}" in out
    assert embedbench("score", runs, "--update")[0] == 0
    assert (place / "record.json").read_bytes() == whole
    edit(place, "predictions_sha256", value=...)
    edit(place, "metrics", "bwt", value=0.5)
    before = state(runs)
    code, out, _ = embedbench("score", runs, "--update")
    assert code == 1
    assert f"differs: {MLP}: metrics.bwt: kept 0.5" in out
    assert state(runs) == before


NOVEL = ("by_score", "accuracy", "curves", "novel_accuracy")


@pytest.fixture
def few_shot(tmp_path: Path) -> Path:
    """A few-shot run whose novel sessions have three test samples and one."""
    answer = [[0] * 5, [0, 1, 1, 0, 0], [0, 1, 1, 0, 2]]
    p = predictions([[0], [1, 1, 1], [2]], answer, [[0], [1], [2]], within=[[0, 1, 1, 1, 2]] * 3)
    write_run(tmp_path, MLP, p, protocol="fscil")
    return tmp_path


def test_an_earlier_few_shot_curve_that_weighs_sessions_is_no_fault(few_shot: Path) -> None:
    edit(few_shot / MLP, *NOVEL, value=[None, 2 / 3, (2 / 3 + 1) / 2])
    assert rescore(few_shot / MLP, few_shot).differs == ()


def test_an_earlier_few_shot_curve_is_written_anew_when_asked(few_shot: Path) -> None:
    edit(few_shot / MLP, *NOVEL, value=[None, 2 / 3, (2 / 3 + 1) / 2])
    rescore(few_shot / MLP, few_shot, update=True)
    scored = record_files.load(few_shot / MLP).by_score["accuracy"]
    assert (scored.curves or {})["novel_accuracy"][2] == pytest.approx(3 / 4)


def test_another_few_shot_curve_is_a_fault(few_shot: Path) -> None:
    edit(few_shot / MLP, *NOVEL, value=[None, 2 / 3, 0.8])
    (found,) = rescore(few_shot / MLP, few_shot).differs
    assert found.metric == ".".join(NOVEL) + "[2]"


def test_other_predictions_are_never_taken(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = runs / MLP
    random_predictions(2).save(place / "predictions.h5")
    before = state(runs)
    expected = record_files.load(place).predictions_sha256 or ""
    got = user_cache.sha256(place / "predictions.h5")
    code, out, _ = embedbench("score", runs, "--update")
    assert code == 1
    assert f"cannot be recomputed: {MLP}: " in out
    assert f"expected SHA-256 {expected[:12]}…, got {got[:12]}…" in out
    result = rescore(place, runs, update=True)
    assert result.pinned is False
    assert result.updated is False
    assert result.differs == ()
    assert state(runs) == before
    code, _, err = embedbench("report", runs)
    assert code == 0
    assert f"left out: {place}" in err
    (place / "predictions.h5").unlink()
    assert not record_files.is_finished(place)
    with pytest.raises(UserError, match="no predictions"):
        record_files.read_predictions(place)
    monkeypatch.setattr(user_cache, "sha256", lambda path: path.with_name("none").read_text())
    assert "predictions.h5 (No such file" in str(rescore(runs / OFFLINE, runs).fault)


def test_a_damaged_reference_is_named_and_the_kept_values_serve(runs: Path) -> None:
    place = runs / MLP
    path = runs / OFFLINE / "predictions.h5"
    path.write_bytes(path.read_bytes()[:-1])
    code, out, err = embedbench("report", runs, "--json")
    assert code == 0
    assert err.count("reference run left out") == 1
    assert json.loads(out)["tables"][0]["rows"][0]["n"] == 2
    assert rescore(place, runs) == replace(rescore(place, runs), run=MLP, differs=())
    assert embedbench("score", runs)[0] == 1


def test_one_bad_record_is_named_and_the_rest_is_reported(runs: Path) -> None:
    for name, content in (
        ("deep", b"[" * 100_000),
        ("no-keys", b'{"schema": "embedbench-record/1.0"}'),
    ):
        (place := runs / name / "mlp" / "seed-0").mkdir(parents=True)
        (place / "record.json").write_bytes(content)
    write_run(runs, "odd/mlp/seed-0", predictions([[0, 1], []], [[0, 0]] * 2, [[0, 1], []]))
    edit(runs / "odd" / "mlp" / "seed-0", "protocol", value="fscil")  # without novel classes
    huge = runs / "huge" / "mlp" / "seed-0"
    write_run(runs, "huge/mlp/seed-0", random_predictions(3))
    edit(huge, "seed", value=10**30)
    (fifo := runs / "fifo" / "mlp" / "seed-0").mkdir(parents=True)
    os.mkfifo(fifo / "record.json")
    (unfinished := runs / "stream-1" / "mlp-1" / ".seed-3.partial").mkdir()
    (unfinished / "record.json").write_bytes(b"{")
    code, out, err = embedbench("report", runs, "--json")
    assert code == 0
    assert err.count("left out: ") == 5
    assert "do not belong together (float division by zero)" in err
    assert "seed must be an integer of 64 bits" in err
    assert "regular file" in err
    assert [t["rows"][0]["n"] for t in json.loads(out)["tables"]] == [2]
    code, out, _ = embedbench("score", runs)
    assert code == 1
    assert "4 agree, 0 differ, 5 cannot" in out
    code, _, err = embedbench("report", runs / "huge")
    assert code == 2
    assert "none of the 1 runs" in err
    code, _, err = embedbench("score", runs / MLP / "record.json")
    assert code == 2
    assert "is a file, not a directory of runs" in err


def test_a_second_report_computes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "runs"
    place = write_runs(root)
    monkeypatch.setenv("EMBEDBENCH_CACHE", str(tmp_path / "cache"))
    before = set(state(root))
    evaluated = []
    evaluate = record_files.evaluate

    def counted(made: Any, *rest: Any) -> Any:
        evaluated.append(made.seed)
        return evaluate(made, *rest)

    monkeypatch.setattr(record_files, "evaluate", counted)
    collect(root)
    collect(root)
    assert len(evaluated) == 3
    evaluated.clear()
    edit(place, "command", value="another")
    collect(root)
    assert evaluated == [0]
    evaluated.clear()
    edit(root / OFFLINE, "predictions_sha256", value=...)
    merged(random_predictions(4)).save(root / OFFLINE / "predictions.h5")
    said: list[str] = []
    (row,) = collect(root, notify=said.append)
    assert evaluated == [0, 1]
    assert row.learner == "chance"
    assert ["Ω" in s or "omega" in s or "ideal" in s for s in said] == [True, True]
    assert set(state(root)) == before


def test_the_page_is_written_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any) -> None:
        raise BrokenPipeError

    write_runs(tmp_path / "runs")
    monkeypatch.setattr("embedbench.cli.report.show_tables", gone)
    CliRunner().invoke(app, ["report", str(tmp_path / "runs"), "--html", str(tmp_path / "x.html")])
    assert "mlp" in (tmp_path / "x.html").read_text(encoding="utf-8")


def test_predictions_that_are_replaced_between_hash_and_reading(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their SHA-256 is that of the record, and what is read would be of another run."""
    place, *others = record_files.find(runs)
    other = runs.parent / "other.h5"
    shutil.copy(others[0] / "predictions.h5", other)
    checked = record_files.predictions_sha256

    def replacing(directory: Path, made: Any) -> str:
        value = checked(directory, made)
        if directory == place and other.exists():
            os.replace(other, place / "predictions.h5")
        return value

    monkeypatch.setattr(record_files, "predictions_sha256", replacing)
    fault = f"{place / 'predictions.h5'} changed while it was read"
    with pytest.raises(UserError, check=says(what=fault)):
        record_files.read_predictions(place)
