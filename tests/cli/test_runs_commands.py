"""`run --shard` and `--config`, `runs status`, `merge` and `track`."""

import json
from pathlib import Path

import pytest
import typer
from commands import Call
from image_files import embedding_file
from plan_runs import plan
from report_records import keep, make

from embedbench.cli.run import _report
from embedbench.cli.runs_commands import _name_and_url
from embedbench.runs.grid_scheduler import Outcome
from embedbench.scores import record_files
from embedbench.studies.study import Study
from embedbench.studies.study_runs import describe_outcome

SMALL = ["offline.mlp.units=8", "offline.mlp.stop.rule=epochs", "offline.mlp.stop.epochs=1"]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call) -> Call:
    """Run one command in a folder with the file `e.h5`."""
    embedding_file(tmp_path)
    monkeypatch.chdir(tmp_path)
    return call


def words(out: str, *more: str, learner: str = "ncm,slda") -> list[str]:
    given = ["run", "e.h5", "--protocol", "incremental-class", "--learner", learner, "--out", out]
    given += ["--device", "cpu", "--jobs", "1"]
    return [*given, *(w for item in SMALL for w in ("--set", item)), *more]


def test_a_shard_without_cells_ends_well_and_says_so(call: Call) -> None:
    code, out, err = call(*words("runs", "--shard", "9/9"))
    assert code == 0
    assert out == ""
    assert err == "shard 9/9 has none of the 2 runs\n"
    code, _, err = call(*words("runs", "--shard", "0/9", "--tune", "slda.shrinkage=0.1,0.2"))
    assert code == 2
    assert err.startswith("embedbench: --shard must be I/N with I from 1 to N")
    assert not Path("runs").exists()


def test_the_table_of_a_later_learner_says_how_to_see_all(call: Call) -> None:
    remark = "runs has other runs; all side by side: embedbench report runs\n"
    assert remark not in call(*words("runs"))[2]
    assert remark not in call(*words("runs"))[2]  # nothing new, and nothing beside it
    code, out, err = call(*words("runs", learner="knn"))
    assert code == 0
    assert remark in err
    assert "ncm" not in out


def test_the_table_of_run_has_the_row_of_chance_that_report_has(call: Call) -> None:
    ran = json.loads(call(*words("runs", "--json"))[1])["tables"]
    reported = json.loads(call("report", "runs", "--json")[1])["tables"]
    learners = [[row["learner"] for row in table["rows"]] for (table,) in (ran, reported)]
    assert learners == [["ncm", "slda", "chance"]] * 2


def test_run_shows_and_keeps_the_metric_that_is_named(call: Call) -> None:
    code, out, _ = call(*words("runs", "--metric", "class_accuracy"))
    kept = {record_files.load(place).metric for place in record_files.find(Path("runs"))}
    assert code == 0
    assert "class accuracy %" in out
    assert kept == {"class_accuracy"}


def test_report_shows_what_run_was_told_to_show(call: Call) -> None:
    call(*words("runs", "--metric", "class_accuracy"))
    (table,) = json.loads(call("report", "runs", "--json")[1])["tables"]
    assert table["score"] == "class_accuracy"


def test_a_run_without_a_metric_keeps_none(call: Call) -> None:
    call(*words("runs"))
    text = (record_files.find(Path("runs"))[0] / "record.json").read_text()
    assert '\n "metric":' not in text


def test_run_takes_a_base_score_alone(call: Call) -> None:
    code, _, err = call(*words("runs", "--metric", "omega_all"))
    assert code == 2
    assert err.startswith("embedbench: --metric: unknown base score")


def test_what_is_left_undone_is_said(call: Call) -> None:
    (cell,) = plan(["e.h5"], "incremental-class", ["ncm"], [4])
    assert describe_outcome(Outcome([], 5, 6, [(cell, "why")])) == [
        "failed: ncm seed 4: why",
        "5 finished runs were there and are kept",
        "6 runs were finished by other processes meanwhile",
    ]


def test_what_failed_is_in_the_output_and_the_exit_code(
    call: Call, capfd: pytest.CaptureFixture[str]
) -> None:
    keep(Path("runs"), make("mlp", 3))
    (cell,) = plan(["e.h5"], "incremental-class", ["ncm"], [4])
    for bad_input, code in ((True, 2), (False, 1)):
        with pytest.raises(typer.Exit) as end:
            _report(Outcome([], 5, 6, [(cell, "why")], bad_input), Path("runs"), "json", Study())
        out, _ = capfd.readouterr()
        failed = [{"learner": "ncm", "seed": 4, "reason": "why"}]
        assert end.value.exit_code == code
        assert json.loads(out)["failed"] == failed


def test_merge_and_status_from_the_command_line(call: Call) -> None:
    for i in (1, 2):
        assert call(*words(f"part-{i}", "--shard", f"{i}/2"))[0] == 0
    code, out, _ = call("runs", "merge", "part-1", "part-2", "--out", "all")
    assert code == 0
    assert out == "runs copied: 4, there already: 2\n"
    assert call("runs", "status", "all")[:2] == (0, "4 finished\n")
    code, out, _ = call("runs", "status", "all", "--json")
    assert json.loads(out)["finished"] == 4
    (run, *_) = record_files.find(Path("part-1"))
    (run / "predictions.h5").write_bytes(b"")
    code, out, err = call("runs", "merge", "part-1", "--out", "other", "--json")
    assert code == 1
    assert json.loads(out)["copied"] == 2
    assert err.startswith(f"left out: {run}/predictions.h5 is not the file")
    for command in (["status", "none"], ["merge", "none", "--out", "x"]):
        assert "there is no directory none" in call("runs", *command).err


