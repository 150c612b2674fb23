"""Claims: the evaluator on results made by hand, `claims.toml`, and the page that it gives."""

import dataclasses
import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import embedbench

from embedbench.cli import app
from embedbench.errors import UserError
from embedbench.papers import judge_claims as judging
from embedbench.papers.claims import (
    PRINTED,
    Cell,
    Claim,
    ClaimPart,
    Runs,
    collect_cells,
    load_claims,
    load_commands,
)
from embedbench.papers.judge_claims import HOLDS, NONE, NOT, UNDECIDED, estimate
from embedbench.papers.paper_folders import paper
from embedbench.papers.paper_table import EXACT, PaperTable, TableRow, Value
from embedbench.papers.result_files import Results
from embedbench.scores.mean_intervals import Stat

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "docs" / "results" / "data"
T2 = 4.302652729911275  # t(0.975, 2)
FILES: dict[str, Any] = {"theirs": ("MNIST", "CUB"), "ours": ("emoji",)}

Rows = Mapping[Any, Sequence[float]]  # by labels


def cells_of(
    *sources: Rows, seeds: Sequence[int] = (0, 1, 2), heads: Sequence[str] = ("learner", "data")
) -> list[Cell]:
    """The cells of results with one table, "2", and one column, "Ω"."""
    results = {}
    for i, rows in enumerate(sources):
        made = tuple(TableRow(k, {"Ω": Value(None, Stat.of(v))}) for k, v in rows.items())
        table = PaperTable("2", "", tuple(heads), ("Ω",), made)
        results[f"file {i}"] = Results("a", "", "", {}, tuple(seeds), (), (), (table,))
    return collect_cells(results)


def claim(*parts: ClaimPart, **more: Any) -> Claim:
    words = dict.fromkeys(("id", "paper", "says", "place", "test", "unit"), "")
    more = FILES | {"threshold": "ours", "command": (), "parts": parts} | more
    known = frozenset(file.lower() for files in FILES.values() for file in files)
    return Claim(**words, known=known, **more)


def status(made: Claim, some: Sequence[Cell]) -> dict[str, str]:
    return {answer.file: answer.status for answer in judging.judge(made, some)}


ABOVE = ClaimPart("2", "Ω", {"learner": "a"}, minus={"where": {"learner": "b"}}, above=0)


def test_a_paired_and_an_unpaired_interval_by_hand() -> None:
    a: Runs = {0: 1.0, 1: 2.0, 2: 3.0}
    b: Runs = {0: 0.0, 1: 1.0, 2: 2.0}
    alone = T2 / math.sqrt(3)  # sd 1, three runs
    assert estimate(a) == pytest.approx((2, alone, 3))
    assert estimate({}) == pytest.approx((math.nan, math.nan, 0), nan_ok=True)
    assert estimate(a, b) == pytest.approx((1, 0, 3))
    assert estimate(a, b, paired=False, times=2) == pytest.approx((0, alone * math.sqrt(5), 3))
    assert estimate(a, b, times=2) == pytest.approx((0, alone, 3))  # 1, 0, -1
    # other seeds: not paired
    assert estimate(a, {5: 0.0, 6: 1.0, 7: 2.0}) == pytest.approx((1, alone * math.sqrt(2), 3))
    one_in_common = estimate({0: 1.0, 1: 5.0}, {1: 4.0, 2: 0.0})
    assert one_in_common == pytest.approx((1, math.nan, 1), nan_ok=True)


@pytest.mark.parametrize(
    ("bound", "effect", "half", "word", "margin"),
    [
        ({"above": 0.15}, 0.5, 0.1, HOLDS, 0.35),
        ({"above": 0.15}, 0.2, 0.1, UNDECIDED, 0.05),
        ({"above": 0.0}, 0.0, 0.0, NOT, 0),  # a tie
        ({"above": 0.0}, 0.2, math.nan, UNDECIDED, 0.2),  # a single run
        ({"below": 0.5}, 0.25, 0.25, UNDECIDED, 0.25),
        ({"below": 0.5}, 0.75, 0.25, NOT, -0.25),
        ({"within": 1.0}, -0.5, 0.4, HOLDS, 0.5),
        ({"within": 0.1, "around": 1.0}, 0.0, 0.05, NOT, -0.9),
    ],
)
def test_thresholds(bound: Any, effect: float, half: float, word: str, margin: float) -> None:
    part = ClaimPart("2", "Ω", **bound)
    assert judging.decide(part, effect, half) == (word, pytest.approx(margin))


