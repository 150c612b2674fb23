"""Files of results: written, read back, refused; joined into verdicts and pages."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from reproduce_files import blob_file

from embedbench.errors import UserError
from embedbench.papers.evidence import Line, compare, counts, page_text, tables_without_print, text
from embedbench.papers.paper import Paper
from embedbench.papers.published import COLUMNS, EXACT, PaperTable, Value
from embedbench.papers.results import Results, read_results
from embedbench.papers.runs import PaperRuns
from embedbench.scores.mean_intervals import Stat

THREE = (0.49, 0.5, 0.51)


def table(*rows: tuple[tuple[str, str], Value], **more: Any) -> PaperTable:
    """Methods on data sets."""
    made = [(labels, {"Ω": value}) for labels, value in rows]
    return PaperTable("2", "Ω", ("learner", "data"), ("Ω",), made, method="learner", **more)


PRINTED = table(
    (("A", "birds"), Value(0.5)), (("B", "birds"), Value(0.8)), (("C", "birds"), Value())
)


def stand_in(a: float, b: float, data: str) -> PaperTable:
    """A and B on other data, with intervals of .025."""
    rows = (
        ((name, f"{data} for birds"), Value(printed, Stat.of([v + x for v in THREE]), 3, True))
        for name, printed, x in (("A", 0.5, a - 0.5), ("B", 0.8, b - 0.5))
    )
    return table(*rows, printed={f"{data} for birds": "birds"}, notes=[f"on {data}"])


def real(*values: float) -> PaperTable:
    """A on the paper's data."""
    return table((("A", "birds"), Value(0.5, Stat.of(values))))


def results(*tables: PaperTable, failed: tuple[str, ...] = ()) -> Results:
    return Results.now("some2027", ["some2027"], [0, 1, 2], [], tables, failed)


def lines(**sources: PaperTable) -> list[Line]:
    (compared,) = compare([PRINTED], {name: results(t) for name, t in sources.items()})
    return list(compared.lines)


def test_without_sources_every_printed_row_cannot_be_checked() -> None:
    assert [line.verdict for line in lines()] == ["cannot be checked here"] * 2 + [None]


def test_other_data_are_judged_by_the_printed_order() -> None:
    verdicts = [line.verdict for line in lines(one=stand_in(0.2, 0.3, "cats"))]
    assert verdicts == ["in kind", "in kind", None]
    verdicts = [line.verdict for line in lines(one=stand_in(0.3, 0.2, "cats"))]
    assert verdicts == ["not", "not", None]


def test_the_papers_own_data_decide_and_the_most_runs_of_them() -> None:
    (first, *_) = lines(a=stand_in(0.2, 0.3, "cats"), b=real(0.9, 0.9, 0.9))
    assert first.decisive is not None
    assert (first.verdict, first.decisive.source, len(first.entries)) == ("not", "b", 2)
    (first, *_) = lines(b=real(0.9, 0.9, 0.9), c=real(*THREE, 0.5), d=real(0.1, 0.1, 0.1))
    assert first.decisive is not None
    assert (first.verdict, first.decisive.source) == ("reproduced", "c")


def test_of_other_data_the_best_verdict_counts_and_then_the_first_name() -> None:
    worse, better = stand_in(0.3, 0.2, "cats"), stand_in(0.2, 0.3, "dogs")
    (first, *_) = lines(a=worse, c=better, b=stand_in(0.1, 0.9, "eels"))
    assert first.decisive is not None
    assert (first.verdict, first.decisive.data) == ("in kind", "eels for birds")
    assert [e.verdict.word for e in first.entries] == ["not", "in kind", "in kind"]


def test_the_printed_value_is_the_papers_and_not_the_files() -> None:
    forged = table((("A", "birds"), Value(0.9, Stat.of([0.9, 0.9, 0.9]), made=EXACT)))
    (first, *_) = lines(a=forged)
    assert first.verdict == "not"
    assert first.entries[0].values["Ω"].published == 0.5


