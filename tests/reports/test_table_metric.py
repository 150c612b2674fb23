"""The metric of a table: what is printed where classes differ in size, worked out by hand."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import embedbench
from file_helpers import says
from pinned_runs import write_run
from report_records import HEX, keep, make
from toy import predictions

from embedbench.errors import UserError
from embedbench.reports import score_figures
from embedbench.reports.html_report import render
from embedbench.reports.learner_colours import styles_in
from embedbench.reports.load_results import load_runs
from embedbench.reports.results import Results
from embedbench.reports.table_metric import choose_score, show_by
from embedbench.reports.tables_from_runs import collect, csv_rows, to_json
from embedbench.reports.terminal_tables import table_text
from embedbench.reports.verdict_sentence import verdict
from embedbench.scores.record_files import load
from embedbench.scores.run_record import RunRecord

# Session 0: six samples of class 0 and two of class 1; session 1: two of class 2.
TRUTH, GROUPS = [[0] * 6 + [1] * 2, [2] * 2], [[0, 1], [2]]
# After session 0: class 0 right, class 1 wrong. At the end: five of class 0, one of 1, one of 2.
COMMON = [[0] * 8 + [0] * 2, [0] * 5 + [2] + [1, 0] + [2, 0]]
# After session 0: two of six, and both. At the end: three of six, both, both.
FAIR = [[0, 0, 1, 1, 1, 1, 1, 1, 0, 0], [0, 0, 0, 1, 1, 1, 1, 1, 2, 2]]
WITHIN = [[0] * 6 + [0] * 2 + [2] * 2] * 2  # class 1 is taken for class 0
# base score → final values of `common` and `fair`
FINALS = {
    "accuracy": (0.7, 0.7),  # 7 of 10
    "class_accuracy": ((5 / 6 + 1 / 2 + 1 / 2) / 3, (1 / 2 + 1 + 1) / 3),
    "within_accuracy": (0.8, 0.8),
    "within_class_accuracy": (2 / 3, 2 / 3),
}
# the mean over both sessions: 6 of 8 and 4 of 8 after the first one
AVERAGES = {
    "accuracy": ((6 / 8 + 0.7) / 2, (4 / 8 + 0.7) / 2),
    "class_accuracy": ((1 / 2 + 11 / 18) / 2, (2 / 3 + 5 / 6) / 2),
}
HEADS = {
    "accuracy": "accuracy %",
    "class_accuracy": "class accuracy %",
    "within_accuracy": "within accuracy %",
    "within_class_accuracy": "within class accuracy %",
}


def put_run(root: Path, learner: str, answers: Any, *, seed: int = 0, **changes: Any) -> RunRecord:
    how: dict[str, Any] = {"learner": learner, "learns": learner != "chance", "n_classes": [2, 1]}
    how |= {"seed": seed, "seeds": dict.fromkeys(("order", "init", "batches", "memory"), seed)}
    p = predictions(TRUTH, answers, GROUPS, within=np.array(WITHIN))
    place, digests = f"stream-1/{learner}/seed-{seed}", HEX | {"train": f"{seed:064x}"}
    return write_run(root, place, p, **how, digests=digests, **changes)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two learners whose order depends on the metric, and drawn answers that are all wrong."""
    place = tmp_path_factory.mktemp("runs")
    put_run(place, "common", COMMON)
    put_run(place, "fair", FAIR)
    put_run(place, "chance", [[1] * 6 + [0] * 4, [1] * 6 + [2] * 2 + [0] * 2])
    return place


def test_a_table_is_of_accuracy_per_sample_where_nothing_is_said(root: Path) -> None:
    table = to_json(collect(root))["tables"][0]
    each = {row["learner"]: row["metrics"]["final_accuracy"]["mean"] for row in table["rows"]}
    assert table["score"] == "accuracy"
    assert each["common"] == 0.7
    assert each["fair"] == 0.7


@pytest.mark.parametrize("score", FINALS)
def test_a_base_score_is_that_of_all_numbers_of_a_table(root: Path, score: str) -> None:
    rows = {row.learner: row for row in collect(root, metrics=[score])}
    found = [rows[name].metrics["final_accuracy"].mean for name in ("common", "fair")]
    assert found == pytest.approx(FINALS[score])


