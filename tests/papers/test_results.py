"""Files of results: written, read back, refused; and the appendix of a paper's rows beside them."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import repository
from command_line import embedbench
from paper_tables import rows_of
from reproduce_files import blob_file

from embedbench.errors import UserError
from embedbench.papers import printed_beside_ours
from embedbench.papers.paper import Paper, PaperRuns
from embedbench.papers.paper_folders import facts, names
from embedbench.papers.paper_table import EXACT, PaperTable, Value
from embedbench.papers.printed_beside_ours import (
    RUNS,
    Entry,
    compare,
    is_plausible,
    make_page,
)
from embedbench.papers.result_files import Results, read_results
from embedbench.scores.mean_intervals import Stat

THREE = (0.49, 0.5, 0.51)


def table(*rows: tuple[tuple[str, str], Value], **more: Any) -> PaperTable:
    """Methods on data sets."""
    made = rows_of(*((labels, {"Ω": value}) for labels, value in rows))
    return PaperTable("2", "Ω", ("learner", "data"), ("Ω",), made, **more)


PRINTED = table(
    (("A", "birds"), Value(0.5)), (("B", "birds"), Value(0.8)), (("C", "birds"), Value())
)


def stand_in(a: float, b: float, data: str) -> PaperTable:
    """A and B on other data, with intervals of .025."""
    rows = (
        ((name, f"{data} for birds"), Value(printed, Stat.of([v + x for v in THREE]), 3, True))
        for name, printed, x in (("A", 0.5, a - 0.5), ("B", 0.8, b - 0.5))
    )
    return table(*rows, printed={f"{data} for birds": "birds"}, notes=(f"on {data}",))


def real(*values: float) -> PaperTable:
    """A on the paper's data."""
    return table((("A", "birds"), Value(0.5, Stat.of(values))))


def results(*tables: PaperTable, failed: tuple[str, ...] = ()) -> Results:
    return Results.now("some2027", ["some2027"], [0, 1, 2], [], tables, failed)


def entries(**sources: PaperTable) -> list[list[Entry]]:
    ((_, rows),) = compare([PRINTED], {name: results(t) for name, t in sources.items()})
    return [of_row for _, of_row in rows]


def test_every_printed_row_has_its_entries_the_papers_own_data_and_most_runs_first() -> None:
    assert entries() == [[], [], []]
    first, second, third = entries(
        a=stand_in(0.2, 0.3, "cats"), b=real(0.9, 0.9), c=real(*THREE, 0.5)
    )
    assert [(e.source, e.data, e.runs) for e in first] == [
        ("c", "", 4), ("b", "", 2), ("a", "cats for birds", 3),
    ]  # fmt: skip
    assert ([e.source for e in second], third) == (["a"], [])
    # the printed value is the paper's and not the file's
    forged = table((("A", "birds"), Value(0.9, Stat.of([0.9, 0.9, 0.9]), made=EXACT)))
    value = entries(a=forged)[0][0].values["Ω"]
    assert (value.published, value.made) == (0.5, "drawn")


def test_runs_on_other_data_stand_in_one_table_alone() -> None:
    again = replace(PRINTED, name="3")
    both = results(stand_in(0.2, 0.3, "cats"), replace(stand_in(0.2, 0.3, "cats"), of="3"))
    (_, one), (_, other) = compare([PRINTED, again], {"one": both})
    assert [len(e) for _, e in one] == [1, 1, 0]
    assert [len(e) for _, e in other] == [0, 0, 0]
    own = results(real(*THREE), replace(real(*THREE), of="3"))
    (_, one), (_, other) = compare([PRINTED, again], {"one": own})  # the paper prints both
    assert len(one[0][1]) == len(other[0][1]) == 1


# t(.975, 9) = 2.2622; of ten values with s = 1/30 around .5: half-widths by hand
@pytest.mark.parametrize(("behind", "half"), [(1, 0.07909), (10, 0.03372)])
def test_the_prediction_interval_by_hand(behind: int, half: float) -> None:
    x = np.array([-1.5, -1, -0.5, -0.5, 0, 0, 0.5, 0.5, 1, 1.5])
    ours = Stat.of(0.5 + x / x.std(ddof=1) / 30)
    assert 2.26216 / 30 * math.sqrt(1 / behind + 0.1) == pytest.approx(half, abs=1e-5)
    for distance, expected in ((half + 0.0004, True), (half + 0.0006, False)):  # .0005: rounding
        for sign in (-1, 1):
            value = Value(0.5 + sign * distance, ours, 3)
            assert is_plausible(value, behind, "") is expected
            of_points = Value(100 * value.published, Stat.of(100 * np.array(ours.values)), 1)  # type: ignore[operator]
            assert is_plausible(replace(of_points, decimals=1), behind, "%") is expected


