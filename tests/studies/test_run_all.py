"""`run_all`: what a notebook gets is what the commands make, to the byte."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import embedbench
from file_helpers import says
from protocol_files import make_file

from embedbench import run_all
from embedbench.api import make_learner
from embedbench.errors import UserError
from embedbench.files.embedding_file import EmbeddingFile
from embedbench.protocols.incremental_class import IncrementalClass
from embedbench.reports.figure_style import render_figure
from embedbench.scores.predictions import Predictions
from embedbench.studies.run_all import StudyResults

SETTINGS: dict[str, Any] = {
    "protocol.base": 2,
    "protocol.order": "random",
    "mlp.lr": 0.05,
    "mlp.stop.epochs": 30,
    "references": 1,
    "offline.learner": "slda",
}
WORDS = ("--protocol", "incremental-class", "--learner", "ncm,mlp", "--seeds", "0-1", "--quiet")
SET = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
NOTEBOOK = Path(__file__).parents[2] / "docs" / "tutorials" / "from_file_to_figure.ipynb"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_file(tmp_path_factory.mktemp("file"), (6,) * 4, test=(5, 3, 7, 9), apart=2.0).path


@pytest.fixture(scope="module")
def commands(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of the command line."""
    out = tmp_path_factory.mktemp("commands") / "runs"
    assert embedbench("run", file, *WORDS, *SET, "--out", out).exit_code == 0
    return out


@pytest.fixture(scope="module")
def results(file: Path) -> StudyResults:
    return run_all(file, "incremental-class", ["ncm", "mlp"], range(2), settings=SETTINGS)


def test_rows_have_the_names_that_are_given(file: Path, commands: Path) -> None:
    names = {"mlp": "Fine-tuning"}
    made = run_all(
        *(file, "incremental-class", ["ncm", "mlp"], [0, 1], commands),
        settings=SETTINGS,
        names=names,
    )
    assert "\nFine-tuning " in repr(made)


def answers(runs: Path) -> dict[str, bytes]:
    """Directory → bytes of the answers, of all runs and their references."""
    found = runs.rglob("predictions.h5")
    return {path.parent.relative_to(runs).as_posix(): path.read_bytes() for path in found}


def test_saved_runs_are_those_of_the_command_to_the_byte(
    results: StudyResults, commands: Path, tmp_path: Path
) -> None:
    saved, made = answers(results.save(tmp_path / "saved")), answers(commands)
    assert saved == made
    assert len(made) == 2 * 3 + 1  # ncm, mlp and chance, and the reference of both orders


def test_runs_of_out_are_those_of_the_command_to_the_byte(
    file: Path, commands: Path, tmp_path: Path
) -> None:
    run_all(file, "incremental-class", "ncm,mlp", "0-1", tmp_path / "runs", settings=SETTINGS)
    assert answers(tmp_path / "runs") == answers(commands)


def test_finished_runs_of_out_are_kept_and_said(file: Path, tmp_path: Path, commands: Path) -> None:
    said = list[str]()
    run_all(
        *(file, "incremental-class", ["ncm", "mlp"], [0, 1], commands),
        settings=SETTINGS,
        notify=said.append,
    )
    assert said == ["7 finished runs were there and are kept"]


def test_the_command_in_a_record_makes_that_run(
    results: StudyResults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = results.runs.where(learner="mlp", seed=1)
    monkeypatch.chdir(tmp_path)
    words = run.record.command.split()
    assert words[:2] == ["embedbench", "run"]
    assert embedbench(*words[1:]).exit_code == 0
    again = (tmp_path / "runs" / run.name / "predictions.h5").read_bytes()
    assert again == (run.place / "predictions.h5").read_bytes()


def test_the_table_has_the_verdict_of_the_report(results: StudyResults, commands: Path) -> None:
    (table,) = json.loads(embedbench("report", commands, "--json").stdout)["tables"]
    assert f"verdict: {table['verdict']}" in results._repr_html_()
    assert results.verdict == table["verdict"]


def test_the_table_has_the_mean_of_the_answers(results: StudyResults) -> None:
    each = []
    for run in results.runs.where(learner="mlp"):
        told = run.predictions()
        assert isinstance(told, Predictions)
        each.append(np.mean(told.answer[-1] == told.y))
    assert each[0] != each[1]
    (line,) = re.findall(r"<tr><td[^>]*>mlp</td>.*", results._repr_html_())
    assert f">{100 * np.mean(each):.1f} ±" in line


def test_text_is_the_table_of_the_report(results: StudyResults, commands: Path) -> None:
    (lines, shown) = (
        [line for line in text.splitlines() if line.startswith("chance ")]
        for text in (embedbench("report", commands).stdout, repr(results))
    )
    assert [line.split()[:4] for line in shown] == [line.split()[:4] for line in lines]


def test_the_figure_is_that_of_the_report(
    results: StudyResults, commands: Path, tmp_path: Path
) -> None:
    out = tmp_path / "curves.svg"
    assert embedbench("report", commands, "--figure", "curves", "--out", out).exit_code == 0
    (axes,) = results.plot().axes
    assert axes.get_xlabel() == "after session"
    assert render_figure(results.plot(), "svg") == out.read_bytes()


def test_a_notebook_draws_the_figure_without_pyplot(results: StudyResults) -> None:
    assert results.plot()._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]


