"""Accuracies from elsewhere beside runs of ours: by the command, and by a study file."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from command_line import embedbench
from report_records import keep, make

from embedbench.errors import UserError
from embedbench.reports.load_results import load_runs
from embedbench.reports.results_beside import TableChoice, tables_beside, tables_of_files
from embedbench.reports.tables_from_runs import collect
from embedbench.reports.toml_report import read_selections, select

GAINS = {"ncm": (0.6, 0.02), "slda": (0.8, 0.01)}  # of seed 0, and from seed to seed


def keep_stream(root: Path, base: int) -> None:
    """Three seeds of two learners on a stream of its own."""
    other = {"protocol_params": {"base": base}, "digests": {"recipe": f"{base:064x}"}}
    for name, (gain, step) in GAINS.items():
        for seed in range(3):
            made = make(name, seed, gain + seed * step - base / 100, **other)
            keep(root, made, stream=f"base-{base}", row=name)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs on one stream: finals of ncm .58 to .62, of slda .78 to .80."""
    root = tmp_path_factory.mktemp("one")
    keep_stream(root, 2)
    return root


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs on two streams."""
    root = tmp_path_factory.mktemp("two")
    for base in (2, 10):
        keep_stream(root, base)
    return root


def beside(root: Path, folder: Path, text: str, **wanted: Any) -> list[dict[str, Any]]:
    (folder / "theirs.csv").write_text(text, encoding="utf-8")
    rows = collect(root, notify=pytest.fail)
    views = tables_beside(rows, [folder / "theirs.csv"], TableChoice(**wanted), lambda _: None)
    return [view.data for view in views]


def row_of(table: dict[str, Any], method: str) -> dict[str, Any]:
    (row,) = [row for row in table["rows"] if row["method"] == method]
    return dict(row)


PAIRED = "method,seed,accuracy\nmine,0,70\nmine,1,71\nmine,2,72\n"
MEANS = "method,metric,mean,std,n\nmine,accuracy,70.0,0.5,5\n"


def test_seeds_in_common_are_paired(one: Path, tmp_path: Path) -> None:
    """By hand: .08, .08 and .083; mean .081, sd √.000003, t(1 - .05/3, 2) = 5.339333."""
    (table,) = beside(one, tmp_path, PAIRED.replace(",72", ",71.7"))
    least = 0.081 - 5.339333 * (0.000003 / 3) ** 0.5
    assert row_of(table, "mine")["behind_by_least"] == pytest.approx(least, rel=1e-6)


def test_other_seeds_are_not_paired(one: Path, tmp_path: Path) -> None:
    """By hand: three rows, t(1 - .05/3, 2) = 5.339333, sd .01 of three runs each."""
    text = PAIRED.replace(",0,", ",7,").replace(",1,", ",8,").replace(",2,", ",9,")
    (table,) = beside(one, tmp_path, text)
    least = 0.08 - 5.339333 * 0.01 * (2 / 3) ** 0.5
    assert row_of(table, "mine")["behind_by_least"] == pytest.approx(least, rel=1e-4)


def test_means_stand_beside_ours_unpaired(one: Path, tmp_path: Path) -> None:
    (table,) = beside(one, tmp_path, MEANS)
    assert any(
        note.startswith("rows without seeds in common are unpaired") for note in table["notes"]
    )


def test_what_is_not_in_the_verdict_is_said(one: Path, tmp_path: Path) -> None:
    (table,) = beside(one, tmp_path, PAIRED)
    assert any("another test sample is not in it" in note for note in table["notes"])


def test_a_single_run_of_theirs_gets_no_verdict(one: Path, tmp_path: Path) -> None:
    (table,) = beside(one, tmp_path, "method,seed,accuracy\nmine,0,70\n")
    assert row_of(table, "mine")["behind"] is None


def test_sessions_have_a_table_of_their_own(one: Path, tmp_path: Path) -> None:
    lines = [f"mine,0,{session},{value}" for session, value in enumerate((0.9, 0.6, 0.3))]
    text = "method,seed,session,accuracy\n" + "\n".join(lines)
    _, curves = beside(one, tmp_path, text)
    (mine,) = [row for row in curves["rows"] if row["method"] == "mine"]
    found = [mine[name] for name in ("after_0", "after_1", "after_2", "mean")]
    assert found == pytest.approx([0.9, 0.6, 0.3, 0.6])


def test_a_stream_that_is_not_said_is_on_their_word(one: Path, tmp_path: Path) -> None:
    (table,) = beside(one, tmp_path, PAIRED)
    assert "mine does not say of which stream it is: taken to be this one" in table["notes"]


def test_a_line_that_fits_two_streams_is_refused(two: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"which of 2 streams .* column protocol.base: \d+ or \d+"):
        beside(two, tmp_path, PAIRED)


@pytest.mark.parametrize(
    "stated", [("protocol.base", "10"), ("stream", "base-10"), ("digests.recipe", f"{10:064x}")]
)
def test_a_line_that_says_its_stream_stands_beside_it(
    stated: tuple[str, str], two: Path, tmp_path: Path
) -> None:
    name, value = stated
    head, *lines = PAIRED.splitlines()
    text = "\n".join([f"{head},{name}", *(f"{line},{value}" for line in lines)])
    (table,) = beside(two, tmp_path, text)
    assert row_of(table, "ncm")["mean"] == pytest.approx(0.52)


def test_a_line_of_another_stream_is_refused(two: Path, tmp_path: Path) -> None:
    text = "method,seed,accuracy,protocol.base\nmine,0,70,50\n"
    with pytest.raises(UserError, match=r"its protocol.base is 50, and of ours (2, 10|10, 2)"):
        beside(two, tmp_path, text)


def test_a_line_of_another_stream_among_others_is_left_out(two: Path, tmp_path: Path) -> None:
    text = "method,seed,accuracy,protocol.base\nmine,0,70,50\nmine,1,70,10\n"
    (tmp_path / "theirs.csv").write_text(text)
    said = list[str]()
    rows = collect(two, notify=pytest.fail)
    tables_beside(rows, [tmp_path / "theirs.csv"], TableChoice(), said.append)
    assert f"left out: mine of {tmp_path}/theirs.csv: its protocol.base is 50, " in " ".join(said)


def test_runs_that_diverged_are_left_out_of_a_file_too(tmp_path: Path) -> None:
    (tmp_path / "theirs.csv").write_text("method,seed,accuracy,flags\na,0,70,\na,1,9,diverged\n")
    said = list[str]()
    (table,) = tables_of_files([tmp_path / "theirs.csv"], TableChoice(), said.append)
    assert said[-1] == f"left out: a seed 1 of {tmp_path}/theirs.csv: diverged"
    assert row_of(table.data, "a")["mean"] == 0.7


def test_a_mean_of_no_metric_is_refused(one: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"does not name; say in a column metric: accuracy"):
        beside(one, tmp_path, "method,mean,std,n\nmine,70,1,3\n")


def test_a_metric_that_ours_have_not_is_refused(one: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"unknown metric 'speed'"):
        beside(one, tmp_path, "method,seed,speed\nmine,0,70\n")


def test_a_stream_of_other_length_is_refused(one: Path, tmp_path: Path) -> None:
    text = "method,seed,session,accuracy\nmine,0,0,0.5\nmine,0,1,0.4\n"
    with pytest.raises(UserError, match=r"sessions of mine must be 3, .* got 2"):
        beside(one, tmp_path, text)


def test_a_name_that_we_have_too_is_told_apart(one: Path, tmp_path: Path) -> None:
    (table,) = beside(one, tmp_path, PAIRED.replace("mine", "ncm"))
    names = [(row["method"], row["from"]) for row in table["rows"]]
    assert ("ncm (theirs.csv)", "theirs.csv") in names


def test_the_main_score_is_named(one: Path, tmp_path: Path) -> None:
    (table,) = beside(one, tmp_path, PAIRED.replace("accuracy", "final_accuracy"))
    assert any("theirs must be, too" in note for note in table["notes"])


def test_the_command_prints_both(one: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs.csv").write_text(PAIRED)
    made = embedbench("report", one, tmp_path / "theirs.csv", "--json")
    data = json.loads(made.stdout)
    assert row_of(data["beside"]["tables"][0], "mine")["from"] == "theirs.csv"
    assert data["tables"]


def test_the_command_prints_the_rows_of_both(one: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs.csv").write_text(PAIRED)
    made = embedbench("report", one, tmp_path / "theirs.csv", "--csv").stdout
    rows = list(csv.DictReader(made.splitlines()))
    found = [row["learner"] or row["method"] for row in rows]
    assert sorted(found) == ["mine", "ncm", "ncm", "slda", "slda"]


# --- the same file in a [report] ---


def shown(folder: Path, text: str, theirs: str) -> tuple[list[Any], list[str]]:
    """The rows of the table of a study file with `theirs.csv`, and its text."""
    (folder / "theirs.csv").write_text(theirs, encoding="utf-8")
    (folder / "shown.toml").write_text(text)
    said: list[str] = []
    (table,) = select(read_selections(folder / "shown.toml"), folder, said.append)
    return table.rows, [str(part) for part in table.parts] + said


def report_of(root: Path, more: str = "") -> str:
    return f'[report]\nruns = ["{root}", "theirs.csv"]\nrows = ["learner"]\n{more}'


FINALS = PAIRED.replace("accuracy", "final_accuracy")
OF_BASE = "\n".join(
    line + (",protocol.base" if i == 0 else ",10") for i, line in enumerate(FINALS.splitlines())
)


def test_no_result_stands_beside_a_mean_over_several_streams(two: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"mine is of 1 and \w+ of 2 streams"):
        shown(tmp_path, report_of(two), OF_BASE)


def test_no_stream_is_guessed_among_several(two: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"mine does not say which of 2 streams"):
        shown(tmp_path, report_of(two, 'columns = "stream"'), FINALS)


def test_a_stream_that_agrees_is_one(two: Path, tmp_path: Path) -> None:
    """And its seeds are paired: the ranks are decided."""
    more = 'where = { "protocol.base" = 10 }\nover = "seeds"'
    rows, parts = shown(tmp_path, report_of(two, more), OF_BASE)
    assert [row["learner"] for row in rows] == ["slda", "mine", "ncm"]
    assert any("a bound of 5 % a row, over seeds alone" in part for part in parts)


def test_a_line_that_where_cannot_ask_is_named(two: Path, tmp_path: Path) -> None:
    _, said = shown(tmp_path, report_of(two, 'where = { "protocol.base" = 10 }'), FINALS)
    assert "left out: mine: it has no protocol.base, which where asks for" in said


def test_a_printed_mean_keeps_its_interval(one: Path, tmp_path: Path) -> None:
    """t(.975, 4) = 2.776445."""
    rows, _ = shown(tmp_path, report_of(one, 'metrics = ["accuracy"]'), MEANS)
    (mine,) = [row for row in rows if row["learner"] == "mine"]
    assert mine["accuracy.half_95"] == pytest.approx(2.776445 * 0.005 / 5**0.5, rel=1e-6)


def test_a_value_at_a_moment_is_not_the_final_one(one: Path) -> None:
    """Rows of `load_runs` hold the final score among their values."""
    run = load_runs(one).results().where(learner="ncm", seed=0).rows[0]
    assert [run.value("final_accuracy", moment=i) for i in (0, 1)] == [0.9, 0.75]


@pytest.mark.parametrize("column", ["accuracy", "final_accuracy", "A_last"])
@pytest.mark.parametrize("asked", ["accuracy", "final_accuracy"])
def test_the_final_value_of_the_score_shown_has_two_names(
    column: str, asked: str, one: Path, tmp_path: Path
) -> None:
    (table,) = beside(one, tmp_path, f"method,seed,{column}\nmine,0,0.7\n", metrics=[asked])
    assert row_of(table, "mine")["mean"] == 0.7


def test_columns_of_theirs_that_no_table_shows_are_named(one: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs.csv").write_text("method,seed,accuracy,speed\nmine,0,0.7,3\n")
    notes: list[str] = []
    rows = collect(one, notify=pytest.fail)
    tables_beside(rows, [tmp_path / "theirs.csv"], TableChoice(), notes.append)
    assert "not shown: speed of theirs.csv: no run of ours has it" in notes


def test_a_file_whose_numbers_are_undefined_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs.csv").write_text("method,seed,accuracy\nmine,0,nan\n")
    with pytest.raises(UserError, match=r"theirs\.csv has no number that is defined; see docs"):
        tables_of_files([tmp_path / "theirs.csv"], TableChoice(), print)


def test_several_values_without_an_accuracy_are_to_be_named(tmp_path: Path) -> None:
    """Of many the first five are named."""
    (tmp_path / "theirs.csv").write_text("method,seed,u,v,w,x,y,z\nmine,0,1,2,3,4,5,6\n")
    with pytest.raises(UserError, match=r"have u, v, w, x, y and 1 more; name one, --metric$"):
        tables_of_files([tmp_path / "theirs.csv"], TableChoice(), print)


def test_of_several_files_with_other_columns_three_are_named(one: Path, tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.csv" for name in "abcd"]
    for file in files:
        file.write_text(f"method,seed,accuracy,speed\n{file.stem},0,0.7,12\n")
    notes: list[str] = []
    tables_beside(collect(one, notify=pytest.fail), files, TableChoice(), notes.append)
    assert "not shown: speed of a.csv, b.csv, c.csv and 1 more: no run of ours has it" in notes


def test_columns_of_a_file_alone_that_its_table_does_not_show_are_named(tmp_path: Path) -> None:
    (tmp_path / "theirs.csv").write_text("method,seed,accuracy,AF\nmine,0,0.7,0.1\n")
    notes: list[str] = []
    tables_of_files([tmp_path / "theirs.csv"], TableChoice(), notes.append)
    assert "not shown: average_forgetting; --metric names what is" in notes