def test_nothing_is_said_where_it_cannot_be() -> None:
    value = Value(0.5, Stat.of(np.linspace(0.45, 0.55, RUNS)))
    assert is_plausible(value, 1, "") is True
    assert is_plausible(replace(value, published=0.9, remark="wrong", reads=0.5), 1, "") is True
    for change in (
        {"ours": Stat.of(np.linspace(0.45, 0.55, RUNS - 1))},
        {"ours": Stat.of(np.linspace(0.3, 0.7, RUNS))},  # ± .29
        {"ours": None},
        {"ours": Stat.of([math.nan] * RUNS)},
        {"published": None},
        {"stands_in": True},
        {"made": EXACT},
        {"remark": "wrong"},
    ):
        assert is_plausible(replace(value, **change), 1, "") is None  # type: ignore[arg-type]


# --- the page ---

FACTS = {"name": "some2027", "citation": "Some et al. (2027): Some", "stem": "some"}
SOME = Paper(
    FACTS,
    runs=PaperRuns,
    printed=lambda: [PRINTED],
)


@pytest.fixture
def page_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, dict[str, int]]]:
    """The page of a paper, from results by the name of their file."""

    def make(paper: Paper, sources: dict[str, Results]) -> tuple[str, dict[str, int]]:
        monkeypatch.setattr(printed_beside_ours, "read_results", lambda *_: sources)
        return make_page(paper, [])

    return make


def test_a_page_has_the_counts_and_every_source_of_a_row(page_of: Any) -> None:
    heads, rows = ("a",), rows_of((("x",), {"v": Value(words=("–", "y"))}))
    other, empty = (
        PaperTable("Rankings", "t", heads, ("v",), rows),
        PaperTable("Figure 1", "", (), ()),
    )
    sources = {
        "cats": results(stand_in(0.2, 0.3, "cats"), other, empty),
        "mine": results(real(*THREE), failed=("A: *broken*",)),
    }
    page, counts = page_of(SOME, sources)
    assert list(counts.values()) == [1, 1, 0, 0, 0]
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    at = lines.index("| A | birds | 0.500 | 0.500 ±0.025 | +0.000 | 3 runs; source mine |")
    assert lines[at + 1] == (
        "|  |  |  | 0.200 ±0.025 | −0.300 | 3 runs; cats for birds; source cats |"
    )
    assert lines[at + 3] == "| C | birds | – | – |  |  |"
    assert "- on cats" in page
    assert r"mine: A: \*broken\*" in page
    # tables without printed rows are below
    assert page.endswith("### t \\[cats\\]\n\n| a | v |\n| --- | --- |\n| x | y |\n")


@pytest.mark.parametrize(("middle", "word"), [(0.5, "yes"), (0.7, "no")])
def test_a_page_says_what_is_plausible_as_a_run_of_ours(
    middle: float, word: str, page_of: Any
) -> None:
    ten = real(*np.linspace(middle - 0.02, middle + 0.02, RUNS))
    page, counts = page_of(SOME, {"mine": results(ten)})
    assert list(counts.values())[-2:] == [word == "yes", word == "no"]
    assert f"| 10 runs; source mine | {word} |" in page
    behind = replace(SOME, facts={**FACTS, "runs_behind": {"2": 10}})
    near = {"mine": results(real(*np.linspace(0.50, 0.54, RUNS)))}  # mean .52, s .013
    said = [page_of(p, near)[1]["plausible as a run of ours"] for p in (SOME, behind)]
    assert said == [1, 0]


# --- files ---


def test_results_are_read_back(tmp_path: Path) -> None:
    file = blob_file(tmp_path / "birds.h5", 2, 4)
    words = ["some2027", "--data", f"mnist={file.path}", "--set", "a.b=1"]
    single = table(*((("A", "birds"), Value(0.5, Stat.of([0.5]), n)) for n in (0, 12)))
    tables = [stand_in(0.2, 0.3, "c"), single]  # of one run there is no interval
    made = Results.now("some2027", words, [0, 1], [file.path] * 2, tables, [])
    assert made.command == "embedbench reproduce some2027 --data mnist=birds.h5 --set a.b=1"
    digests = [(f.name, f.digests["content"]) for f in made.files]
    assert digests == [("birds.h5", file.digests["content"])]
    made.write(tmp_path / "a.json")
    assert str(tmp_path) not in (tmp_path / "a.json").read_text("utf-8")
    again = read_results([tmp_path], "some2027")["a"]
    assert [t.lines() for t in again.tables] == [t.lines() for t in made.tables]
    assert str(again) == str(made)
    assert read_results([tmp_path / "a.json"], "other2027") == {}
    assert Results.now("some2027", [], [0, 1], [], [], []).seeds == ()


