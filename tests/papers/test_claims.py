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
from embedbench.papers.judge_claims import (
    HOLDS,
    NONE,
    NOT,
    UNDECIDED,
    Answer,
    combine,
    decide,
    estimate,
    judge,
    judge_part,
    make_claims_page,
)
from embedbench.papers.paper_folders import facts, paper
from embedbench.papers.paper_table import EXACT, PaperTable, TableRow, Value
from embedbench.papers.result_files import Results, read_results
from embedbench.scores.mean_intervals import Stat

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "docs" / "results" / "data"
T2 = 4.302652729911275  # t(0.975, 2)
HEADS = ("learner", "data")
THREE = (0, 1, 2)
FILES: dict[str, Any] = {"theirs": ("MNIST", "CUB"), "ours": ("emoji",)}

Rows = Mapping[Any, Sequence[float]]  # by labels


def results(rows: Rows, seeds: Sequence[int] = THREE, heads: Sequence[str] = HEADS) -> Results:
    """Results with one table, "2", and one column, "Ω"."""
    made = tuple(TableRow(labels, {"Ω": Value(None, Stat.of(v))}) for labels, v in rows.items())
    table = PaperTable("2", "", tuple(heads), ("Ω",), made)
    return Results("a", "", "", {}, tuple(seeds), (), (), (table,))


def cells(*some: Results) -> list[Cell]:
    return collect_cells({f"file {i}": one for i, one in enumerate(some)})


def claim(*parts: ClaimPart, **more: Any) -> Claim:
    words = dict.fromkeys(("id", "paper", "says", "place", "test", "unit"), "")
    more = FILES | {"threshold": "ours", "command": (), "parts": parts} | more
    known = frozenset(file.lower() for files in FILES.values() for file in files)
    return Claim(**words, known=known, **more)


def status(made: Claim, some: Sequence[Cell]) -> dict[str, str]:
    return {answer.file: answer.status for answer in judge(made, some)}


ABOVE = ClaimPart("2", "Ω", {"learner": "a"}, minus={"where": {"learner": "b"}}, above=0)


def test_a_paired_and_an_unpaired_interval_by_hand() -> None:
    a: Runs = {0: 1.0, 1: 2.0, 2: 3.0}
    b: Runs = {0: 0.0, 1: 1.0, 2: 2.0}
    alone = T2 / math.sqrt(3)  # sd 1, three runs
    assert estimate(a) == pytest.approx((2, alone, 3))
    assert estimate(a, b) == pytest.approx((1, 0, 3))
    assert estimate(a, b, paired=False) == pytest.approx((1, alone * math.sqrt(2), 3))
    assert estimate(a, b, times=2) == pytest.approx((0, alone, 3))  # 1, 0, -1
    # other seeds: not paired
    assert estimate(a, {5: 0.0, 6: 1.0, 7: 2.0}) == pytest.approx((1, alone * math.sqrt(2), 3))
    mean, half, runs = estimate({0: 1.0, 1: 5.0}, {1: 4.0, 2: 0.0})  # one seed in common
    assert (mean, runs) == (1, 1)
    assert math.isnan(half)


BOUNDS = [
    ({"above": 0.0}, 0.2, 0.1, HOLDS),
    ({"above": 0.0}, -0.2, 0.1, NOT),
    ({"above": 0.0}, 0.2, 0.3, UNDECIDED),
    ({"above": 0.0}, 0.0, 0.0, NOT),  # a tie
    ({"above": 0.15}, 0.2, 0.1, UNDECIDED),
    ({"above": 0.0}, 0.2, math.nan, UNDECIDED),  # a single run
    ({"below": 0.3}, 0.1, 0.1, HOLDS),
    ({"below": 0.3}, 0.5, 0.1, NOT),
    ({"below": 0.0}, 0.0, 0.0, NOT),
    ({"within": 1.0}, -0.5, 0.4, HOLDS),
    ({"within": 1.0}, -0.5, 0.6, UNDECIDED),
    ({"within": 1.0}, 1.5, 0.4, NOT),
    ({"within": 1.0}, 0.0, 1.5, UNDECIDED),
    ({"within": 0.1, "around": 1.0}, 1.0, 0.05, HOLDS),
    ({"within": 0.1, "around": 1.0}, 0.0, 0.05, NOT),
]


