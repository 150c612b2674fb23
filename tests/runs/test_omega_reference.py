"""The learner behind α_ideal is named: in a run's record and table."""

from pathlib import Path

import pytest
from commands import Call
from protocol_files import make_file

from embedbench.scores import record_files
from embedbench.scores.label_set_predictions import load_any
from embedbench.scores.single_label_scores import score_matrix

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
    ideal = score_matrix(load_any(at / "predictions.h5")).pooled[-1]
    assert {r.reference.learner for r in made} == {None if name == "mlp" else name}
    assert all(r.ideals == (pytest.approx(ideal),) for r in made)
    params = record_files.load(at).learner_params
    learner, trunk = ("slda", "mlp") if name == "slda" else ("mlp", name)
    assert (params["learner"], params["mlp"]["trunk"]) == (learner, trunk)
    assert f"offline (α_ideal): {name} on all data at once, {100 * ideal:.1f} %" in text
    weak = f"the reference of Ω ({name}, {100 * ideal:.1f} %) is weak here: ncm"
    assert (weak in text) == (name != "slda")  # the others learned for one epoch
