"""Several presets of one study: what they share, what stays each one's own, and one table."""

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
from embedbench.streams.class_order import class_order
from embedbench.streams.make_class_order import make_order
from embedbench.studies.presets import find_regimes, split_regimes
from embedbench.studies.resolve import resolve
from embedbench.studies.study import Key, Study, parse_settings

FOUR = "kemker,pilot,online,equal-passes"


def study(preset: str, *items: str, **more: Any) -> Study:
    given = {"files": (("a.h5",),), "protocols": ("incremental-class",), "learners": ("er", "slda")}
    return Study(**{**given, **more}, preset=preset, set=parse_settings(items))


def test_the_sessions_are_shared_and_the_teaching_is_each_ones_own() -> None:
    runs = [run for run in resolve(study(FOUR)) if run.learner.name == "er"]
    protocols = [run.protocol.settings for run in runs]
    assert {(p.base, p.step, p.order) for p in protocols} == {(10, 10, "icarl1993")}
    assert [p.loss for p in protocols] == ["all", "seen", "all", "all"]
    assert [p.validation for p in protocols] == ["test", "train", "train", "train"]
    assert [run.learner.settings.passes for run in runs] == [0, 0, 0, 20]
    assert [run.learner.settings.updates for run in runs] == [10, 10, 1, 10]
    # what a record says makes this run alone: one preset, and what the others said of the sessions
    alone = split_regimes(study(FOUR))["online"]
    assert (alone.preset, {str(k): v for k, v in alone.set.items()}) == (
        "online",
        {"protocol.base": "10", "protocol.step": "10", "protocol.order": "icarl1993"},
    )
    assert "--preset online --set protocol.base=10" in runs[2].command


def test_one_preset_alone_is_as_it_was() -> None:
    (alone,) = split_regimes(study("kemker")).values()
    assert alone == study("kemker")
    assert list(split_regimes(Study())) == [""]


def test_set_goes_over_what_is_shared_and_over_two_that_disagree(tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text("[set.protocol]\nstep = 5\n")
    both = f"pilot,{other}"
    with pytest.raises(UserError, match=r"say both 10 and 5 of protocol\.step"):
        split_regimes(study(both))
    regimes = split_regimes(study(both, "protocol.step=2"))
    assert [each.set[Key("protocol", "step")] for each in regimes.values()] == ["2", "2"]


def test_the_budget_of_passes_goes_to_its_preset_alone() -> None:
    runs = resolve(study(FOUR, learners=("er",), budget_passes=7.5))
    assert [run.learner.settings.passes for run in runs] == [0, 0, 0, 7.5]
    with pytest.raises(UserError, match="for a preset that sets it: --preset equal-passes"):
        resolve(study("online", budget_passes=5.0))


@pytest.mark.parametrize("learner", ["exstream", "fearnet", "pathnet"])
def test_a_training_that_is_not_counted_is_refused(learner: str) -> None:
    with pytest.raises(UserError, match=f"{learner} has a training of its own"):
        resolve(study("equal-passes", learners=(learner,)))
    with pytest.raises(UserError, match=r"eeil\.passes would count one training"):
        resolve(study("equal-passes", learners=("eeil",)))


def test_icarls_order_by_name_is_that_of_the_order_file(tmp_path: Path) -> None:
    file = make_file(tmp_path, [4] * 8, [0] * 8, [2] * 8)
    mine = class_order("icarl1993", file, seed=5)
    written = make_order(file, "icarl1993", sessions=4)
    assert [file.classes[i] for i in mine] == list(written["order"])


def test_regimes_are_one_command_and_one_table(tmp_path: Path) -> None:
    path = make_file(tmp_path, [12] * 6, [0] * 6, [6] * 6, apart=4.0).path
    words = ["run", str(path), "--protocol", "incremental-class", "--preset", "pilot,online"]
    words += ["--learner", "ncm,slda", "--seeds", "0-1", "--out", str(tmp_path / "runs")]
    words += ["--set", "references=0", "--jobs", "1"]
    for name in ("base", "step"):
        words += ["--set", f"protocol.{name}=2"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    title, _, heads, *lines = done.stdout.splitlines()
    assert title.endswith("base=2 · step=2 · order icarl1993")
    assert heads.split() == ["learner", "pilot", "online"]
    assert {line.split()[0] for line in lines[:2]} == {"ncm", "slda"}
    assert all(line.count("[") == 2 for line in lines[:2])
    assert "no verdict is between regimes" in lines[-1]
    assert "preset pilot: PILOT's stream b0-inc10" in done.stderr

    rows = list(csv.DictReader(io.StringIO(CliRunner().invoke(app, [*words, "--csv"]).stdout)))
    scores = {}
    for record in (tmp_path / "runs").glob("*/*/seed-0/record.json"):
        r = json.loads(record.read_text())
        scores[r["protocol_params"]["loss"], r["learner"]] = r["metrics"]["final_accuracy"]
    for row in rows:  # both seeds give these learners the same answers
        for regime, loss in (("pilot", "seen"), ("online", "all")):
            assert float(row[regime]) == pytest.approx(scores[loss, row["learner"]])
    again = CliRunner().invoke(app, ["report", str(tmp_path / "runs"), "--by", "preset", "--csv"])
    by_name = {row["learner"]: row for row in csv.DictReader(io.StringIO(again.stdout))}
    del by_name["chance"]  # a reference, which `run` does not show
    assert by_name == {row["learner"]: row for row in rows}


def test_what_two_regimes_have_alike_is_run_once_and_is_of_both(tmp_path: Path) -> None:
    """`ncm` has no training to set; `er` has, so each regime has its own run."""
    command = "embedbench run a.h5 --preset {} --learner {} --seed 0"
    taught = {"batch_size": 64, "updates": 1, "passes": 0}
    made = {
        "s/ncm-1": ("online", "ncm", {}),
        "s/er-1": ("online", "er", taught),
        "s/er-2": ("equal-passes", "er", taught | {"passes": 20}),
        "t/ncm-1": ("pilot", "ncm", {}),
        "u/ncm-1": ("/some/file.toml", "ncm", {}),
    }
    runs = [
        (
            tmp_path / place / "seed-0",
            {"command": command.format(name, learner), "learner": learner}
            | {f"learner.{key}": value for key, value in settings.items()},
        )
        for place, (name, learner, settings) in made.items()
    ]
    runs.append((tmp_path / "s/lwf-1/seed-0", {"command": "", "learner": "lwf"}))
    places = {
        name: [place.parent.relative_to(tmp_path).as_posix() for place in each]
        for name, each in find_regimes(runs).items()
    }
    assert places == {
        "/some/file.toml": ["u/ncm-1"],
        "equal-passes": ["s/ncm-1", "s/er-2"],
        "online": ["s/ncm-1", "s/er-1"],
        "pilot": ["t/ncm-1"],
    }
