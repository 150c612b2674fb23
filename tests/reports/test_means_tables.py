"""Printed tables alone: what is said of them, as `report table.csv` prints it."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import embedbench

from embedbench.errors import UserError
from embedbench.reports.comparison_tables import TableView
from embedbench.reports.results_beside import TableChoice, tables_of_files
from embedbench.text.terminal_text import render_text
from embedbench.zoo.zoo_entries import read_zoo

PRINTED = Path(__file__).parent / "printed"
HEAD = "method,mean,±,n,± is\n"


def views_of(path: Path, **wanted: Any) -> list[TableView]:
    return tables_of_files([path], TableChoice(**wanted), lambda _: None)


def view_of(folder: Path, text: str, **wanted: Any) -> TableView:
    (folder / "table.csv").write_text(text, encoding="utf-8")
    (made,) = views_of(folder / "table.csv", **wanted)
    return made


def verdict(folder: Path, text: str) -> str:
    return str(view_of(folder, text).data["verdict"])


def test_a_table_without_spreads_decides_nothing() -> None:
    (made,) = views_of(PRINTED / "kemker-cub.csv")
    begin = "no spread is printed: no difference can be called decided"
    assert made.data["verdict"] == f"{begin} (GeppNet+STM has the highest mean, 62.6)"


def test_the_bold_row_of_a_table_may_be_level() -> None:
    """Co2L is printed in bold: 65.57 ± 1.37 beside 64.88 ± 1.17 of DER++, ten runs each."""
    (made,) = views_of(PRINTED / "co2l-cifar10-class-200.csv")
    assert made.data["verdict"].endswith("are behind; DER++ may be level")


def test_undecided_pairs_are_listed() -> None:
    """By hand, ten runs of five rows: t(.99, 9) = 2.821438; LUCIR 27.2 ± 2.7, LwF 24.8 ± 2.6."""
    (made,) = views_of(PRINTED / "masana-random-10.csv")
    assert made.data["undecided"] == [["BiC", "IL2M"], ["LUCIR", "LwF"]]


def test_a_bound_by_hand() -> None:
    """iCaRL 33.8 ± 3.7 is behind BiC 39.3 ± 1.9 by more than 5.5 - 2.821438 √((3.7² + 1.9²)/10)."""
    (made,) = views_of(PRINTED / "masana-random-10.csv")
    row = next(row for row in made.data["rows"] if row["method"] == "iCaRL")
    least = 5.5 - 2.821438 * ((3.7**2 + 1.9**2) / 10) ** 0.5 - 0.1  # means are printed to .1
    assert row["behind_by_least"] == pytest.approx(least / 100, rel=1e-5)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("a,72,0.3,,std\nb,60,0.3,,std\n", "the number of runs is not said: no difference"),
        ("a,72,0.3,5,\nb,60,0.3,5,\n", "what ± is, is not said: no difference"),
        ("a,72,0.0,2,std\nb,60,0.0,2,std\n", "a spread of 0 of fewer than 3 runs is no proof"),
        ("a,72,0.3,5,std\nb,60,,,\n", "no spread is printed: no difference"),
        ("a,72,0.3,5,std\n", "there is no other row to compare it with"),
        ("a,72,0.3,5,std\nb,71.9,0.3,5,std\n", "no difference is decided"),
        ("a,72,0.3,5,std\nb,60,0.3,5,std\nc,50,,,\n", "said of c: no spread is printed"),
    ],
)
def test_what_cannot_be_decided_says_why(lines: str, reason: str, tmp_path: Path) -> None:
    assert reason in verdict(tmp_path, HEAD + lines)


def test_a_single_run_beside_several_is_not_compared(tmp_path: Path) -> None:
    text = "method,seed,accuracy\na,0,0.7\na,1,0.75\na,2,0.72\nb,5,0.5\n"
    begin = "fewer than two runs that differ: no difference can be called decided"
    assert verdict(tmp_path, text) == f"{begin} (a has the highest mean, 72.3)"


def test_means_that_differ_by_their_rounding_are_level(tmp_path: Path) -> None:
    """59.34 and 59.36 are printed 59.3 and 59.4, with ± 0.0."""
    text = f"{HEAD}a,59.4,0.0,5,std\nb,59.3,0.0,5,std\n"
    assert verdict(tmp_path, text).endswith("the smallest that could have been is 0.1 points")


def test_of_many_undecided_pairs_the_first_are_named(tmp_path: Path) -> None:
    lines = "".join(f"{name},{72 + k / 10},0.9,5,std\n" for k, name in enumerate("abcde"))
    text = render_text(view_of(tmp_path, HEAD + lines).parts)
    assert "decided: 0 of 10 differences; not: e and d, e and c, e and b, e and a, " in text
    assert ", d and b and 4 more\n" in text


def test_an_interval_is_read_as_that_of_t(tmp_path: Path) -> None:
    made = view_of(tmp_path, f"{HEAD}a,72,0.3,5,95 % ci\nb,60,0.3,5,95 % ci\n")
    remark = "95 % ci is read as a t-interval; where it is 1.96 sem, say so (± is)"
    assert remark in render_text(made.parts)


def test_equal_means_are_named_together(tmp_path: Path) -> None:
    text = f"{HEAD}a,72.5,0.3,5,std\nb,72.5,0.3,5,std\nc,60.0,0.3,5,std\n"
    assert verdict(tmp_path, text).startswith("a and b have the highest mean, 72.5; c (by at least")


def test_the_lowest_forgetting_leads(tmp_path: Path) -> None:
    text = "method,metric,mean,std,n\na,forgetting,20,1,5\nb,forgetting,10,1,5\n"
    made = verdict(tmp_path, text)
    assert made.startswith("b has the lowest mean, 10.0; a (by at least")


def test_runs_that_see_a_difference_are_counted(tmp_path: Path) -> None:
    text = f"{HEAD}a,72.0,1.0,3,std\nb,71.0,1.0,3,std\n"
    made = view_of(tmp_path, text, difference=0.02)
    assert [row["runs"] for row in made.data["rows"]] == [7, 7]
    said = "of the best other one see a difference of 2.0 points in 4 of 5 tables, if their spread"
    assert said in render_text(made.parts)


def test_each_table_and_metric_of_a_file_has_its_own(tmp_path: Path) -> None:
    text = "table,method,metric,mean\nx,a,accuracy,72\ny,a,accuracy,60\nx,a,forgetting,5\n"
    (tmp_path / "t.csv").write_text(text)
    titles = [view.title for view in views_of(tmp_path / "t.csv")]
    assert titles == ["x · accuracy %", "x · forgetting %", "y · accuracy %"]


def test_a_file_of_runs_is_paired_by_seed(tmp_path: Path) -> None:
    """Differences .010 to .012 of runs that differ by .2: the pairs decide what means cannot."""
    runs = "a,0,0.5\na,1,0.7\na,2,0.6\nb,0,0.510\nb,1,0.711\nb,2,0.612\n"
    made = view_of(tmp_path, f"method,seed,accuracy\n{runs}")
    assert made.data["decided"] == [["b", "a"]]


def test_the_zoo_has_a_spread_in_one_row() -> None:
    """And each printed table without one is named beside our runs."""
    assert sum(bool(row.sd) for row in read_zoo().published) == 1


def test_the_command_prints_every_form(tmp_path: Path) -> None:
    path, page = PRINTED / "masana-random-10.csv", tmp_path / "page.html"
    text = embedbench("report", path, "--difference", "1", "--html", page).stdout
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "iCaRL 10 33.8 3.7 std 3 3 5.5 (1.7 to 9.3) 3.8 218" in rows
    assert "BiC" in page.read_text()
    cells = list(csv.DictReader(embedbench("report", path, "--csv").stdout.splitlines()))
    data = json.loads(embedbench("report", path, "--json").stdout)
    assert (data["schema"], cells[0]["method"]) == ("embedbench-means/1.0", "BiC")
    assert "tabular" in embedbench("report", path, "--latex").stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--compare",), "--compare is for runs"),
        (("--figure", "ranks", "--out", "x.pdf"), "--figure is for runs"),
        (("--over", "seeds"), "--over is for runs"),
        (("--metric", "men"), "unknown value of the results 'men'. Did you mean 'mean'"),
        (("--difference", "0"), "--difference must be a number of points above 0"),
    ],
)
def test_what_does_not_go_with_a_table(words: tuple[str, ...], sentence: str) -> None:
    made = embedbench("report", PRINTED / "masana-random-10.csv", *words)
    assert sentence in str(made.exception)


def test_a_difference_is_for_tables(tmp_path: Path) -> None:
    made = embedbench("report", tmp_path, "--difference", "1")
    sentence = "--difference is for CSV files; name one: report RUNS theirs.csv"
    assert str(made.exception) == sentence


def test_a_study_beside_a_table_names_its_runs(tmp_path: Path) -> None:
    made = embedbench("report", "study.toml", PRINTED / "masana-random-10.csv")
    assert str(made.exception).startswith("study.toml says what to show; name ")


def test_the_text_says_what_it_cannot_see() -> None:
    (made,) = views_of(PRINTED / "masana-random-10.csv")
    assert "unpaired: it is not seen what rows share" in render_text(made.parts)


def test_a_table_of_thousands_of_rows_is_refused(tmp_path: Path) -> None:
    text = "method,mean\n" + "".join(f"a{i},50\n" for i in range(1001))
    with pytest.raises(UserError, match=r"1,001 rows; compare 1,000 at most"):
        view_of(tmp_path, text)


def test_the_example_of_the_page_is_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "runs.md").read_text(encoding="utf-8")
    table = re.findall(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[1]
    said = verdict(tmp_path, table)
    assert re.fullmatch(
        r"BiC has the highest mean, 39.3; iCaRL \(.*\) and LUCIR \(.*\) are behind; "
        "IL2M may be level",
        said,
    )