def _value(data: Any) -> Any:
    return data["tables"][0]["rows"][0]["values"]["Ω"]


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "format": (lambda d: d.update(format="x"), "must hold 'embedbench-results' of version 1"),
    "version": (lambda d: d.update(version=2), "of version 1, which embedbench reproduce writes"),
    "missing": (lambda d: d.pop("seeds"), "the key seeds is missing"),
    "type": (lambda d: d.update(tables=3), "tables must be a list"),
}
UNSOUND: dict[str, Callable[[Any], Any]] = {
    "labels": lambda d: d["tables"][0]["rows"][0]["labels"].pop(),
    "column": lambda d: d["tables"][0].update(columns=["v"]),
    "words": lambda d: _value(d).update(words=["a"]),
    "mean": lambda d: _value(d)["ours"].update(mean=0.6),
    "half": lambda d: _value(d)["ours"].update(half_95=0.001),
    "no half": lambda d: _value(d)["ours"].update(half_95=None),
    "no value": lambda d: _value(d)["ours"].update(values=[None]),
    "negative": lambda d: _value(d).update(decimals=-1),
    "one more": lambda d: _value(d).update(decimals=13),
}


@pytest.mark.parametrize("what", [*WRONG, *UNSOUND])
def test_wrong_files_are_refused_with_one_sentence(what: str, tmp_path: Path) -> None:
    data, path = results(real(*THREE)).to_json(), tmp_path / "a.json"
    change, sentence = WRONG[what] if what in WRONG else (UNSOUND[what], "expected 2 labels")
    change(data)
    path.write_text(json.dumps(data), "utf-8")
    with pytest.raises(UserError) as error:
        Results.read(path)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
    if what in UNSOUND:
        labels = data["tables"][0]["rows"][0]["labels"]
        assert str(error.value).startswith(f"{path}: table '2', row {tuple(labels)}: ")


def test_directories_without_results_and_names_that_occur_twice_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"1 to 1000 files \*\.json, has 0"):
        read_results([tmp_path], "some2027")
    (tmp_path / "b").mkdir()
    for path in (tmp_path / "a.json", tmp_path / "b" / "a.json"):
        results().write(path)
    with pytest.raises(UserError, match=r"two files of results are named a\.json"):
        read_results([tmp_path, tmp_path / "b"], "some2027")
    with pytest.raises(UserError, match="none"):
        read_results([tmp_path / "none"], "some2027")
    for content in ("", "[]", "{"):
        (tmp_path / "a.json").write_text(content, "utf-8")
        with pytest.raises(UserError, match=r"a\.json"):
            read_results([tmp_path], "some2027")


# --- the site's pages of results: its build makes them from the committed data ---

DATA = Path(__file__).resolve().parents[2] / "docs" / "results" / "data"
PAPERS = [of_folder[0] for of_folder in names().values()]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The pages that a build writes, by the paper's name."""
    out = tmp_path_factory.mktemp("results")
    repository.write_results(out)
    return {path.stem: path.read_text("utf-8") for path in out.iterdir()}


def test_every_paper_has_a_page_with_all_its_tables(pages: dict[str, str]) -> None:
    assert sorted(pages) == sorted(PAPERS)
    for name, page in pages.items():
        stem = next(n[-1] for n in names().values() if n[0] == name)
        for number in facts(stem)["printed"]["tables"]:
            assert f"\n## Table {number}: " in page
        for source in read_results([DATA], name):
            assert f"| {source} | `embedbench reproduce {name}" in page


def test_ten_seeds_of_the_mlp_on_mnist_say_what_is_plausible(pages: dict[str, str]) -> None:
    rows = [line for line in pages["kemker2018"].splitlines() if "source kemker2018-mlp" in line]
    said = [line.split(" | ")[-1].split(" |")[0] for line in rows if "10 runs" in line]
    assert len(said) >= 2  # the MLP on permutation and incremental class
    assert all(set(words.split(" / ")) <= {"yes", "no", "–"} for words in said)
    assert any("yes" in words for words in said)


def test_every_file_of_data_is_of_a_paper_and_without_paths_of_a_machine() -> None:
    for path in DATA.iterdir():
        text = path.read_text("utf-8")
        assert json.loads(text)["paper"] in PAPERS
        assert path.stem.startswith(json.loads(text)["paper"])
        assert not any(start in text for start in ("/home/", "/tmp/", "/root/", "/Users/"))


def test_the_command_writes_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: dict[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["reproduce", "michel2023", "--results"]
    result = embedbench(*words, DATA, "--out", "a", "--json")
    assert result.exit_code == 0, result.output
    assert Path("a/michel2023.md").read_text("utf-8") == pages["michel2023"]
    assert "take no --table" in str(embedbench(*words, DATA, "--table", "1").exception)
    assert isinstance(embedbench(*words, "none").exception, UserError)
    assert embedbench("reproduce", "michel2023", "--table", "2", "--out", "b").exit_code == 0
    result = embedbench(*words, "b")
    assert result.exit_code == 0, result.output
    counted = {line.split(maxsplit=1)[1]: line.split()[0] for line in result.stdout.splitlines()}
    assert (counted["ours on the paper's data"], counted["without ours"]) == ("4", "5")
    assert "wrote reproduce/new-metrics/michel2023.md" in result.stderr