def test_methods_in_columns_are_compared_within_their_row() -> None:
    heads = ("session",)
    values = {"A": Value(0.5), "B": Value(0.8)}
    printed = PaperTable("5", "t", heads, ("A", "B"), [(("0",), values)], method=COLUMNS)
    stat = {"A": Stat.of(THREE), "B": Stat.of([v + 0.2 for v in THREE])}
    ours = {name: replace(v, ours=stat[name], stands_in=True) for name, v in values.items()}
    source = PaperTable("5 · x", "t", heads, ("A", "B"), [(("0",), ours)], of="5", data="x for y")
    (compared,) = compare([printed], {"one": results(source)})
    assert compared.lines[0].verdict == "in kind"
    assert compared.lines[0].entries[0].data == "x for y"


def test_rows_are_counted_by_verdict_and_by_kind() -> None:
    exact = PaperTable("1", "t", ("a",), ("v",))
    exact.rows = [(("x",), {"v": Value(4.17, decimals=2, made=EXACT)})]
    ours = {"v": Value(4.17, Stat.of([4.1667]), 2, made=EXACT)}
    source = replace(exact, rows=[(("x",), ours)])
    compared = compare([exact, PRINTED], {"one": results(source, real(0.1, 0.1, 0.1))})
    assert counts(compared) == {
        ("reproduced", True): 1,
        ("not", False): 1,
        ("cannot be checked here", False): 1,
    }


def test_tables_without_printed_rows_are_named_apart() -> None:
    other = PaperTable("Rankings", "t", ("a",), ("v",), [(("x",), {"v": Value(words=("–", "y"))})])
    empty = PaperTable("Figure 1", "t", (), ())
    (left,) = tables_without_print(
        [PRINTED], {"one": results(stand_in(0.2, 0.3, "cats"), other, empty)}
    )
    assert left.title == "t [one]"


# --- the page ---

SOME: Paper[PaperRuns] = Paper(
    name="some2027",
    citation="Some et al. (2027): Some",
    stem="some",
    runs=lambda asked, tables: asked.runs(PaperRuns),
    specs=lambda runs, tables: [],
    learners=list,
    printed=lambda: [PRINTED],
)


def test_a_page_has_the_counts_and_every_source_of_a_row() -> None:
    sources = {
        "cats": results(stand_in(0.2, 0.3, "cats")),
        "mine": results(real(*THREE), failed=("A: *broken*",)),
    }
    page, of_verdict = page_text(SOME, sources)
    assert of_verdict == {
        "reproduced": 1, "in kind": 1, "not": 0, "cannot be checked here": 0,
    }  # fmt: skip
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert "| reproduced | 1 | 1 | 0 |" in rows
    at = rows.index(
        "| A | birds | 0.500 | 0.500 ±0.025 | +0.000 | 3 runs; source mine | **reproduced** |"
    )
    assert rows[at + 1] == (
        "|  |  |  | 0.200 ±0.025 | −0.300 | 3 runs; cats for birds; source cats "
        "| in kind (against 1) |"
    )
    assert rows[at + 3] == "| C | birds | – | – |  |  | – |"
    assert "- on cats" in page
    assert r"mine: A: \*broken\*" in page


def test_a_page_counts_misprints_and_fitted_rows() -> None:
    def of(printed: PaperTable) -> str:
        some = replace(SOME, printed=lambda: [printed])
        return page_text(some, {"mine": results(real(*THREE))})[0]

    for value, words in (
        (Value(0.5), "are 0 with a misprint"),
        (Value(0.9, remark="wrong", reads=0.5), "are 1 with a misprint"),
        (Value(0.9, fitted=True, remark="wrong", reads=0.5), "and 1 to which settings"),
        (Value(0.5), "and 0 to which settings"),
        (Value(0.9, fitted=True), "and 0 to which settings"),  # not reproduced
    ):
        assert words in of(table((("A", "birds"), value)))


def test_text_of_files_is_no_markup() -> None:
    assert text("a|b\n<i>[x](y)*`\x1b[31m") == r"a\|b \<i\>\[x\](y)\*\`" + text("\x1b[31m")
    assert "\x1b" not in text("\x1b[31m")


# --- files ---


