"""What is kept cannot change unnoticed: score, report, and reading predictions."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from pinned_runs import CHANCE, MLP, OFFLINE, edit, write_references, write_run, write_runs
from report_records import make
from toy import random_predictions
from typer.testing import CliRunner

from embedbench.cli.app import app
from embedbench.errors import UserError
from embedbench.reports.html_report import write_html
from embedbench.reports.tables_from_runs import collect
from embedbench.scores import record_files
from embedbench.scores.label_set_predictions import LabelSets, levels, load_any, pack
from embedbench.scores.predictions import Predictions
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
    """Two runs and their references."""
    root = tmp_path_factory.mktemp("made")
    write_runs(root)
    return root


@pytest.fixture
def runs(made: Path, tmp_path: Path) -> Path:
    """A copy, to be changed."""
    return shutil.copytree(made, tmp_path / "runs")


def state(root: Path) -> dict[Path, tuple[bytes, int]]:
    """Bytes and time of every file."""
    files = sorted(p for p in root.rglob("*") if p.is_file())
    return {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in files}


# --- score ---


def test_what_agrees_is_left_as_it_is(runs: Path) -> None:
    before = state(runs)
    for words in ((), ("--update",)):
        code, out, err = embedbench("score", runs, *words)
        assert (code, out, err) == (
            0,
            "4 runs: 4 agree, 0 differ, 0 cannot be recomputed\n",
            "",
        )
    assert state(runs) == before


EDITS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "metrics.final_accuracy": (("metrics", "final_accuracy"), 0.99),
    "metrics.omega_all": (("metrics", "omega_all"), None),
    "by_score.accuracy.metrics.bwt": (("by_score", "accuracy", "metrics", "bwt"), 0.5),
    "R[1][0]": (("R", 1, 0), 1),
    "pooled[0]": (("pooled", 0), 0.123),
    "moments.pooled[1]": (("moments", "pooled", 1), 0.123),
    "moments.samples_seen[0]": (("moments", "samples_seen", 0), 11),
    "by_score.within_accuracy.curves.aa[1]": (
        ("by_score", "within_accuracy", "curves", "aa", 1),
        0.1,
    ),
    "curves.gacc": (("curves", "gacc"), [0.9] * 3),  # not of this protocol
    "flags.nan": (("flags",), ["nan"]),
    "reference.ideal.accuracy": (("reference", "ideal", "accuracy"), 0.999),
    "by_score.pw_js.pooled": (("by_score", "pw_js"), make()["by_score"]["accuracy"]),
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
    assert (result.run, result.agrees, result.updated) == (MLP, False, False)
    assert metric in {d.metric for d in result.differs}
    said: list[str] = []
    row, _ = collect(runs, notify=said.append)
    assert [r.run for r in row.records] == ["1"]
    assert [str(place) in sentence for sentence in said] == [True]
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
    ]
    code, out, _ = embedbench("score", runs, "--json")
    (entry,) = [e for e in json.loads(out) if not e["agrees"]]
    differs = [{"metric": "metrics.final_accuracy", "kept": 0.99, "recomputed": value}]
    assert (code, entry["run"], entry["differs"]) == (1, MLP, differs)
    code, out, err = embedbench("report", runs, "--json")
    assert (code, err.count("left out: ")) == (0, 1)
    assert "final_accuracy is 0.99 in record.json" in err
    assert json.loads(out)["tables"][0]["rows"][0]["runs"] == ["1"]
    assert state(runs) == edited
    code, out, _ = embedbench("score", runs, "--update")
    assert (code, f"updated: {MLP}" in out) == (0, True)
    assert embedbench("score", runs)[0] == 0


def test_rounding_is_no_difference(runs: Path) -> None:
    place = runs / MLP
    value = record_files.load(place).metrics["final_accuracy"]
    edit(place, "metrics", "final_accuracy", value=value * (1 + 1e-10))
    assert not rescore(place, runs).differs
    edit(place, "metrics", "final_accuracy", value=value * (1 + 1e-8))
    assert rescore(place, runs).differs


def test_a_new_metric_is_listed_and_one_from_elsewhere_is_not_checked(runs: Path) -> None:
    place = runs / MLP
    whole = (place / "record.json").read_bytes()
    for keys in (("metrics", "bwt"), ("by_score", "accuracy", "metrics", "bwt"), ("curves", "raa")):
        edit(place, *keys, value=...)
    edit(place, "metrics", "theirs", value=0.25)
    edit(place, "flags", value=[*json.loads(whole)["flags"], "odd"])
    before = state(runs)
    code, out, _ = embedbench("score", runs)
    assert code == 0
    assert f"new: {MLP}: by_score.accuracy.metrics.bwt, curves.raa, metrics.bwt" in out
    assert f"not checked: {MLP}: flags.odd, metrics.theirs" in out
    assert state(runs) == before
    (row, _) = collect(runs)
    assert all("bwt" in r.metrics for r in row.records)
    assert state(runs) == before
    assert embedbench("score", runs, "--update")[0] == 0
    assert record_files.load(place).metrics["theirs"] == 0.25
    edit(place, "metrics", "theirs", value=...)
    edit(place, "flags", value=json.loads(whole)["flags"])
    assert (place / "record.json").read_bytes() == whole


def test_a_record_of_a_wider_rule_of_not_learned_is_read(runs: Path) -> None:
    """Earlier versions set it for learners that learn sessions later."""
    place = runs / MLP
    kept = json.loads((place / "record.json").read_text())["flags"]
    assert "not-learned" not in kept
    edit(place, "flags", value=["not-learned", *kept])
    result = rescore(place, runs)
    assert (result.agrees, result.new) == (True, ("flags.not-learned",))
    (row, _) = collect(runs)
    assert "not-learned" not in row.flags
    assert rescore(place, runs, update=True).updated
    assert "not-learned" not in record_files.load(place).flags


def test_a_record_from_before_few_steps_is_read(runs: Path) -> None:
    place = runs / MLP
    edit(place, "sessions", 1, "log", value={"steps": 7, "stopped": "patience"})
    result = rescore(place, runs)
    assert (result.agrees, result.new) == (True, ("flags.few-steps",))
    assert rescore(place, runs, update=True).updated
    assert "few-steps" in record_files.load(place).flags
    edit(place, "sessions", 1, "log", value={"steps": 70, "stopped": "patience"})
    assert not rescore(place, runs).agrees


def test_what_waits_for_its_reference_is_open(tmp_path: Path) -> None:
    place = write_runs(tmp_path, references=False)
    kept = record_files.load(place)
    assert kept.reference.source == "missing"
    assert np.isnan(kept.metrics["omega_all"])
    code, out, _ = embedbench("score", tmp_path)
    assert code == 0
    assert f"open: {MLP}: waits for {OFFLINE}, {CHANCE}" in out
    write_html(collect(tmp_path), tmp_path / "page.html", "runs")
    assert ">open<" in (tmp_path / "page.html").read_text("utf-8")
    (tmp_path / "page.html").unlink()
    assert not fill_reference(place, tmp_path)
    write_references(tmp_path)
    before = state(tmp_path)
    code, out, _ = embedbench("score", tmp_path)
    assert code == 0
    assert f"open: {MLP}: by_score.accuracy.metrics.omega_all" in out
    mlp, _ = collect(tmp_path)
    assert all(r.metrics["omega_all"] > 0 for r in mlp.records)
    assert not any("missing" in note for note in mlp.group.notes)
    assert state(tmp_path) == before
    assert fill_reference(place, tmp_path)
    filled = (place / "record.json").read_bytes()
    assert not fill_reference(place, tmp_path)
    edit(place, "reference", value=before_reference(before[place / "record.json"][0]))
    assert rescore(place.with_name("seed-1"), tmp_path, update=True).updated
    other = record_files.load(place.with_name("seed-1"))
    assert other.metrics["omega_all"] == json.loads(filled)["metrics"]["omega_all"]
    assert other.reference.source == "runs"


def before_reference(data: bytes) -> Any:
    return json.loads(data)["reference"]


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
    assert (code, f"not pinned: {MLP}" in out) == (0, True)
    assert embedbench("score", runs, "--update")[0] == 0
    assert (place / "record.json").read_bytes() == whole
    edit(place, "predictions_sha256", value=...)
    edit(place, "metrics", "bwt", value=0.5)
    before = state(runs)
    code, out, _ = embedbench("score", runs, "--update")
    assert (code, f"differs: {MLP}: metrics.bwt: kept 0.5" in out) == (1, True)
    assert state(runs) == before


def test_other_predictions_are_never_taken_for_the_records(runs: Path) -> None:
    place = runs / MLP
    other = random_predictions(2)
    other.save(place / "predictions.h5")
    before = state(runs)
    code, out, _ = embedbench("score", runs, "--update")
    assert code == 1
    assert f"cannot be recomputed: {MLP}: " in out
    pins = (
        record_files.load(place).predictions_sha256 or "",
        user_cache.sha256(place / "predictions.h5"),
    )
    assert f"expected SHA-256 {pins[0][:12]}…, got {pins[1][:12]}…" in out
    assert state(runs) == before
    code, _, err = embedbench("report", runs)
    assert (code, f"left out: {place}" in err) == (0, True)
    (place / "predictions.h5").unlink()
    assert not record_files.is_finished(place)
    code, _, err = embedbench("report", runs)
    assert (code, "no predictions.h5" in err) == (0, True)
    with pytest.raises(UserError, match="no predictions"):
        record_files.read_predictions(place)


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


# --- report ---


BAD: dict[str, bytes] = {
    "no JSON": b"{",
    "a list": b"[1, 2]",
    "not UTF-8": b"\xff\xfe\x00",
    "no keys": b'{"schema": "embedbench-record/1.0"}',
    "deep": b"[" * 100_000,
}


def test_one_bad_record_is_named_and_the_rest_is_reported(runs: Path) -> None:
    for i, (name, content) in enumerate(BAD.items()):
        place = runs / f"bad-{i}" / name / "seed-0"
        place.mkdir(parents=True)
        (place / "record.json").write_bytes(content)
    huge = runs / "huge" / "mlp" / "seed-0"
    write_run(runs, "huge/mlp/seed-0", random_predictions(3))
    edit(huge, "seed", value=10**30)
    fifo = runs / "fifo" / "mlp" / "seed-0"
    fifo.mkdir(parents=True)
    os.mkfifo(fifo / "record.json")
    unfinished = runs / "stream-1" / "mlp-1" / ".seed-3.partial"
    unfinished.mkdir()
    (unfinished / "record.json").write_bytes(b"{")
    code, out, err = embedbench("report", runs, "--json")
    assert code == 0
    assert err.count("left out: ") == len(BAD) + 2
    assert "seed must be an integer of 64 bits" in err
    assert "regular file" in err
    assert [t["rows"][0]["n"] for t in json.loads(out)["tables"]] == [2]
    code, out, _ = embedbench("score", runs)
    assert (code, "4 agree, 0 differ, 7 cannot" in out) == (1, True)
    code, _, err = embedbench("report", runs / "huge")
    assert (code, "none of the 1 runs" in err) == (2, True)


def test_the_second_report_computes_nothing_unless_something_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    for expected in (3, 0):
        evaluated.clear()
        collect(root)
        assert len(evaluated) == expected
    edit(place, "command", value="another")
    collect(root)
    assert evaluated == [0]
    evaluated.clear()
    edit(root / OFFLINE, "predictions_sha256", value=...)
    p = random_predictions(4)
    p = replace(p, session=p.session[:1], samples_seen=p.samples_seen[:1], seen=p.seen[:1],
                answer=p.answer[:1], within=p.within[:1])  # fmt: skip
    p.save(root / OFFLINE / "predictions.h5")
    said: list[str] = []
    (row,) = collect(root, notify=said.append)
    assert evaluated == [0, 1]
    assert row.learner == "chance"
    assert ["Ω" in s or "omega" in s or "ideal" in s for s in said] == [True, True]
    assert set(state(root)) == before


def test_the_page_is_written_before_anything_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: Any) -> None:
        raise BrokenPipeError

    write_runs(tmp_path / "runs")
    monkeypatch.setattr("embedbench.cli.report.show_tables", gone)
    CliRunner().invoke(app, ["report", str(tmp_path / "runs"), "--html", str(tmp_path / "x.html")])
    assert "mlp" in (tmp_path / "x.html").read_text(encoding="utf-8")


# --- reading predictions ---


def label_sets() -> LabelSets:
    """Three samples, two sessions of two of four classes, nothing answered."""
    introduces = np.array([[1, 1, 0, 0], [0, 0, 1, 1]], dtype=bool)
    return LabelSets(
        ids=np.arange(3),
        split=np.zeros(3, dtype=np.int64),
        y=pack(np.array([[1, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 1]], dtype=bool)),
        introduces=introduces,
        parents=np.array([-1, -1, 0, 0]),
        session=np.arange(2),
        samples_seen=np.array([5, 9]),
        seen=np.logical_or.accumulate(introduces),
        answer=np.zeros((2, 3, 1), dtype=np.uint8),
        undecided=np.zeros(2, dtype=np.int64),
    )


def rewritten(path: Path, name: str, value: Any, **options: Any) -> None:
    with h5py.File(path, "r+") as f:
        del f[name]
        if value is not None:
            options = {"chunks": True} | options if np.ndim(value) else options
            f.create_dataset(name, data=value, **options)


P, L = random_predictions(1), label_sets()
M, N, C = len(P.session), len(P.y), P.seen.shape[1]
WRONG: dict[str, tuple[Any, str, Any]] = {
    "the table y is missing": (P, "y", None),
    "y must be int64, it is float64": (P, "y", P.y.astype(float)),
    "answer must be int32, it is >i4": (P, "answer", P.answer.astype(">i4")),
    "ids must have the axes": (P, "ids", P.seen.astype(int)),
    f"within must have shape \\({M}, {N}\\)": (P, "within", P.within[:, 1:]),
    f"y must lie in 0 to {C - 1}": (P, "y", P.y - 1),
    f"answer must lie in -1 to {C - 1}": (P, "answer", P.answer + np.int32(C)),
    "answer must be among the classes seen": (
        P,
        "answer",
        np.full_like(P.answer, np.flatnonzero(~P.seen[0])[0]),
    ),
    "within must be among the classes of the": (
        P,
        "within",
        np.full_like(P.within, np.flatnonzero(P.set_classes[0])[0]),
    ),
    "eval_set must not decrease": (P, "eval_set", P.eval_set[::-1].copy()),
    "eval_set must lie in": (P, "eval_set", P.eval_set + 1),
    "seen must hold 0 and 1 only": (P, "seen", P.seen.astype(np.uint8) * 2),
    "seen must lose no class": (P, "seen", P.seen[::-1].astype(np.uint8)),
    "session must begin at 0 and go up by one": (P, "session", P.session * 2),
    "samples_seen must not be negative": (P, "samples_seen", -P.samples_seen),
    "undecided must lie in 0 to 3": (L, "undecided", L.undecided + 4),
    "split must lie in 0 to 1": (L, "split", L.split + 2),
    "y has labels beyond the last class": (L, "y", L.y | np.uint8(1)),
    "labels of 4 classes must take 1 byte": (L, "y", np.zeros((3, 2), np.uint8)),
    "answer must be among the classes .*": (L, "answer", L.answer | np.uint8(16)),
    "seen must be the classes introduced": (L, "seen", L.seen[[1, 1]].astype(np.uint8)),
    "levels of parents, a hierarchy": (L, "parents", np.array([1, 0, 0, 0])),
    "parents must lie in": (L, "parents", np.array([-1, -1, 4, 0])),
}


@pytest.mark.parametrize("says", WRONG)
def test_what_no_run_can_have_answered_is_refused(tmp_path: Path, says: str) -> None:
    p, name, value = WRONG[says]
    path = tmp_path / "predictions.h5"
    p.save(path)
    assert set(vars(load_any(path))) == set(vars(p))
    if says.startswith("labels of"):
        rewritten(path, "answer", np.zeros((2, 3, 2), np.uint8))
    rewritten(path, name, value)
    with pytest.raises(UserError, match=says):
        load_any(path)


def test_a_chunk_that_is_missing_is_not_read_as_zeros(tmp_path: Path) -> None:
    path = tmp_path / "predictions.h5"
    P.save(path)
    with h5py.File(path, "r+") as f:
        del f["answer"]
        f.create_dataset("answer", P.answer.shape, np.int32, chunks=True)
    with pytest.raises(UserError):
        load_any(path)


def test_hierarchies_take_linear_time() -> None:
    deep = np.arange(-1, 300_000)
    assert levels(deep).tolist() == list(range(len(deep)))
    assert levels(np.array([2, -1, 0, 1])).tolist() == [-1, 0, -1, 1]


@pytest.mark.parametrize("p", [P, L], ids=["answers", "label sets"])
def test_a_flipped_byte_never_gives_other_answers(tmp_path: Path, p: Predictions) -> None:
    path, rng = tmp_path / "predictions.h5", np.random.default_rng(0)
    p.save(path)
    data, refused = path.read_bytes(), 0
    spots = {*rng.integers(0, len(data), 60), *rng.integers(len(data) - 400, len(data), 20)}
    for at in map(int, sorted(spots)):
        flipped = bytearray(data)
        flipped[at] ^= int(rng.integers(1, 256))
        path.write_bytes(flipped)
        try:
            again = load_any(path)
        except UserError:
            refused += 1
            continue
        for name, value in vars(p).items():
            np.testing.assert_array_equal(getattr(again, name), value)
    assert refused > 15
