"""Tables of few-shot streams, and old and new classes apart in any: numbers counted by hand."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import embedbench
from pinned_runs import write_run
from report_records import HEX
from toy import predictions

from embedbench.reports.html_report import render
from embedbench.reports.tables_from_runs import collect, csv_rows, to_json
from embedbench.reports.terminal_tables import choose_columns, table_text

# Four base samples of two classes, three novel ones of class 2 and one of class 3.
TRUTH, GROUPS = [[0, 0, 0, 1], [2, 2, 2], [3]], [[0, 1], [2], [3]]
WITHIN = np.array([[0, 0, 0, 1, 2, 2, 2, 3]] * 3)
ANSWERS = [[0, 0, 0, 1, 0, 0, 0, 0], [0] * 8, [0, 0, 3, 3, 2, 0, 0, 3]]
FEW_SHOT = {  # per sample
    "base_accuracy": 2 / 4,
    "novel_accuracy": 2 / 4,
    "hacc": 2 / 4,
    "performance_drop": 4 / 4 - 4 / 8,
}
BY_CLASS = {"base_accuracy": 1 / 3, "novel_accuracy": 2 / 3, "hacc": 4 / 9}
HEADS = ["base accuracy %", "novel accuracy %", "harmonic mean %", "PD %", "gAcc %"]


def put_run(root: Path, learner: str, answers: Any, protocol: str) -> None:
    how: dict[str, Any] = {"learner": learner, "learns": learner != "chance", "digests": HEX}
    p = predictions(TRUTH, answers, GROUPS, within=WITHIN)
    how |= {"n_classes": [2, 1, 1], "protocol": protocol}
    write_run(root, f"stream-1/{learner}/seed-0", p, **how)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("few")
    put_run(place, "one", ANSWERS, "fscil")
    put_run(place, "chance", [[1] * 8, [2] * 8, [3] * 8], "fscil")
    return place


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("other")
    put_run(place, "one", ANSWERS, "incremental-class")
    return place


def metrics(root: Path, learner: str, *names: str) -> dict[str, float]:
    rows = {row.learner: row for row in collect(root, metrics=names)}
    return {name: stat.mean for name, stat in rows[learner].metrics.items()}


def test_a_table_has_what_papers_on_few_shot_streams_print(root: Path) -> None:
    heads = table_text(collect(root)).splitlines()[3]
    at = [heads.find(head) for head in HEADS]
    assert at == sorted(at)
    assert at[0] > 0


@pytest.mark.parametrize("name", FEW_SHOT)
def test_its_numbers_are_per_sample(root: Path, name: str) -> None:
    assert metrics(root, "one")[name] == pytest.approx(FEW_SHOT[name])


@pytest.mark.parametrize("name", BY_CLASS)
def test_its_numbers_are_by_the_score_of_the_table(root: Path, name: str) -> None:
    found = metrics(root, "one", "class_accuracy")[name]
    assert found == pytest.approx(BY_CLASS[name])


def test_its_gacc_is_the_mean_over_the_sessions(root: Path) -> None:
    # r = 2; at α = 0, 1/2, 1: 0, 1, 1; 0, 3/8, 1/2; and (1/3 + 1)/2, (1/2 + 4/3)/3, (1 + 4/3)/4
    areas = [3 / 4, (0 + 2 * 3 / 8 + 1 / 2) / 4, (2 / 3 + 2 * 11 / 18 + 7 / 12) / 4]
    assert metrics(root, "one")["gacc"] == pytest.approx(np.mean(areas))


def test_chance_has_what_guessing_scores_there_too(root: Path) -> None:
    assert metrics(root, "chance")["base_accuracy"] == pytest.approx(1 / 4)


@pytest.mark.parametrize("name", [*FEW_SHOT, "gacc"])
def test_csv_and_json_have_them(root: Path, name: str) -> None:
    assert csv_rows(to_json(collect(root)))[0][name] is not None


def test_the_page_has_them(root: Path) -> None:
    assert "harmonic mean" in render(collect(root), "runs")


def test_the_integral_stands_in_where_the_sum_of_the_paper_is_not_defined(tmp_path: Path) -> None:
    p = predictions(
        [[0, 0], [1, 2]], [[0] * 4, [0, 0, 1, 1]], [[0], [1, 2]], within=[[0, 0, 1, 2]] * 2
    )
    write_run(tmp_path, "stream-1/one/seed-0", p, protocol="fscil", learner="one", digests=HEX)
    assert [c for c in choose_columns(collect(tmp_path)[0].group) if "gacc" in c] == ["gacc_exact"]


def test_a_stream_without_later_sessions_of_few_samples_has_none_of_them(other: Path) -> None:
    assert "harmonic" not in table_text(collect(other))


OLD_AND_NEW = {"old_accuracy": 3 / 7, "new_accuracy": 1.0, **FEW_SHOT}


@pytest.mark.parametrize("name", OLD_AND_NEW)
def test_old_and_new_classes_stand_apart_where_it_is_asked(other: Path, name: str) -> None:
    assert metrics(other, "one", name)[name] == pytest.approx(OLD_AND_NEW[name])


def test_their_csv_has_both(other: Path) -> None:
    words = ["--metric", "old_accuracy", "--metric", "new_accuracy", "--csv"]
    heads = embedbench("report", other, *words).stdout.splitlines()[0].split(",")
    assert {"old_accuracy", "new_accuracy"} <= {*heads}


def test_pd_is_better_where_it_is_lower(tmp_path: Path) -> None:
    put_run(
        tmp_path,
        "steady",
        [ANSWERS[0], [0, 0, 0, 1, 0, 0, 0, 0], [0, 0, 0, 1, 2, 2, 0, 3]],
        "fscil",
    )
    put_run(tmp_path, "falls", ANSWERS, "fscil")
    done = embedbench("report", tmp_path, "--compare", "--metric", "PD", "--json")
    (study,) = json.loads(done.stdout)["studies"]
    assert study["learners"][0]["learner"] == "steady"