@pytest.mark.parametrize(("bound", "effect", "half", "word"), BOUNDS)
def test_an_interval_against_a_threshold(
    bound: dict[str, float], effect: float, half: float, word: str
) -> None:
    assert decide(ClaimPart("2", "Ω", **bound), effect, half)[0] == word  # type: ignore[arg-type]


def test_each_means_all() -> None:
    high, middle, low = [0.9, 0.91, 0.92], [0.5, 0.9, 1.3], [0.1, 0.12, 0.13]
    higher = [1.5, 1.6, 1.7]
    each = dataclasses.replace(ABOVE, minus={"where": {"learner": ("b", "c")}})

    def judged(b: Sequence[float], c: Sequence[float] | None, **more: Any) -> Answer:
        rows = {("a", "MNIST"): high, ("b", "MNIST"): b}
        some = cells(results({**rows, ("c", "MNIST"): c} if c else rows))
        return judge(claim(each, **more), some)[0]

    assert judged(low, low).status == HOLDS
    assert judged(middle, higher).status == NOT
    assert judged(low, None).status == NONE
    assert judged(higher, None).status == NOT  # one that fails is enough
    assert judged(low, higher, one=True).status == HOLDS
    answer = judged(low, middle)
    assert (answer.status, answer.holding, answer.judged, answer.missing) == (UNDECIDED, 1, 2, 0)
    assert (answer.decides.what, answer.decides.effect) == ("a − c, Ω", pytest.approx(0.01))
    close = [x - 0.005 for x in high]  # holds with the least margin, and decides nothing
    assert judged(close, middle).decides.what == "a − c, Ω"
    assert combine([NOT, NOT], 0, one=True) == NOT
    assert combine([NOT, UNDECIDED], 0, one=True) == UNDECIDED
    assert combine([NOT], 1, one=True) == NONE


def test_a_file_has_its_answer_under_one_name() -> None:
    good, bad = [0.9, 0.91, 0.92], [0.1, 0.12, 0.13]
    rows = {
        ("a", "emoji for CUB-200"): bad, ("b", "emoji for CUB-200"): good,
        ("a", "mnist"): good, ("b", "mnist"): bad,
        ("a", "brought"): good, ("b", "brought"): bad, ("a", "half"): good,
    }  # fmt: skip
    answers = status(claim(ABOVE), cells(results(rows)))
    assert answers == {"MNIST": HOLDS, "CUB": NONE, "emoji": NOT, "brought": HOLDS}
    assert set(status(claim(ABOVE, needs="a table"), []).values()) == {NONE}
    only = dataclasses.replace(ABOVE, files=("emoji",))
    assert status(claim(only), cells(results(rows)))["MNIST"] == NONE


def test_files_of_other_data_are_compared_without_pairs() -> None:
    rows = {("a", "emoji"): [0.1, 0.2, 0.3], ("a", "MNIST"): [0.7, 0.8, 0.9]}
    part = ClaimPart("2", "Ω", minus={"file": "MNIST"}, below=0, paired=False)
    (outcome,), missing = judge_part(cells(results(rows)), part, "emoji")
    assert missing == 0
    assert outcome.what == "a emoji − a MNIST, Ω"
    assert outcome.half == pytest.approx(0.1 * T2 / math.sqrt(3) * math.sqrt(2))


def test_sources_are_joined_by_seed_or_refused() -> None:
    labels = ("a", "MNIST")
    more = results({labels: [0.1, 0.2, 0.3]}), results({labels: [0.3, 0.4]}, [2, 3])
    (cell,) = cells(*more)
    assert cell.runs == {0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4}
    with pytest.raises(UserError, match="one value of each seed"):
        cells(more[0], results({labels: [0.9]}, [0]))
    (cell,) = cells(results({labels: [0.1]}), more[0])  # one of three: which seed is unknown
    assert cell.runs == {0: 0.1, 1: 0.2, 2: 0.3}


