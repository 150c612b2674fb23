"""`show`, its export, `runs import`, and what reports and packs make of an imported run."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Call
from plan_runs import plan
from protocol_files import make_file

import embedbench
from embedbench.api import build_stream
from embedbench.cli import show_stream
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.runs.run_task import make_task
from embedbench.runs.stream_cache import StreamCache
from embedbench.sharing.pack import pack
from embedbench.sharing.verify_pack import Rebuilder, verify
from embedbench.streams.stream_summary import StreamSummary

SHOW = ("show", "file.h5", "--protocol", "incremental-class", "--set", "protocol.base=2", "--quiet")
IMPORT = ("runs", "import", "a.npz", "--stream", "s", "--name", "theirs", "--out", "runs")
TOOL = ("--tool", "PILOT==476ef37")
OFFLINE = {"units": 8, "stop.rule": "epochs", "stop.epochs": 1}
SMALL = [word for k, v in OFFLINE.items() for word in ("--set", f"offline.mlp.{k}={v}")]
GOLDEN = Path(__file__).resolve().parents[1] / "golden"


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call) -> Call:
    """Run one command in a folder with the file `file.h5`."""
    make_file(tmp_path, (6, 5, 7, 4), (0,) * 4, (3, 2, 4, 5), apart=4.0)
    monkeypatch.chdir(tmp_path)
    return call


def answered(stream: str = "s", path: str = "a.npz") -> None:
    """Answers of a method that is always right."""
    about = json.loads(Path(stream, "stream.json").read_text())
    lines = Path(stream, "test.csv").read_text().splitlines()[1:]
    labels = np.array([int(line.split(",")[3]) for line in lines])
    scores = np.eye(4)[labels]
    arrays: dict[str, Any] = {f"scores_after_{i}": scores for i in range(len(about["sessions"]))}
    np.savez(path, stream=about["digest"], **arrays)


def test_a_stream_in_the_terminal_and_as_json(call: Call) -> None:
    code, out, _ = call(*SHOW)
    assert code == 0
    title, _, *rows = out.splitlines()
    assert title == "incremental-class · file.h5 · seed 0"
    assert rows[0].split() == ["0", "a,", "b", "2", "9", "2", "5"]
    assert rows[1].split() == ["1", "c", "1", "6", "1", "4"]
    stream = build_stream("file.h5", "incremental-class", base=2)
    assert rows[-1].split(" · ")[1:] == [f"{k} {v[:12]}" for k, v in stream.digests.items()][1:]
    _, out, _ = call(*SHOW, "--json", "--seeds", "0-1")
    first, second = json.loads(out)
    assert first["digests"] == stream.digests
    assert [s["classes"] for s in first["sessions"]] == [["a", "b"], ["c"], ["d"]]
    assert second["title"].endswith("seed 1")
    assert os.listdir() == ["file.h5"]


def test_eval_sets_that_are_not_those_of_the_sessions_have_a_line(call: Call) -> None:
    stream = build_stream("file.h5", "incremental-class", base=2)
    summary = replace(StreamSummary.of(stream, "", [*"abcd"]), tests=(14,), notes=("one", "two"))
    said = [str(part) for part in show_stream.stream_parts(summary)[2:5]]
    assert said == ["samples of the eval sets: 14", "note: one", "note: two"]
    assert {row["test"] for row in show_stream.stream_rows(summary)} == {None}
    short = [show_stream._names(tuple(names)) for names in ("", "abcd", "abcde")]
    assert short == ["–", "a, b, c, d", "a, b, c, … 2 more"]


def test_an_export_replaces_nothing_unasked(call: Call) -> None:
    assert call(*SHOW, "--export", "s")[0] == 0
    names = {"stream.json", "train.csv", "val.csv", "test.csv"}
    assert {*os.listdir("s")} == names
    Path("s/val.csv").write_text("mine")
    code, _, err = call(*SHOW, "--export", "s")
    assert code == 2
    assert "is there already" in err
    assert Path("s/val.csv").read_text() == "mine"
    assert call(*SHOW, "--export", "s", "--overwrite", "--features")[0] == 0
    assert {*os.listdir("s")} == {*names, "features.npy"}
    assert call(*SHOW, "--export", "s", "--overwrite")[0] == 0
    assert {*os.listdir("s")} == names  # features of what was there before do not stay
    assert call(*SHOW, "--export", "file.h5")[0] == 2
    assert "--export" in call(*SHOW, "--features")[2]
    assert "take one stream" in call(*SHOW, "--export", "each", "--seeds", "3,5").err


def test_streams_of_several_files_are_shown_and_not_exported(call: Call, tmp_path: Path) -> None:
    make_file(tmp_path, name="other.h5")
    words = ("show", "file.h5", "other.h5", "--protocol", "multi-modal", "--quiet")
    assert call(*words).code == 0
    for answers in ("restricted", "all"):
        asked = ("--set", f"protocol.answers={answers}", "--export", "s")
        assert "several files" in call(*words, *asked).err
    assert not Path("s").exists()


def test_images_are_exported_as_learners_get_them(tmp_path: Path) -> None:
    from embedbench.interop.exported_stream import export

    (spec,) = plan([str(GOLDEN / "v1.0-pixels.h5")], "incremental-class", ["chance"], [0])
    task = make_task(spec, tmp_path, StreamCache())
    made = export(task, tmp_path / "s", features=True)
    features = np.load(tmp_path / "s" / "features.npy")
    assert features.shape == (len(EmbeddingFile.open(spec.files[0]).labels), *made.input_shape)
    for session in task.stream.sessions:
        assert np.array_equal(features[session.ids], session.x.numpy())


@pytest.mark.thorough
def test_an_imported_run_stands_beside_ours(call: Call) -> None:
    """In reports, comparisons, scores, lists of runs and packs; its costs are not 0."""
    ours = ("run", *SHOW[1:], "--learner", "ncm", "--out", "runs", "--jobs", "1", "--device", "cpu")
    assert (call(*ours, *SMALL)[0], call(*SHOW, *SMALL, "--export", "s")[0]) == (0, 0)
    answered()
    code, _, err = call(*IMPORT, *TOOL, "--set", "lr=0.1,prompts=10,x=inf,y=1_0")
    assert code == 0, err
    rows = json.loads(call("report", "runs", "--json").out)["tables"][0]["rows"]
    theirs = next(row for row in rows if row["learner"] == "theirs")
    assert str(theirs["params"]) == "{'lr': 0.1, 'prompts': 10, 'x': 'inf', 'y': '1_0'}"
    assert list(theirs["flags"]) == ["imported"]
    assert theirs["metrics"]["final_accuracy"]["mean"] == 1.0
    assert theirs["seconds"]["learn"]["mean"] is None
    assert theirs["footprint"] == {}
    _, out, _ = call("report", "runs", "--html", "r.html")
    assert " I" in next(line for line in out.splitlines() if line.startswith("theirs"))
    assert "imported" in Path("r.html").read_text()
    assert (call("report", "runs", "--compare")[0], call("score", "runs")[0]) == (0, 0)
    assert call("runs", "status", "runs")[1].split()[:2] == ["4", "finished"]
    by_name = {run.row()["learner"]: run for run in embedbench.load_runs("runs", verify=True)}
    assert by_name["theirs"].row()["flags"] == "imported"
    assert np.isnan(by_name["theirs"].row()["bytes.total"])
    pack(Path("runs"), Path("p.zip"))
    submission, checked = verify(Path("p.zip"), Rebuilder([Path("file.h5")]))
    assert [run.learner for run in submission.unranked] == ["theirs"]
    assert {run.record.learner for run in checked} == {"ncm", "chance"}


def test_import_says_where_the_run_lies_and_which_names_are_other_numbers(
    call: Call, tmp_path: Path
) -> None:
    Path("file.h5").unlink()
    make_file(tmp_path, (6, 5, 7, 4), (0,) * 4, (3, 2, 4, 5), classes=["0", "1", "10", "2"])
    note = "names: label 2 is the class '10'"
    assert call(*SHOW, "--export", "s").err.strip().endswith(note)
    answered()
    first, *_, last = call(*IMPORT, *TOOL).err.splitlines()
    assert first.startswith("imported theirs: runs/")
    assert last.endswith(note)


def test_omega_is_open_until_the_references_are_there(call: Call) -> None:
    assert call(*SHOW, *SMALL, "--export", "s", "--seed", "2")[0] == 0
    answered()
    about = json.loads(Path("s/stream.json").read_text())
    assert "references" not in about
    Path("s/stream.json").write_text(json.dumps({**about, "references": "rm -r ~"}))
    code, _, err = call(*IMPORT, *TOOL)
    assert code == 0
    assert "rm -r" not in err
    words = ["run", *SHOW[1:], *SMALL, "--seed", "2", "--learner", "chance", "--out", "runs"]
    out = call("report", "runs")[1]
    assert "embedbench run --learner chance makes them" in out
    assert call(*words, "--jobs", "1", "--device", "cpu")[0] == 0
    out = call("report", "runs")[1]
    assert "open" not in out
    assert next(line for line in out.splitlines() if line.startswith("theirs")).split()[1] == "1"


def test_what_is_wrong_is_one_sentence(call: Call) -> None:
    assert call(*SHOW, "--export", "s").code == 0
    answered()
    os.mkfifo("fifo.npz")
    Path("text.npz").write_text("no zip")
    usual = {"--stream": "s", "--name": "theirs", "--out": "runs", "--tool": "PILOT==1"}
    for answers, option, value, sentence in (
        ("a.npz", "--tool", "PILOT", "the tool must be its name and version"),
        ("a.npz", "--name", "er", "no name of a learner"),
        ("a.npz", "--stream", ".", "holds no stream.json"),
        ("a.npz", "--set", "lr", "--set must be name=value"),
        *((path, "--set", "lr=1", "cannot be read") for path in ("fifo.npz", "text.npz", ".")),
    ):
        options = (word for pair in {**usual, option: value}.items() for word in pair)
        code, out, err = call("runs", "import", answers, *options)
        assert code == 2, err
        assert out == "", err
        assert sentence in err, err
        assert err.count("\n") == 1, err
    assert not Path("runs").exists()