def test_each_means_all() -> None:
    high, middle, low = [0.9, 0.91, 0.92], [0.5, 0.9, 1.3], [0.1, 0.12, 0.13]
    higher = [1.5, 1.6, 1.7]
    each = dataclasses.replace(ABOVE, minus={"where": {"learner": ("b", "c")}})

    def judged(b: Sequence[float], c: Sequence[float] | None, **more: Any) -> judging.Answer:
        rows = {("a", "MNIST"): high, ("b", "MNIST"): b}
        some = cells_of({**rows, ("c", "MNIST"): c} if c else rows)
        return judging.judge(claim(each, **more), some)[0]

    assert judged(low, low).status == HOLDS
    assert judged(middle, higher).status == NOT
    assert judged(low, None).status == NONE
    none = judged([math.nan] * 3, None)
    assert (none.status, none.decides.runs) == (NONE, 0)
    assert judged(higher, None).status == NOT  # one that fails is enough
    assert judged(low, higher, one=True).status == HOLDS
    answer = judged(low, middle)
    assert (answer.status, answer.holding, answer.judged, answer.missing) == (UNDECIDED, 1, 2, 0)
    assert (answer.decides.what, answer.decides.effect) == ("a − c, Ω", pytest.approx(0.01))
    close = [x - 0.005 for x in high]  # holds with the least margin, and decides nothing
    assert judged(close, middle).decides.what == "a − c, Ω"
    assert judging.combine([NOT, UNDECIDED], 0, one=True) == UNDECIDED
    assert judging.combine([NOT], 1, one=True) == NONE


def test_a_file_has_its_answer_under_one_name() -> None:
    good, bad = [0.9, 0.91, 0.92], [0.1, 0.12, 0.13]
    some = cells_of({
        ("a", "emoji for CUB-200"): bad, ("b", "emoji for CUB-200"): good,
        ("a", "mnist"): good, ("b", "mnist"): bad,
        ("a", "brought"): good, ("b", "brought"): bad, ("a", "half"): good,
    })  # fmt: skip
    answers = status(claim(ABOVE), some)
    assert answers == {"MNIST": HOLDS, "CUB": NONE, "emoji": NOT, "brought": HOLDS}
    assert set(status(claim(ABOVE, needs="a table"), []).values()) == {NONE}
    assert status(claim(dataclasses.replace(ABOVE, files=("emoji",))), some)["MNIST"] == NONE


def test_files_of_other_data_are_compared_without_pairs() -> None:
    some = cells_of({("a", "emoji"): [0.1, 0.2, 0.3], ("a", "MNIST"): [0.7, 0.8, 0.9]})
    part = ClaimPart("2", "Ω", minus={"file": "MNIST"}, below=0, paired=False)
    (outcome,), missing = judging.judge_part(some, part, "emoji")
    assert (outcome.what, missing) == ("a emoji − a MNIST, Ω", 0)
    assert outcome.half == pytest.approx(0.1 * T2 / math.sqrt(3) * math.sqrt(2))


def test_sources_are_joined_by_seed_or_refused() -> None:
    labels = ("a", "MNIST")
    three: Rows = {labels: [0.1, 0.2, 0.3]}
    assert [cell.runs for cell in cells_of(three, three)] == [{0: 0.1, 1: 0.2, 2: 0.3}]
    with pytest.raises(UserError, match=r"each seed .* MNIST, Ω"):
        cells_of(three, {labels: [0.1, 0.2, 0.9]})
    (cell,) = cells_of({labels: [0.1]}, three)  # one of three: which seed is unknown
    assert cell.runs == {0: 0.1, 1: 0.2, 2: 0.3}


