"""Names for rows: `--name LEARNER=TEXT`, `[names]` of a file, `run_all(names=…)`."""

import json
from pathlib import Path

import pytest
from command_line import embedbench
from file_helpers import says
from report_records import keep, make

from embedbench.errors import UserError
from embedbench.reports.results import Result, name_results
from embedbench.reports.row_names import RowNames, check_learners, names_of, parse_names, read_names
from embedbench.reports.tables_from_runs import collect
from embedbench.reports.toml_report import show_file

NAME = "Replay MLP"
GIVEN = ("--name", f"rmlp={NAME}")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    for seed in range(3):
        keep(root, make("rmlp:ReplayMLP", seed, 0.8 - seed / 100), row="mine")
        keep(root, make("ncm", seed, 0.5 + seed / 100))
    return root


VIEWS = {
    "text": (),
    "markdown": ("--markdown",),
    "latex": ("--latex",),
    "csv": ("--csv",),
    "json": ("--json",),
    "compare": ("--compare",),
    "compare csv": ("--compare", "--csv"),
    "compare json": ("--compare", "--json"),
    "by seeds": ("--by", "seeds"),
    "by order": ("--by", "order"),
}


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_has_the_name(runs: Path, view: str) -> None:
    assert NAME in embedbench("report", runs, *GIVEN, *VIEWS[view]).stdout


@pytest.mark.parametrize("view", ["text", "markdown", "latex", "csv", "compare", "by seeds"])
def test_no_view_has_the_class_beside_it(runs: Path, view: str) -> None:
    assert "ReplayMLP" not in embedbench("report", runs, *GIVEN, *VIEWS[view]).stdout


def test_the_verdict_has_the_name(runs: Path) -> None:
    out = json.loads(embedbench("report", runs, *GIVEN, "--json").stdout)
    assert out["tables"][0]["verdict"].startswith(NAME)


def test_json_keeps_what_the_run_is_of(runs: Path) -> None:
    out = json.loads(embedbench("report", runs, *GIVEN, "--json").stdout)
    assert out["tables"][0]["rows"][0]["learner"] == "rmlp:ReplayMLP"


def test_the_page_has_the_name(runs: Path, tmp_path: Path) -> None:
    embedbench("report", runs, *GIVEN, "--html", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f">{NAME}<" in page


@pytest.mark.parametrize("kind", ["curves", "trade-off", "matrix", "ranks"])
def test_a_figure_has_the_name(runs: Path, tmp_path: Path, kind: str) -> None:
    out = tmp_path / "figure.svg"
    embedbench("report", runs, *GIVEN, "--figure", kind, "--out", out)
    assert NAME in out.read_text(encoding="utf-8")


def test_a_csv_file_beside_has_names_too(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs.csv").write_text("learner,seed,class_accuracy\nlwf,0,0.7\nlwf,1,0.6\n")
    out = embedbench("report", runs, tmp_path / "theirs.csv", *GIVEN, "--name", "lwf=LwF (theirs)")
    assert "LwF (theirs)" in out.stdout


def test_a_page_of_markup_shows_the_name_as_it_is(runs: Path, tmp_path: Path) -> None:
    embedbench("report", runs, "--name", "rmlp=<u>A</u>", "--html", tmp_path / "page.html")
    assert "<u>A" not in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("key", ["rmlp:ReplayMLP", "ReplayMLP", "rmlp"])
def test_code_of_yours_has_three_keys(runs: Path, key: str) -> None:
    assert collect(runs, names=RowNames({key: NAME}))[0].label == NAME


def namesakes(root: Path) -> Path:
    for i, lam in enumerate((1, 100)):
        keep(root, make("ewc", 0, 0.8 - i / 10, learner_params={"lam": lam}), row=f"ewc-{i}")
    return root


def test_namesakes_keep_their_settings(tmp_path: Path) -> None:
    rows = collect(namesakes(tmp_path), names=RowNames({"ewc": "EWC"}))
    assert [row.label for row in rows] == ["EWC lam=1", "EWC lam=100"]


def test_one_of_namesakes_by_its_label(tmp_path: Path) -> None:
    rows = collect(namesakes(tmp_path), names=RowNames({"ewc": "EWC", "ewc lam=100": "Rigid EWC"}))
    assert [row.label for row in rows] == ["EWC lam=1", "Rigid EWC"]


def test_two_rows_of_one_name_are_refused(runs: Path) -> None:
    with pytest.raises(UserError, match="two rows of a table would be called A"):
        collect(runs, names=RowNames({"ncm": "A", "rmlp": "A"}))


def test_the_name_of_another_row_is_refused(runs: Path) -> None:
    with pytest.raises(UserError, match="two rows of a table would be called ncm"):
        collect(runs, names=RowNames({"rmlp": "ncm"}))


def test_two_rows_of_results_of_one_name_are_refused() -> None:
    rows = [Result(learner=name, setting="") for name in ("ncm", "slda")]
    with pytest.raises(UserError, match="two rows of a table would be called A"):
        name_results(rows, RowNames({"ncm": "A", "slda": "A"}))


def test_a_name_that_no_row_takes_is_refused(runs: Path) -> None:
    names = RowNames({"rmpl": "A"})
    collect(runs, names=names)
    with pytest.raises(UserError, check=says(what="unknown row to name", got="rmpl")):
        names.check_used()


@pytest.mark.parametrize("item", ["rmlp", "=A", "rmlp=", "rmlp= \n"])
def test_what_is_no_name_is_refused(item: str) -> None:
    with pytest.raises(UserError):
        parse_names([item])


def test_a_name_may_have_a_sign_of_equality() -> None:
    assert parse_names(["ewc=EWC, λ = 100"]) == {"ewc": "EWC, λ = 100"}


def test_a_study_file_has_names_for_its_report(runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "tables.toml"
    file.write_text(
        f'[names]\nrmlp = "{NAME}"\nmlp = "of another table"\n[report]\nruns = ["{runs}"]\n'
        'names = { ncm = "Nearest mean" }\n'
    )
    lines = embedbench("report", file).stdout.splitlines()
    assert [line[:12].strip() for line in lines if line[-1:].isdigit()] == [NAME, "Nearest mean"]


def test_a_name_of_a_report_that_no_row_takes_is_refused(runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "tables.toml"
    file.write_text(f'[report]\nruns = ["{runs}"]\nnames = {{ nmc = "A" }}\n')
    with pytest.raises(UserError, check=says(what="unknown row to name", got="nmc")):
        show_file(file, print)


def test_names_that_are_no_table_are_refused() -> None:
    with pytest.raises(UserError, match=r"^t\.toml: names must be a table, such as slda = "):
        read_names(["A"], "t.toml: names")


def test_names_of_learners_that_do_not_run_are_refused_before() -> None:
    with pytest.raises(UserError, check=says(what="unknown row to name", got="slda")):
        check_learners({"slda": "SLDA"}, ["ncm"])


def test_flags_leave_out_names_of_learners_that_they_leave_out() -> None:
    assert names_of({"slda": "SLDA", "ewc lam=1": "EWC"}, ["ewc"]) == {"ewc lam=1": "EWC"}