def test_ranks_are_those_of_compare(results: StudyResults, commands: Path) -> None:
    (study,) = json.loads(embedbench("report", commands, "--compare", "--json").stdout)["studies"]
    ranks = [(row["learner"], row["rank"]) for row in results.ranks()]
    assert ranks == [(row["learner"], row["rank"]) for row in study["learners"]]


def test_a_data_frame_has_a_row_for_each_run(results: StudyResults) -> None:
    frame = results.to_pandas()
    rows = [(name, seed) for name in ("chance", "mlp", "ncm") for seed in (0, 1)]
    assert list(zip(frame["learner"], frame["seed"], strict=True)) == rows


def test_a_data_frame_of_means_has_the_mean_of_the_runs(results: StudyResults) -> None:
    runs, means = results.to_pandas(), results.to_pandas(means=True)
    mean = runs[runs["learner"] == "mlp"]["final_accuracy"].mean()
    shown = means[means["learner"] == "mlp"]["final_accuracy"].item()
    assert isinstance(means, pd.DataFrame)
    assert shown == pytest.approx(mean)


def test_the_results_of_runs_have_the_score_of_the_table(results: StudyResults) -> None:
    (shown,) = results.to_pandas(means=True).query("learner == 'mlp'")["final_accuracy"]
    of_mlp = results.results().where(learner="mlp")
    (row,) = of_mlp.mean("final_accuracy").to_rows("final_accuracy")
    assert row["value"] == pytest.approx(shown)


def test_the_matrix_of_a_run_has_the_score_of_the_table(results: StudyResults) -> None:
    run = results.runs.where(learner="mlp")[0]
    answers = run.predictions()
    assert isinstance(answers, Predictions)
    right = answers.answer[-1] == answers.y
    assert run.matrix().pooled[-1] == pytest.approx(right.mean())


def test_the_verdict_names_what_the_largest_class_alone_has(results: StudyResults) -> None:
    assert "chance: 25.0 %, the largest class always: 37.5 %)" in results.verdict  # 9 of 24


def test_an_opened_known_file_keeps_its_name(tmp_path: Path) -> None:
    opened = EmbeddingFile.open("known:emoji-vit")
    few = {"protocol.classes": 4, "protocol.base": 2, "references": 0}
    made = run_all(opened, "incremental-class", "ncm", settings=few)
    assert made.runs[0].record.command.startswith("embedbench run known:emoji-vit --protocol")


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"learners": [make_learner("ewc")]}, {"what": "learners of run_all"}),
        ({"learners": []}, {"what": "learners of run_all", "got": []}),
        ({"protocol": IncrementalClass(base=2)}, {"what": "protocol of run_all"}),
        ({"learners": "ewcc"}, {"what": "unknown learner", "expected": "ewc"}),
        ({"seed": 3}, {"what": "unknown argument of run_all", "expected": "seeds"}),
        ({"seeds": "1-"}, {"what": "--seeds", "got": "1-"}),
        ({"settings": {"mlp.lrr": 1}}, {"what": "unknown setting of mlp", "expected": "lr"}),
        ({"jobs": 0}, {"got": "0"}),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    file: Path, changes: dict[str, Any], fields: dict[str, Any]
) -> None:
    given = {"protocol": "incremental-class", "learners": "mlp"} | changes
    with pytest.raises(UserError, check=says(**fields)):
        run_all(file, **given)


def test_a_learner_that_fails_leaves_the_others(file: Path) -> None:
    said = list[str]()
    made = run_all(
        *(file, "incremental-class", ["ncm", "leaving:Leaves"]),
        settings={"protocol.base": 2, "references": 0},
        names={"offline": "Joint"},
        notify=said.append,
    )
    assert len(made.failed) == 1
    assert said == [f"failed: {made.failed[0]}", "no row is called offline"]


def test_no_file_is_no_study() -> None:
    with pytest.raises(UserError, match=r"^run_all needs a file; give its path or its name$"):
        run_all([], "incremental-class", "mlp")


def test_a_study_of_which_every_run_fails_is_refused(file: Path) -> None:
    with pytest.raises(UserError, match=r"^no run was made: failed: leaving:Leaves seed 0: "):
        run_all(file, "incremental-class", "leaving:Leaves", settings={"references": 0})


@pytest.mark.thorough
def test_the_notebook_runs_and_its_runs_are_those_of_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert len(cells) == 10
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    words = ["--set", "protocol.step=10", "--order", "random", "--seeds", "0-2", "--quiet"]
    command = ["run", "known:emoji-vit", "--protocol", "incremental-class", *words]
    assert embedbench(*command, "--learner", "ncm,slda,mlp", "--out", "made").exit_code == 0
    assert answers(tmp_path / "runs") == answers(tmp_path / "made")
    assert (tmp_path / "curves.pdf").read_bytes().startswith(b"%PDF")