@pytest.mark.parametrize("score", AVERAGES)
def test_aia_is_of_the_score_of_its_table(root: Path, score: str) -> None:
    rows = {row.learner: row for row in collect(root, metrics=[score])}
    metric = "average_incremental_accuracy"
    found = [rows[name].metrics[metric].mean for name in ("common", "fair")]
    assert found == pytest.approx(AVERAGES[score])


@pytest.mark.parametrize("score", FINALS)
def test_the_header_names_the_metric(root: Path, score: str) -> None:
    rows = collect(root, metrics=[score])
    header = table_text(rows).splitlines()[3]
    assert header.split("  ")[1:] != []
    assert [part for part in header.split("  ") if part][2].strip() == HEADS[score]


@pytest.mark.parametrize("form", ["--latex", "--markdown"])
def test_tables_to_paste_name_it_too(root: Path, form: str) -> None:
    done = embedbench("report", root, form, "--metric", "class_accuracy")
    assert "class accuracy" in next(x for x in done.stdout.splitlines() if "learner" in x)


def test_the_page_names_it_too(root: Path) -> None:
    text = render(collect(root, metrics=["class_accuracy"]), "runs")
    assert '<th scope="col">class accuracy\N{NO-BREAK SPACE}%</th>' in text


def test_csv_says_of_which_score_its_numbers_are(root: Path) -> None:
    lines = csv_rows(to_json(collect(root, metrics=["class_accuracy"])))
    found = {line["learner"]: (line["score"], line["final_accuracy"]) for line in lines}
    assert found["fair"] == ("class_accuracy", pytest.approx(5 / 6))


def test_ranks_are_by_the_metric(root: Path) -> None:
    done = embedbench("report", root, "--compare", "--metric", "class_accuracy", "--json")
    (study,) = json.loads(done.stdout)["studies"]
    first = study["learners"][0]
    assert study["score"] == "class_accuracy"
    assert first["learner"] == "fair"
    assert first["rank"] == 1


def test_the_verdict_names_the_metric(root: Path) -> None:
    assert "83.3 % mean per-class accuracy" in verdict(collect(root, metrics=["class_accuracy"]))


def test_a_figure_names_the_metric(root: Path) -> None:
    rows = collect(root, metrics=["class_accuracy"])
    axes = score_figures.trade_off(rows, styles_in(rows), 3.25).axes[0]
    assert axes.get_title(loc="left") == "mean per-class accuracy (%)"


def test_the_mean_over_classes_stands_beside_where_they_differ_in_size(root: Path) -> None:
    assert "accuracy %  class accuracy %  " in table_text(collect(root)).splitlines()[3]


def test_no_mean_over_classes_stands_beside_where_it_is_the_same(tmp_path: Path) -> None:
    keep(tmp_path, make())
    assert "class accuracy" not in table_text(collect(tmp_path))


def test_a_further_base_score_is_a_column(root: Path) -> None:
    rows = {r.learner: r for r in collect(root, metrics=["class_accuracy", "within_accuracy"])}
    assert rows["fair"].number("within_accuracy").mean == 0.8


def test_two_base_scores_are_not_compared(root: Path) -> None:
    words = ("--compare", "--metric", "accuracy", "--metric", "class_accuracy")
    assert isinstance(embedbench("report", root, *words).exception, UserError)


@pytest.mark.parametrize(
    ("name", "metric"),
    [("A_last", "final_accuracy"), ("A_avg", "average_incremental_accuracy")],
)
def test_names_that_papers_have_are_metrics(root: Path, name: str, metric: str) -> None:
    found = embedbench("report", root, "--compare", "--metric", name, "--json")
    (study,) = json.loads(found.stdout)["studies"]
    assert study["metric"] == metric


def test_the_columns_say_the_names_that_papers_have(root: Path) -> None:
    legend = table_text(collect(root)).splitlines()[-1]
    words = "accuracy: of all test samples, at the end (A_last) · AIA: average incremental accuracy"
    assert f"{words}, over sessions (A_avg)" in legend


@pytest.mark.parametrize(
    ("name", "near"),
    [("acuracy", "accuracy"), ("class_acc", "class_accuracy"), ("A_lst", "A_last")],
)
def test_a_name_that_is_nearly_right_is_suggested(root: Path, name: str, near: str) -> None:
    with pytest.raises(UserError, check=says(what="unknown metric", got=name, expected=near)):
        collect(root, metrics=[name])


def test_a_score_that_runs_do_not_have_is_refused(root: Path) -> None:
    with pytest.raises(UserError, check=says(got="pw_js")):
        collect(root, metrics=["pw_js"])


