"""The learner behind α_ideal is named: in a run's place, record and table, and on a board."""

from pathlib import Path

import pytest
from packs import edited_record, runs_of
from protocol_files import make_file
from typer.testing import CliRunner

from embedbench.cli.app import app
from embedbench.errors import UserError
from embedbench.scores import record_files
from embedbench.scores.label_set_predictions import load_any
from embedbench.scores.single_label_scores import score_matrix
from embedbench.sharing.board import board
from embedbench.sharing.pack import pack

SMALL = ("units=2", "batch_size=64", "stop.rule=epochs", "stop.epochs=1")
WORDS = [word for item in SMALL for word in ("--set", f"offline.mlp.{item}")]


def call(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(done.exception, UserError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("name", ["mlp", "linear", "slda"])
def test_a_record_and_its_table_name_the_reference(tmp_path: Path, name: str) -> None:
    file = make_file(tmp_path, [40] * 4, [0] * 4, [30] * 4, apart=2.0)
    command = ["run", file.path, "--protocol", "incremental-class", "--learner", "ncm,slda"]
    command += ["--seed", "0", "--out", tmp_path / "runs"]
    named = {"linear": "offline.mlp.trunk=linear", "slda": "offline.learner=slda"}
    command += ["--set", named.get(name, "offline.learner=mlp")]
    text = call(*command, *WORDS)
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


def test_a_board_ranks_runs_with_a_named_reference(tmp_path: Path) -> None:
    """Its run is in the pack; a record that names another learner than that run is not ranked."""
    runs = runs_of(tmp_path, **{"offline.learner": "slda"})
    packed = tmp_path / "a.zip"
    pack(runs, packed)
    made = board([packed], [tmp_path / "e.h5"])
    assert [s.unranked for s in made.submissions] == [()]
    assert all(e.verdict for e in made.streams[0].entries if e.learns)

    def rename(values: dict[str, dict[str, str]]) -> None:
        assert values["reference"]["learner"] == "slda"
        values["reference"]["learner"] = "linear"

    lied = edited_record(packed, tmp_path / "b.zip", "ncm", rename)
    (one,) = board([lied], [tmp_path / "e.h5"]).submissions[0].unranked
    assert "its references are not offline and chance runs" in one.reason
    assert one.to_json()["learner"] == "ncm"
