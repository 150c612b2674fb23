"""Files of results: written, read back, refused; and shown again."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import repository
from command_line import embedbench
from paper_tables import rows_of
from reproduce_files import blob_file

from embedbench.errors import UserError
from embedbench.papers.paper_folders import facts, names
from embedbench.papers.paper_table import PaperTable, Value
from embedbench.papers.result_files import Results, read_results
from embedbench.scores.mean_intervals import Stat
from embedbench.text.markdown import escape_markdown

THREE = (0.49, 0.5, 0.51)


def table(*rows: tuple[tuple[str, str], Value], **more: Any) -> PaperTable:
    """Methods on data sets."""
    made = rows_of(*((labels, {"Ω": value}) for labels, value in rows))
    return PaperTable("2", "Ω", ("learner", "data"), ("Ω",), made, **more)


def stand_in(a: float, b: float, data: str) -> PaperTable:
    """A and B on other data, with intervals of .025."""
    rows = (
        ((name, f"{data} for birds"), Value(printed, Stat.of([v + x for v in THREE]), 3, True))
        for name, printed, x in (("A", 0.5, a - 0.5), ("B", 0.8, b - 0.5))
    )
    return table(*rows, notes=(f"on {data}",))


def real(*values: float) -> PaperTable:
    """A on the paper's data."""
    return table((("A", "birds"), Value(0.5, Stat.of(values))))


def results(*tables: PaperTable, failed: tuple[str, ...] = ()) -> Results:
    return Results.now("some2027", ["some2027"], [0, 1, 2], [], tables, failed)


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


def test_every_paper_has_a_page_with_all_tables_of_its_results(pages: dict[str, str]) -> None:
    assert sorted(pages) == sorted(PAPERS)
    for name, page in pages.items():
        assert page.startswith(f"# {facts(name)['citation']}\n")
        for source, stored in read_results([DATA], name).items():
            assert f"\n## {source}\n\n{stored.date}: `embedbench reproduce {name}" in page
            for one in (t for t in stored.tables if t.rows):
                assert escape_markdown(one.heading) in page
    row = re.compile(
        r"^\| permutation \| MLP \| MNIST \| 0\.434 \| 0\.\d+ ±0\.\d+ \| [+−]0\.", re.M
    )
    assert len(row.findall(pages["kemker2018"])) == 3  # printed, ours, difference; three files


def test_every_file_of_data_is_of_a_paper_and_without_paths_of_a_machine() -> None:
    for path in DATA.iterdir():
        text = path.read_text("utf-8")
        assert json.loads(text)["paper"] in PAPERS
        assert path.stem.startswith(json.loads(text)["paper"])
        assert not any(start in text for start in ("/home/", "/tmp/", "/root/", "/Users/"))


def test_the_command_shows_the_tables_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["reproduce", "michel2023", "--results"]
    made = embedbench("reproduce", "michel2023", "--table", "2", "--out", "b")
    assert made.exit_code == 0
    again = embedbench(*words, "b")
    assert again.exit_code == 0, again.output
    assert made.stdout.strip() in again.stdout
    assert "embedbench reproduce michel2023 --table 2" in again.stdout
    result = embedbench(*words, DATA, "--results", "b", "--csv")
    assert result.exit_code == 0, result.output
    head, *rows = result.stdout.splitlines()
    assert head.startswith("source,table,")
    assert {row.split(",")[0] for row in rows} == {
        "michel2023-faces", "michel2023-spoken100", "new-metrics",
    }  # fmt: skip
    assert "take no --table" in str(embedbench(*words, DATA, "--table", "1").exception)
    assert isinstance(embedbench(*words, "none").exception, UserError)
