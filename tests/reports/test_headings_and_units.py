"""How rows and columns of code from outside are called in tables."""

from pathlib import Path

import pytest
from command_line import embedbench
from report_records import keep, make

from embedbench.reports.headings_and_units import heading, metric_name
from embedbench.reports.tables_from_runs import collect, to_json


def labels(root: Path, *learners: str) -> list[str]:
    for i, name in enumerate(learners):
        keep(root, make(name, 0, 0.8 - i / 10), row=f"row-{i}")
    return [row.label for row in collect(root)]


def test_a_learner_of_a_module_is_called_by_its_class(tmp_path: Path) -> None:
    assert labels(tmp_path, "rmlp:ReplayMLP", "ncm") == ["ReplayMLP", "ncm"]


@pytest.mark.parametrize("pair", [("a:Net", "b:Net"), ("mine:NCM", "ncm")])
def test_two_of_one_name_keep_their_modules(tmp_path: Path, pair: tuple[str, str]) -> None:
    assert labels(tmp_path, *pair) == list(pair)


def test_json_keeps_the_name_that_runs_take(tmp_path: Path) -> None:
    labels(tmp_path, "rmlp:ReplayMLP", "ncm")
    assert to_json(collect(tmp_path))["tables"][0]["rows"][0]["learner"] == "rmlp:ReplayMLP"


@pytest.mark.parametrize(
    ("name", "head"), [("mine:drop_of_base", "drop of base %"), ("bwt", "BWT %")]
)
def test_a_metric_of_a_module_is_headed_by_its_function(name: str, head: str) -> None:
    assert heading(name) == head


@pytest.mark.parametrize(
    ("name", "words"), [("mine:drop_of_base", "drop of base"), ("hacc", "harmonic mean")]
)
def test_a_metric_in_words(name: str, words: str) -> None:
    assert metric_name(name) == words


def test_a_comparison_says_possible_ranks(tmp_path: Path) -> None:
    labels(tmp_path, "rmlp:ReplayMLP", "ncm")
    lines = embedbench("report", tmp_path, "--compare").stdout.splitlines()
    assert next(line for line in lines if "possible ranks" in line).startswith("learner")


def test_a_metric_that_is_asked_for_is_explained(tmp_path: Path) -> None:
    labels(tmp_path, "ncm", "mlp")
    legend = embedbench("report", tmp_path, "--metric", "fwt").stdout.splitlines()[-1]
    assert "FWT: mean over later sessions of the score just before learning minus chance" in legend