def test_a_pack_takes_a_file_and_its_place(call: Call) -> None:
    done = call("runs", "pack", "runs", "--out", "a.zip", "--url", "e.h5")
    assert "--url must be FILE=URL, such as emoji.h5=https://…" in done.err
    assert _name_and_url("e.h5=https://host/?n=1") == ("e.h5", "https://host/?n=1")


def test_a_directory_is_no_file_to_replace(call: Call) -> None:
    Path("folder").mkdir()
    done = call("runs", "pack", "runs", "--out", "folder", "--overwrite")
    assert done.err == "embedbench: folder is a directory or a device; name a file\n"


def test_a_file_is_no_directory_of_runs(call: Call) -> None:
    Path("runs").write_text("")
    sentence = "embedbench: runs is a file; --out takes a directory for the run records\n"
    assert call(*words("runs")).err == sentence


def test_a_study_that_names_no_row_of_its_runs_is_told(
    call: Call, capfd: pytest.CaptureFixture[str]
) -> None:
    keep(Path("runs"), make("mlp", 3))
    outcome = Outcome(record_files.find(Path("runs")), 0, 0, [])
    _report(outcome, Path("runs"), "json", Study(names={"offline": "Joint"}))
    assert capfd.readouterr().err == "no row is called offline\n"


def test_a_study_is_run_and_tracked(call: Call) -> None:
    """The same runs, whether asked for by words or by a file."""
    given = ["run", "e.h5", "--protocol", "permutation", "--learner", "ncm,slda", "--seeds", "0-1"]
    given += ["--set", "references=0", "--device", "cpu", "--jobs", "1"]
    given += ["--set", "protocol.sessions=2", "--tune", "slda.shrinkage=0.1,0.2"]
    Path("study.toml").write_text(
        'files = ["e.h5"]\nprotocols = ["permutation"]\nlearners = ["ncm", "slda"]\nseeds = "0-1"\n'
        'device = "cpu"\n[set]\nreferences = 0\nprotocol.sessions = 2\n'
        "[tune]\nslda.shrinkage = [0.1, 0.2]\n"
    )
    assert "--out" in call("run", "--config", "study.toml").err
    assert call(*given, "--out", "by-words", "--quiet")[0] == 0
    assert call("run", "--config", "study.toml", "--out", "by-file", "--quiet")[0] == 0
    a, b = ([p.relative_to(r) for p in record_files.find(Path(r))] for r in ("by-words", "by-file"))
    assert a == b
    assert len(a) == 6  # with the chance runs
    tuned = [t for p in a if (t := record_files.load("by-file" / p).tuning)]
    assert [t["sessions"] for t in tuned] == [3, 3]  # as if the stream had as many
    code_of_a_user = "class Mine:\n    def __getattr__(s, n): return lambda *a: None\n"
    code_of_a_user += "    def __init__(self, target): pass\n"
    Path("silent_tracker.py").write_text(code_of_a_user)
    track = ["runs", "track", "by-file", "--to", "silent_tracker:Mine"]
    assert call(*track)[::2] == (0, "runs replayed: 6\n")  # nothing of the search
    assert call(*track)[::2] == (0, "runs replayed: 0\n")
    assert "Did you mean 'tensorboard'" in call(*track[:4], "tensorbord:x").err


PUBLISHED = """
files = ["e.h5"]
protocols = ["permutation"]
learners = ["ncm"]
seeds = "0-1"
device = "cpu"

[set]
references = 0
protocol.sessions = 2

[published]
title = "Table 1"
source = "page 3"
metric = "accuracy"
spread_is = "sd"
runs = 5
margin = 1
because = "a point"
data = "other data"

[[published.rows]]
method = "Nearest mean"
mean = 50.0
spread = 1.0
learner = "ncm"
"""


def test_a_published_table_stands_beside_the_runs_of_its_study(call: Call) -> None:
    Path("published.toml").write_text(PUBLISHED)
    done = call("run", "--config", "published.toml", "--out", "runs", "--quiet", "--json")
    (row,) = json.loads(done.out)["published"]["rows"]
    assert row["n"] == 2
    assert "Nearest mean" in call("report", "published.toml").out  # theirs alone, without runs


def test_the_reference_may_stand_beside_a_published_row(call: Call) -> None:
    """Joint training of a paper is `offline`, whose runs lie among the references."""
    offline = "offline.mlp.units = 4\noffline.mlp.stop.epochs = 1\n[published]"
    Path("joint.toml").write_text(
        PUBLISHED.replace('["ncm"]', '["offline"]')
        .replace('learner = "ncm"', 'learner = "offline"')
        .replace("references = 0\n", "")
        .replace("[published]", offline)
    )
    done = call("run", "--config", "joint.toml", "--out", "joint", "--quiet", "--json")
    assert json.loads(done.out)["published"]["rows"][0]["n"] == 2