def test_rows_by_pattern_last_pool_and_since() -> None:
    rows: Rows = {
        ("a", "2"): [1, 2, 3], ("a", "10"): [5, 8, 9], ("b", "10"): [4, 4, 4], ("b", "2"): [0, 0],
    }  # fmt: skip
    at = cells(results(rows, heads=("learner", "after")))

    def chosen(part: ClaimPart) -> dict[str, float]:
        return {o.what: o.effect for o in judge_part(at, part, PRINTED)[0]}

    assert chosen(ClaimPart("2", "Ω", {"after": "last"}, above=0)) == {
        "a, Ω": pytest.approx(22 / 3), "b, Ω": 4,
    }  # fmt: skip
    assert chosen(ClaimPart("2", "Ω", {"after": "1*|x", "learner": ["a"]}, above=0)) == {  # type: ignore[dict-item]
        "a, Ω": pytest.approx(22 / 3)
    }
    mean = ClaimPart("2", "Ω", pool="after", above=0)
    assert chosen(mean)["a, Ω"] == pytest.approx(28 / 6)
    assert chosen(mean)["b, Ω"] == 4  # the row that lacks a run is left out
    spread = dataclasses.replace(mean, by="sd", where={"learner": "a"})
    (effect,) = chosen(spread).values()
    assert effect == pytest.approx((4 + 6 + 6) / 3 / math.sqrt(2))
    pairs = ClaimPart("2", "Ω", {"k": "*, new"}, minus={"where": {"k": "*, old"}}, above=0)
    layers: Rows = {("1, new",): [1], ("1, old",): [2], ("2, new",): [5], ("2, old",): [9]}
    outcomes, _ = judge_part(cells(results(layers, [0], ["k"])), pairs, PRINTED)
    assert [o.effect for o in outcomes] == [-1, -4]
    two = TableRow(("x",), {"s": Value(None, Stat.of([1, 2])), "e": Value(None, Stat.of([4, 8]))})
    table = PaperTable("3", "", ("k",), ("s", "e"), (two,))
    some = cells(Results("a", "", "", {}, (0, 1), (), (), (table,)))
    (outcome,), _ = judge_part(some, ClaimPart("3", "e", since="s", above=0), PRINTED)
    assert (outcome.what, outcome.effect) == ("x, e, since s", 4.5)


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (Value(0.33, Stat.of([0.3349]), 2, made=EXACT), HOLDS),
        (Value(0.33, Stat.of([0.3351]), 2, made=EXACT), NOT),
        (Value(0.99, Stat.of([0.3349]), 2, made=EXACT, reads=0.33), HOLDS),  # a misprint
    ],
)
def test_printed_digits(value: Value, word: str) -> None:
    table = PaperTable("2", "", ("k",), ("Ω",), (TableRow(("x",), {"Ω": value}),))
    some = cells(Results("a", "", "", {}, (), (), (), (table,)))
    made = claim(ClaimPart("2", "Ω", printed=True), arithmetic=True)
    assert status(made, some) == {PRINTED: word}


# --- claims.toml ---


def test_the_claims_are_whole() -> None:
    claims = [c for name in load_commands() for c in load_claims(name)]
    assert len({c.id for c in claims}) == len(claims) == 50
    for c in claims:
        assert c.threshold in ("printed", "derived", "ours"), c.id
        assert c.threshold == "ours" or not c.after_look, c.id
        assert c.command, c.id
        assert bool(c.parts) != bool(c.needs), c.id
        for part in c.parts:
            bounds = (part.above, part.below, part.within or None, part.printed or None)
            assert sum(bound is not None for bound in bounds) == 1, c.id
            assert part.by in ("mean", "sd"), c.id
            assert {*(part.minus or {})} <= {"table", "column", "where", "file"}, c.id
    used = {(c.paper, key) for c in claims for key in c.command}
    assert used == {(name, key) for name, of in load_commands().items() for key in of}


