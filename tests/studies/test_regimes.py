"""Presets that are regimes: what each teaches, and their runs in one table."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from protocol_files import make_file
from typer.testing import CliRunner

from embedbench.cli.app import app
from embedbench.errors import UserError
from embedbench.studies.resolve import resolve
from embedbench.studies.study import Study, parse_settings


def study(preset: str, *items: str, **more: Any) -> Study:
    given = {"files": (("a.h5",),), "protocols": ("incremental-class",), "learners": ("er", "slda")}
    return Study(**{**given, **more}, preset=preset, set=parse_settings(items))


def test_the_teaching_is_each_ones_own() -> None:
    names = ("kemker", "pilot", "online", "equal-passes")
    runs = [resolve(study(name, learners=("er",)))[0] for name in names]
    protocols = [run.protocol.settings for run in runs]
    assert [p.loss for p in protocols] == ["all", "seen", "all", "all"]
    assert [p.validation for p in protocols] == ["test", "train", "train", "train"]
    assert [run.learner.settings.passes for run in runs] == [0, 0, 0, 20]
    assert [run.learner.settings.updates for run in runs] == [10, 10, 1, 10]
    (few,) = resolve(study("equal-passes", "passes=7.5", learners=("er",)))
    assert few.learner.settings.passes == 7.5


@pytest.mark.parametrize("learner", ["exstream", "fearnet", "pathnet"])
def test_a_training_that_is_not_counted_is_refused(learner: str) -> None:
    with pytest.raises(UserError, match=f"{learner} has a training of its own"):
        resolve(study("equal-passes", learners=(learner,)))
    with pytest.raises(UserError, match=r"eeil\.passes would count one training"):
        resolve(study("equal-passes", learners=("eeil",)))


def test_regimes_are_one_table(tmp_path: Path) -> None:
    path = make_file(tmp_path, [12] * 6, [0] * 6, [6] * 6, apart=4.0).path
    words = ["run", str(path), "--protocol", "incremental-class", "--order", "icarl1993"]
    words += ["--learner", "ncm,slda", "--seeds", "0-1", "--out", str(tmp_path / "runs")]
    words += ["--set", "references=0", "--jobs", "1"]
    for name in ("base", "step"):
        words += ["--set", f"protocol.{name}=2"]
    for name, about in (("pilot", "PILOT's stream b0-inc10"), ("online", "One pass in batches")):
        done = CliRunner().invoke(app, [*words, "--preset", name])
        assert done.exit_code == 0, done.output
        assert f"preset {name}: {about}" in done.stderr
    selected = tmp_path / "regimes.toml"
    selected.write_text(
        '[report]\nruns = ["runs"]\nrows = ["learner"]\ncolumns = "stream"\nover = "seeds"\n'
    )
    report = ["report", str(selected)]
    shown = CliRunner().invoke(app, report).stdout
    lines = [line for line in shown.splitlines() if line.startswith(("ncm", "slda"))]
    assert all(line.count("[") == 2 for line in lines)
    assert len(lines) == 2

    scores = {}
    for record in (tmp_path / "runs").glob("*/*/seed-0/record.json"):
        r = json.loads(record.read_text())
        scores[r["protocol_params"]["loss"], r["learner"]] = r["metrics"]["final_accuracy"]
    rows = list(csv.DictReader(io.StringIO(CliRunner().invoke(app, [*report, "--csv"]).stdout)))
    assert {row["learner"] for row in rows} == {"ncm", "slda", "chance"}
    for row in rows:  # both seeds give these learners the same answers
        for loss in ("seen", "all"):
            if row["learner"] != "chance":
                assert float(row[f"loss={loss}"]) == pytest.approx(scores[loss, row["learner"]])