def test_rows_by_pattern_and_what_pools_leave_out() -> None:
    rows: Rows = {
        ("a", "2"): [1, 2, 3], ("a", "10"): [5, 8, 9], ("b", "10"): [4, 4, 4], ("b", "2"): [0, 0],
    }  # fmt: skip
    at = cells_of(rows, heads=("learner", "after"))

    def chosen(part: ClaimPart) -> dict[str, float]:
        return {o.what: pytest.approx(o.effect) for o in judging.judge_part(at, part, PRINTED)[0]}

    assert chosen(ClaimPart("2", "Ω", {"after": "last"}, above=0)) == {"a, Ω": 22 / 3, "b, Ω": 4}
    few: dict[str, Any] = {"after": "1*|x", "learner": ["a"]}
    assert chosen(ClaimPart("2", "Ω", few, above=0)) == {"a, Ω": 22 / 3}
    mean = ClaimPart("2", "Ω", pool="after", above=0)
    assert chosen(mean) == {"a, Ω": 28 / 6, "b, Ω": 4}  # the row that lacks a run is left out
    spread = dataclasses.replace(mean, by="sd", where={"learner": "a"})
    assert [*chosen(spread).values()] == [(4 + 6 + 6) / 3 / math.sqrt(2)]
    spread = dataclasses.replace(spread, where={"learner": "b"})  # one row has no spread
    assert [o.runs for o in judging.judge_part(at, spread, PRINTED)[0]] == [0]


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (Value(0.33, Stat.of([0.3349]), 2, made=EXACT), HOLDS),
        (Value(0.33, Stat.of([0.3351]), 2, made=EXACT), NOT),
        (Value(0.99, Stat.of([0.3349]), 2, made=EXACT, reads=0.33), HOLDS),  # a misprint
        (Value(0.33, Stat.of([0.33]), 2), NONE),  # of runs
        (Value(0.33, None, 2, made=EXACT), NONE),
    ],
)
def test_printed_digits(value: Value, word: str) -> None:
    table = PaperTable("2", "", ("k",), ("Ω",), (TableRow(("x",), {"Ω": value}),))
    some = collect_cells({"": Results("a", "", "", {}, (), (), (), (table,))})
    made = claim(ClaimPart("2", "Ω", printed=True), arithmetic=True)
    assert status(made, some) == {PRINTED: word}
    assert {o.runs for o in judging.judge_part(some, made.parts[0], PRINTED)[0]} <= {0, 1}


def test_the_claims_are_whole_and_their_commands_parse() -> None:
    claims = [c for name in load_commands() for c in load_claims(name)]
    assert len({c.id for c in claims}) == len(claims) == 50
    for c in claims:
        assert c.threshold in ("printed", "derived", "ours"), c.id
        assert bool(c.parts) != bool(c.needs), c.id
        for part in c.parts:
            bounds = (part.above, part.below, part.within or None, part.printed or None)
            assert sum(bound is not None for bound in bounds) == 1, c.id
    used = {(c.paper, key) for c in claims for key in c.command}
    assert used == {(name, key) for name, of in load_commands().items() for key in of}
    reproduce: Any = typer.main.get_command(app.app).commands["reproduce"]  # type: ignore[attr-defined]
    for name, commands in load_commands().items():
        tables = paper(name)
        for line in commands.values():
            words = shlex.split(line)
            assert words[:3] == ["embedbench", "reproduce", name]
            asked = reproduce.make_context("reproduce", words[2:]).params["tables"] or ()
            assert {*asked} <= {*tables.exact, *tables.tables, *tables.costly}, line


def test_the_page_and_the_readme_are_what_the_results_give() -> None:
    text, _ = judging.make_claims_page([DATA], list(load_commands()))
    remedy = "embedbench reproduce all --claims --results docs/results/data --out docs"
    assert text == (ROOT / "docs" / "claims.md").read_text("utf-8"), remedy
    (line,) = re.findall(r"^\*\*In short\*\*.* to 50 claims: (.{1,400})$", text, re.MULTILINE)
    readme = (ROOT / "README.md").read_text("utf-8")
    assert "[50 claims of five papers](docs/claims.md)" in readme
    assert line in readme


def test_the_command_judges_new_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Any:
        return embedbench("reproduce", *words, "--claims")

    result = run("new-metrics", "--results", str(DATA), "--out", "a", "--json")
    assert result.exit_code == 0, result.output
    answers = {(a["claim"], a["file"]): a["status"] for a in json.loads(result.stdout)}
    assert (answers["N6", "faces-deep"], answers["N6", "CIFAR-100"]) == (HOLDS, NONE)
    assert "| N6 |" in Path("a/claims.md").read_text("utf-8")
    result = run("new-metrics", "--results", "a", "--table", "1")
    assert "take no --table" in str(result.exception)
    for words in (["new-metrics"], ["all"], ["nobody2020"]):
        assert isinstance(run(*words).exception, UserError)