def test_the_commands_parse() -> None:
    reproduce: Any = typer.main.get_command(app.app).commands["reproduce"]  # type: ignore[attr-defined]
    for name, commands in load_commands().items():
        for line in commands.values():
            words = shlex.split(line)
            assert words[:3] == ["embedbench", "reproduce", name]
            context = reproduce.make_context("reproduce", words[2:])
            tables = paper(name)
            known = {*tables.exact, *tables.tables, *tables.costly}
            assert set(context.params["tables"] or ()) <= known, line


@pytest.mark.parametrize("name", list(load_commands()))
def test_the_places_exist(name: str) -> None:
    """Tables, columns and labels are those of stored results or, without any, of the code."""
    some = collect_cells(read_results([DATA], name)) if list(DATA.glob(f"{name}*")) else []
    made = {table["name"] for table in facts(name)["tables"].values()}
    for one in load_claims(name):
        for part in one.parts:
            here = [cell for cell in some if cell.table == part.table]
            minus = part.minus or {}
            other = minus.get("table", "")
            stored = {cell.table for cell in some} | made
            assert {part.table, other} - {""} <= stored, one.id
            if not here:
                continue
            columns = [part.column] if isinstance(part.column, str) else part.column
            assert {*columns, part.since} - {""} <= {cell.column for cell in here}, one.id
            heads = {head for cell in here for head in cell.labels}
            free = {*part.where, *(() if other else minus.get("where", ()))}
            assert free <= heads, one.id


# --- the page and the command ---


def test_the_page_and_the_readme_are_what_the_results_give() -> None:
    text, _ = make_claims_page([DATA], list(load_commands()))
    remedy = "embedbench reproduce all --claims --results docs/results/data --out docs"
    assert text == (ROOT / "docs" / "claims.md").read_text("utf-8"), remedy
    (line,) = re.findall(r"^\*\*In short\*\*.* to 50 claims: (.{1,400})$", text, re.MULTILINE)
    readme = (ROOT / "README.md").read_text("utf-8")
    assert "[50 claims of five papers](docs/claims.md)" in readme
    assert line in readme


def test_the_command_judges_what_is_brought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Any:
        return embedbench("reproduce", *words, "--claims")

    result = run("new-metrics", "--results", str(DATA), "--out", "a", "--json")
    assert result.exit_code == 0, result.output
    answers = {(a["claim"], a["file"]): a["status"] for a in json.loads(result.stdout)}
    assert answers["N6", "faces-deep"] == HOLDS
    assert answers["N6", "CIFAR-100"] == NONE
    assert "| N6 |" in Path("a/claims.md").read_text("utf-8")
    result = run("new-metrics", "--results", "a", "--table", "1")
    assert "take no --table" in str(result.exception)
    for words in (["new-metrics"], ["all"], ["nobody2020"]):
        assert isinstance(run(*words).exception, UserError)


@pytest.mark.parametrize(
    ("a", "b", "paired", "word"),
    [
        ([0.2, 0.5, 0.8], [0.1, 0.41, 0.7], True, HOLDS),
        ([0.2, 0.5, 0.8], [0.1, 0.41, 0.7], False, UNDECIDED),  # two wide intervals
        ([0.9], [0.1], True, UNDECIDED),
        ([0.9, 0.8], [0.2, 0.1], True, UNDECIDED),  # two equal differences
        ([0.2, 0.5, 0.8], [0.2, 0.5, 0.8], True, NOT),  # a tie in every seed
        ([math.nan] * 3, [0.2, 0.5, 0.8], True, NONE),
    ],
)
def test_a_contrast_of_two_rows(a: list[float], b: list[float], paired: bool, word: str) -> None:
    rows = {("a", "MNIST"): a, ("b", "MNIST"): b}
    part = dataclasses.replace(ABOVE, paired=paired)
    assert status(claim(part), cells(results(rows, range(len(a)))))["MNIST"] == word