def test_results_are_read_back(tmp_path: Path) -> None:
    file = blob_file(tmp_path / "birds.h5", 2, 4)
    words = ["some2027", "--data", f"mnist={file.path}", "--set", "a.b=1"]
    made = Results.now("some2027", words, [0, 1], [file.path] * 2, [stand_in(0.2, 0.3, "c")], [])
    assert made.command == "embedbench reproduce some2027 --data mnist=birds.h5 --set a.b=1"
    assert [(f.name, f.digests["content"]) for f in made.files] == [
        ("birds.h5", file.digests["content"])
    ]
    made.write(tmp_path / "a.json")
    assert str(tmp_path) not in (tmp_path / "a.json").read_text("utf-8")
    assert read_results([tmp_path], "some2027") == {"a": made}
    assert read_results([tmp_path / "a.json"], "other2027") == {}
    assert Results.now("some2027", [], [0, 1], [], [], []).seeds == ()


def _value(data: Any) -> Any:
    return data["tables"][0]["rows"][0]["values"]["Ω"]


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "format": (lambda d: d.update(format="x"), "must hold 'embedbench-results' of version 1"),
    "version": (lambda d: d.update(version=2), "of version 1, which embedbench reproduce writes"),
    "missing": (lambda d: d.pop("seeds"), "the key seeds is missing"),
    "type": (lambda d: d.update(tables=3), "tables must be a list"),
    "labels": (lambda d: d["tables"][0]["rows"][0]["labels"].pop(), "expected 2 labels, got 1"),
    "column": (lambda d: d["tables"][0].update(columns=["v"]), "no column 'Ω'"),
    "made": (lambda d: _value(d).update(made="up"), "'made' must be drawn, fixed or exact"),
    "words": (lambda d: _value(d).update(words=["a"]), "'words' must be two texts, got 1"),
    "rounding": (lambda d: _value(d).update(rounding=-1), "'rounding' must be 0 or more"),
    "mean": (lambda d: _value(d)["ours"].update(mean=0.6), "must be those of the values"),
    "half": (lambda d: _value(d)["ours"].update(half_95=0.001), "must be those of the values"),
    "no half": (lambda d: _value(d)["ours"].update(half_95=None), "must be those of the values"),
    "no value": (lambda d: _value(d)["ours"].update(values=[None]), "must be those of the values"),
    "negative": (lambda d: _value(d).update(decimals=-1), "'decimals' must be 0 to 12, got -1"),
    "one more": (lambda d: _value(d).update(decimals=13), "'decimals' must be 0 to 12, got 13"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_files_are_refused_with_one_sentence(what: str, tmp_path: Path) -> None:
    change, sentence = WRONG[what]
    data = results(real(*THREE)).to_json()
    change(data)
    path = tmp_path / "a.json"
    path.write_text(json.dumps(data), "utf-8")
    with pytest.raises(UserError) as error:
        Results.read(path)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
    if what not in ("format", "version", "missing", "type"):
        labels = data["tables"][0]["rows"][0]["labels"]
        where = f"{path}: table '2', row {tuple(labels)}: "
        assert str(error.value).startswith(where)


@pytest.mark.parametrize("decimals", [0, 12])
def test_decimals_up_to_the_limits_and_a_single_run_are_read(decimals: int, tmp_path: Path) -> None:
    value = Value(0.5, Stat.of([0.5]), decimals)  # of one run there is no interval
    made = results(table((("A", "birds"), value)))
    made.write(tmp_path / "a.json")
    (row,) = Results.read(tmp_path / "a.json").tables[0].rows
    assert row.values["Ω"].texts() == value.texts()


@pytest.mark.parametrize("content", ["", "[]", "3", "{", '{"format": "embedbench-results"}'])
def test_what_is_no_file_of_results_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(content, "utf-8")
    with pytest.raises(UserError):
        read_results([tmp_path], "some2027")


def test_directories_without_results_and_names_that_occur_twice_are_refused(tmp_path: Path) -> None:
    empty = rf"{tmp_path} must hold 1 to 1000 files \*\.json, has 0"
    with pytest.raises(UserError, match=empty):
        read_results([tmp_path], "some2027")
    (tmp_path / "b").mkdir()
    for path in (tmp_path / "a.json", tmp_path / "b" / "a.json"):
        results().write(path)
    with pytest.raises(UserError, match=r"two files of results are named a\.json"):
        read_results([tmp_path, tmp_path / "b"], "some2027")
    with pytest.raises(UserError, match="none"):
        read_results([tmp_path / "none"], "some2027")