def test_what_a_record_says_keeps_its_meaning(root: Path) -> None:
    kept = load(root / "stream-1" / "fair" / "seed-0")
    assert kept.score == "class_accuracy"
    assert kept.metrics["final_accuracy"] == 5 / 6


def test_a_base_score_by_its_name_has_the_verdicts_of_its_table(root: Path) -> None:
    """In Python: the test sample's share is in them, too."""
    names = {"learner": ["common", "fair"]}
    rows = load_runs(root, notify=pytest.fail).where(names).results()
    shown = Results(
        tuple(one for row in collect(root, metrics=["accuracy"]) for one in row.results)
    )
    mine, of_table = rows.verdicts("accuracy"), shown.where(names).verdicts("final_accuracy")
    assert [v and v.detectable for v in mine.rows] == [v and v.detectable for v in of_table.rows]


# --- what runs were made to show ---


def test_runs_of_a_preset_are_shown_by_its_metric(tmp_path: Path) -> None:
    put_run(tmp_path, "fair", FAIR, metric="class_accuracy")
    assert collect(tmp_path)[0].group.score == "class_accuracy"


def test_runs_that_were_made_to_show_different_metrics_show_the_usual_one(tmp_path: Path) -> None:
    put_run(tmp_path, "fair", FAIR, metric="class_accuracy")
    put_run(tmp_path, "common", COMMON)
    group = collect(tmp_path)[0].group
    note = "runs were made to be shown by accuracy and by class_accuracy; --metric chooses"
    assert group.score == "accuracy"
    assert note in group.notes


def test_chance_has_no_say_in_what_is_shown() -> None:
    learner = replace(RunRecord.from_json(make()), metric="class_accuracy")
    guess = RunRecord.from_json(make("chance"))
    assert choose_score([guess, learner]) == "class_accuracy"


def test_label_sets_are_shown_by_their_own_score() -> None:
    made = make()
    by_score = dict.fromkeys(("pw_js", "js"), made["by_score"]["accuracy"])
    assert choose_score([RunRecord.from_json(made | {"score": "pw_js", "by_score": by_score})]) == (
        "pw_js"
    )


def test_metrics_of_answers_stay_with_any_score() -> None:
    run = RunRecord.from_json(make())
    run = replace(run, metrics={**run.metrics, "nll": 1.5})
    assert show_by(run, "accuracy").metrics["nll"] == 1.5


# --- chance is one number ---


def test_the_row_of_chance_has_what_guessing_scores_on_average(root: Path) -> None:
    chance = next(row for row in collect(root) if row.learner == "chance")
    assert chance.metrics["final_accuracy"].mean == pytest.approx(1 / 3)


def test_the_row_of_chance_counts_no_runs_and_has_no_interval(root: Path) -> None:
    line = next(x for x in table_text(collect(root)).splitlines() if x.startswith("chance"))
    assert line.split()[:3] == ["chance", "–", "33.3"]


def test_nothing_is_said_of_drawn_answers(root: Path) -> None:
    assert "drawn" not in table_text(collect(root))


@pytest.mark.parametrize(
    ("score", "level"),
    [
        # of ten samples eight are guessed among two candidates, two among one
        ("accuracy", (8 / 2 + 2 / 1) / 10),
        ("class_accuracy", (1 / 2 + 1 / 2 + 1) / 3),
        ("within_accuracy", (8 / 2 + 2 / 1) / 10),
        ("within_class_accuracy", (1 / 2 + 1 / 2 + 1) / 3),
    ],
)
def test_chance_is_one_number_where_candidates_differ(
    tmp_path: Path, score: str, level: float
) -> None:
    candidates = [2, 1]
    put_run(tmp_path, "fair", FAIR, n_candidates=candidates)
    group = collect(tmp_path, metrics=[score])[0].group  # without a run of chance
    put_run(tmp_path, "chance", COMMON, n_candidates=candidates)
    rows = collect(tmp_path, metrics=[score])
    of_row = next(row for row in rows if row.learner == "chance").metrics["final_accuracy"].mean
    assert [group.chance, rows[0].group.chance, of_row] == pytest.approx([level] * 3)


def test_raa_of_guessing_is_chance_at_every_session(root: Path) -> None:
    chance = next(row for row in collect(root) if row.learner == "chance")
    assert chance.number("raa").mean == pytest.approx(1 / 3)
