"""The offline learners behind Ω, of all data and of the data so far, in records and tables."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Call
from file_helpers import says
from plan_runs import plan
from protocol_files import make_file

from embedbench.errors import UserError
from embedbench.runs.grid_scheduler import run_grid
from embedbench.scores import record_files
from embedbench.scores.label_set_predictions import load_any
from embedbench.scores.verified_records import rescore

SMALL = ("units=2", "batch_size=64", "stop.rule=epochs", "stop.epochs=1")
WORDS = [word for item in SMALL for word in ("--set", f"offline.mlp.{item}")]


@pytest.mark.parametrize("name", ["mlp", "linear", "slda"])
def test_a_record_and_its_table_name_the_reference(tmp_path: Path, call: Call, name: str) -> None:
    file = make_file(tmp_path, [40] * 4, [0] * 4, [30] * 4, apart=2.0)
    command = ["run", file.path, "--protocol", "incremental-class", "--learner", "ncm,slda"]
    command += ["--seed", "0", "--out", tmp_path / "runs"]
    named = {"linear": "offline.mlp.trunk=linear", "slda": "offline.learner=slda"}
    command += ["--set", named.get(name, "offline.learner=mlp")]
    text = call(*command, *WORDS).out
    made = [record_files.load(p) for p in record_files.find(tmp_path / "runs") if "ncm" in str(p)]
    (offline,) = {run for r in made for run in r.reference.offline_runs}
    at = tmp_path / "runs" / offline
    ideal = load_any(at / "predictions.h5").score_matrix().pooled[-1]
    assert {r.reference.learner for r in made} == {None if name == "mlp" else name}
    assert all(r.ideals == (pytest.approx(ideal),) for r in made)
    params = record_files.load(at).learner_params
    learner, trunk = ("slda", "mlp") if name == "slda" else ("mlp", name)
    assert (params["learner"], params["mlp"]["trunk"]) == (learner, trunk)
    assert f"offline (α_ideal): {name} on all data at once, {100 * ideal:.1f} %" in text
    weak = f"the reference of Ω ({name}, {100 * ideal:.1f} %) is weak here: ncm"
    assert (weak in text) == (name != "slda")  # the others learned for one epoch
    numbers = re.findall(r"weak here: (ncm is|ncm, slda are|slda, ncm are) above it by", text)
    assert len(numbers) == (name != "slda")


SETTINGS = (
    *("offline.mlp.units=8", "offline.mlp.stop.rule=epochs", "offline.mlp.stop.epochs=3"),
    *("protocol.ordering=class-iid", "protocol.sessions=3", "protocol.evaluate_every=4"),
    "protocol.scale=none",
)


def pooled(place: Path) -> list[float]:
    scores = load_any(place / "predictions.h5").score_matrix()
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
        assert made.reference.ideal["class_accuracy"] == pytest.approx(ideals)
        shares = np.array(pooled(place)) / ideals
        assert made.metrics["omega_streaming"] == pytest.approx(shares.mean())
        later = np.array(pooled(place))[1:] / ideals[-1]
        assert made.metrics["omega_all"] == pytest.approx(later.mean())
        assert made.ideals == (pytest.approx(ideals[-1]),)
        assert len(made.moments.pooled) > 3  # type: ignore[union-attr]  # evaluated in between, too
        checked = rescore(place, runs)
        assert checked.agrees
        assert not checked.new
    assert len(firsts) == 2  # another order of the classes has other references


# --- the reference that validation chooses ---


def test_a_record_names_the_learner_that_validation_chose(tmp_path: Path, call: Call) -> None:
    file = make_file(tmp_path, [40] * 4, [0] * 4, [30] * 4, apart=2.0)
    command = ["run", file.path, "--protocol", "incremental-class", "--learner", "ncm"]
    text = call(*command, "--seed", "0", "--out", tmp_path / "runs").out
    (place,) = (p for p in record_files.find(tmp_path / "runs") if "ncm" in str(p))
    reference = record_files.load(place).reference
    (offline,) = reference.offline_runs
    log = record_files.load(tmp_path / "runs" / str(offline)).sessions[0].log
    best = max(log["judged"].values())
    assert log["judged"][log["learner"]] == best
    assert reference.learner == "best"
    assert reference.chosen == log["learner"]
    assert f"offline (α_ideal): best ({log['learner']}) on all data at once" in text
    assert rescore(place, tmp_path / "runs").agrees
    text = (place / "record.json").read_text()
    other = "ranpac" if log["learner"] == "mlp" else "mlp"
    forged = text.replace(f'"chosen": "{log["learner"]}"', f'"chosen": "{other}"')
    (place / "record.json").write_text(forged)
    assert not rescore(place, tmp_path / "runs").agrees


@pytest.mark.thorough
def test_a_record_names_each_learner_that_validation_chose(tmp_path: Path) -> None:
    file = make_file(tmp_path, [9] * 4, [0] * 4, [4] * 4, apart=2.0)
    runs = tmp_path / "runs"
    settings = [*SETTINGS, "offline.learner=best"]
    (place,) = run_grid(plan([str(file.path)], "instance", ["ncm"], [0], settings), runs).run_dirs
    reference = record_files.load(place).reference
    logs = [record_files.load(runs / run[0]).sessions[0].log for run in reference.offline_runs]
    assert reference.chosen == ", ".join(dict.fromkeys(log["learner"] for log in logs))


def reference_of(*items: str) -> Any:
    (run,) = plan(["a.h5"], "incremental-class", ["ncm"], [0], items)
    return run.offline


@pytest.mark.parametrize("validation", ["none", "test"])
def test_without_validation_samples_the_reference_is_the_mlp_in_its_old_place(
    validation: str,
) -> None:
    items = [f"protocol.validation={validation}"]
    assert reference_of(*items) == reference_of("offline.learner=mlp")


@pytest.mark.parametrize("validation", ["none", "test"])
def test_best_is_refused_without_validation_samples(validation: str) -> None:
    with pytest.raises(
        UserError,
        check=says(
            what="offline.learner=best is chosen by validation samples, and protocol.validation="
            f"{validation} leaves none for it"
        ),
    ):
        reference_of(f"protocol.validation={validation}", "offline.learner=best")


def test_who_sets_the_mlp_has_it_in_its_old_place() -> None:
    named = reference_of("offline.mlp.units=9", "offline.learner=mlp")
    assert reference_of("offline.mlp.units=9").identity == named.identity


@pytest.mark.parametrize("name", ["kemker", "kemker-50k", "pilot", "iirc", "online-images"])
def test_presets_of_papers_have_their_mlp(name: str) -> None:
    (run,) = plan(["a.h5"], "incremental-class", ["er"], [0], preset=name)
    assert run.offline.settings.learner == "mlp"


def test_old_runs_keep_their_reference_when_the_command_is_given_again(tmp_path: Path) -> None:
    """A directory of runs made before is finished, and its records stay as they are."""
    file = make_file(tmp_path, [9] * 4, [0] * 4, [4] * 4, apart=2.0)
    runs, files = tmp_path / "runs", [str(file.path)]
    (place,) = run_grid(
        plan(files, "incremental-class", ["ncm"], [0], ["offline.learner=mlp"]), runs
    ).run_dirs
    before = (place / "record.json").read_bytes()
    run_grid(plan(files, "incremental-class", ["ncm"], [0]), runs)
    assert (place / "record.json").read_bytes() == before
    assert len(list((runs / "references").iterdir())) == 1
