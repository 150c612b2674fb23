"""The claims of the five papers, their commands, and the page that results give."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import embedbench

from embedbench.errors import UserError
from embedbench.papers.claim_table import ClaimTable
from embedbench.papers.claims import Claim, load_claims, papers_with_claims
from embedbench.papers.claims_page import make_claims_page
from embedbench.papers.judge_claims import HOLDS
from embedbench.papers.paper_table import PaperTable, TableRow, Value
from embedbench.papers.result_files import PaperResults, read_results
from embedbench.papers.tables_of_results import tables_of_results
from embedbench.scores.mean_intervals import Stat

ROOT = Path(__file__).resolve().parents[2]
DATA = [ROOT / "docs" / "results" / "data"]
LEFT = {"K1", "K3", "K4", "K6a", "K10", "K13", "O5", "T9"}


def every_claim() -> list[Claim]:
    return [claim for name in papers_with_claims() for claim in load_claims(name).claims]


def test_what_left_the_list_is_gone() -> None:
    assert LEFT & {claim.id for claim in every_claim()} == set()


def test_no_two_claims_have_one_id() -> None:
    names = [claim.id for claim in every_claim()]
    assert len(names) == len({*names})


def test_each_claim_has_a_sentence_a_place_and_a_test() -> None:
    assert [c.id for c in every_claim() if not (c.says and c.place and c.test)] == []


@pytest.mark.parametrize("name", papers_with_claims())
def test_printed_tables_are_of_the_papers_data(name: str) -> None:
    of_paper = load_claims(name)
    assert {table.file for table in of_paper.printed()} <= {*of_paper.theirs}


def test_the_page_is_what_the_results_give() -> None:
    text, _ = make_claims_page(DATA, papers_with_claims())
    remedy = "embedbench reproduce all --claims --results docs/results/data --out docs"
    assert text == (ROOT / "docs" / "claims.md").read_text("utf-8"), remedy


def of_kemker(where: str) -> ClaimTable:
    """MNIST's rows as the paper prints them, or as our files of results have them."""
    of_paper = load_claims("kemker2018")
    tables = of_paper.printed()
    if where == "ours":
        sources = read_results(DATA, "kemker2018")
        tables = tables_of_results(sources, of_paper.official)
    (table,) = (table for table in tables if table.file == "MNIST")
    return table


@pytest.mark.parametrize(
    ("where", "base", "moving"),
    [("printed", 94.8, 67.9), ("ours", 95.2, 59.8)],  # read off the paper, and off docs/results
)
def test_kemkers_verifications_can_be_asked_for(where: str, base: float, moving: float) -> None:
    table = of_kemker(where)
    s6 = table("base", table="S6", test="Inc-9", learner="GeppNet")
    s7 = table("accuracy", {"non-stationary share": "0.25"}, table="S7")
    assert round(float(s6.mean), 1) == base
    assert round(float(s7.mean), 1) == moving


def test_a_question_after_a_look_is_said_and_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_paper = load_claims("michel2023")
    (n6,) = (claim for claim in of_paper.claims if claim.id == "N6")
    late = replace(n6, threshold="derived", after_look=True)
    monkeypatch.setattr(of_paper, "claims", [late])
    write_results(tmp_path / "a.json", [6.0, 7.0, 8.5])
    text, _ = make_claims_page([tmp_path], ["michel2023"])
    assert "(derived; asked after a look)" in text
    assert "Questions that were chosen with stored results in view: N6." in text
    assert "fitted answers: none" in text


def test_a_verdict_has_the_marks_of_its_runs(tmp_path: Path) -> None:
    write_results(tmp_path / "a.json", [4.0, 5.0, 6.0], ("few-steps", "test-validation"))
    text, (answer,) = make_claims_page([tmp_path], ["michel2023"])
    assert f"toy: **{answer.status}** F T (" in text
    assert "T: test data could stop training." in text
    assert "do not say the flags" not in text


def test_results_that_do_not_say_their_flags_are_named(tmp_path: Path) -> None:
    write_results(tmp_path / "a.json", [4.0, 5.0, 6.0])
    text, _ = make_claims_page([tmp_path], ["michel2023"])
    assert "do not say the flags of their runs" in text


def write_results(
    path: Path, in_the_end: Sequence[float], flags: tuple[str, ...] | None = None
) -> None:
    """Results of N6: RAA of ER on a short stream."""
    each = [1.0, 2.0, 3.0], in_the_end
    first, last = (Value(None, Stat.of(values), flags=flags) for values in each)
    row = TableRow(("toy", "10", "ER", "RAA"), {"at 3K/4": first, "at K": last})
    heads = ("data", "sessions K", "learner", "metric")
    table = PaperTable("Figure 3", "", heads, ("at 3K/4", "at K"), (row,))
    PaperResults("michel2023", "", "", {}, (0, 1, 2), (), (), (table,)).write(path)


def claims(*words: str) -> Any:
    return embedbench("reproduce", *words, "--claims")


def test_the_command_judges_new_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_results(tmp_path / "mine.json", [6.0, 7.0, 8.5])
    result = claims("new-metrics", "--results", "mine.json", "--out", "a", "--json")
    (answer,) = json.loads(result.stdout)
    assert (answer["claim"], answer["file"], answer["status"]) == ("N6", "toy", HOLDS)
    assert "toy: **holds** (1 of 1)" in Path("a/claims.md").read_text("utf-8")


@pytest.mark.parametrize(
    "words",
    [["new-metrics"], ["all"], ["nobody2020"], ["new-metrics", "--results", "a", "--table", "1"]],
)
def test_what_the_command_refuses(
    words: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert isinstance(claims(*words).exception, UserError)
