"""Files of results: written, read back, refused; shown again; and the committed ones."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import embedbench
from reproduce_files import blob_file

from embedbench.errors import UserError
from embedbench.papers.paper import PaperData
from embedbench.papers.paper_folders import facts, names, paper
from embedbench.papers.paper_table import PaperTable, TableRow, Value
from embedbench.papers.result_files import PaperResults, read_results
from embedbench.scores.mean_intervals import Stat
from embedbench.text.markdown import escape_markdown

THREE = (0.49, 0.5, 0.51)
DATA = Path(__file__).resolve().parents[2] / "docs" / "results" / "data"
PAPERS = [of_folder[0] for of_folder in names().values()]
# nothing in these files is without runs
RUNS_ALONE = (
    "kemker2018-s1$|masana2020-cifar100-conve$|abdelsalam2021-(.*-share|cifar100-conve)$|"
    "tang2024-(?!printed)"
)


def table(*values: Value) -> PaperTable:
    rows = tuple(TableRow(("A", "birds"), {"Ω": value}) for value in values)
    return PaperTable("2", "Ω", ("learner", "data"), ("Ω",), rows, notes=("on birds",))


def results(*tables: PaperTable) -> PaperResults:
    return PaperResults.now("some2027", ["some2027"], [0, 1, 2], [], tables, ["mlp: why"])


def test_results_are_read_back(tmp_path: Path) -> None:
    file = blob_file(tmp_path / "birds.h5", 2, 4)
    words = ["some2027", "--data", f"mnist={file.path}", "--set", "a.b=1"]
    single = table(*(Value(0.5, Stat.of([0.5]), n) for n in (0, 12)))
    several = table(Value(0.8, Stat.of(THREE), 3, stands_in=True))
    made = PaperResults.now("some2027", words, [0, 1], [file.path] * 2, [several, single], [])
    assert made.command == "embedbench reproduce some2027 --data mnist=birds.h5 --set a.b=1"
    digests = [(f.name, f.digests["content"]) for f in made.files]
    assert digests == [("birds.h5", file.digests["content"])]
    made.write(tmp_path / "a.json")
    text = json.dumps(made.to_json(), indent=1, ensure_ascii=False)
    assert (tmp_path / "a.json").read_text("utf-8") == f"{text}\n"
    assert [*made.versions] == ["embedbench", "python", "numpy", "torch"]
    assert str(read_results([tmp_path], "some2027")) == str({"a": made})
    assert read_results([tmp_path / "a.json"], "other2027") == {}
    assert results().seeds == ()


def _value(data: Any) -> Any:
    return data["tables"][0]["rows"][0]["values"]["Ω"]


UNSOUND = r": table '2', row \(.*'birds'"
WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "format": (lambda d: d.update(format="x"), "must hold 'embedbench-results'"),
    "version": (
        lambda d: d.update(version=2),
        "a newer embedbench: .* version 2, and this one reads 1 ",
    ),
    "missing": (lambda d: d.pop("seeds"), "key seeds"),
    "type": (lambda d: d.update(tables=3), "tables .* list, got 3"),
    "labels": (lambda d: d["tables"][0]["rows"][0]["labels"].pop(0), UNSOUND),
    "column": (lambda d: d["tables"][0].update(columns=["v"]), UNSOUND),
    "mean": (lambda d: _value(d)["ours"].update(mean=0.6), UNSOUND),
    "half": (lambda d: _value(d)["ours"].update(half_95=0.001), UNSOUND),
    "no half": (lambda d: _value(d)["ours"].update(half_95=None), UNSOUND),
    "no value": (lambda d: _value(d)["ours"].update(values=[None]), UNSOUND),
    "negative": (lambda d: _value(d).update(decimals=-1), UNSOUND),
    "one more": (lambda d: _value(d).update(decimals=13), UNSOUND),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_files_are_refused_with_one_sentence(what: str, tmp_path: Path) -> None:
    data, path = results(table(Value(0.5, Stat.of(THREE)))).to_json(), tmp_path / "a.json"
    change, sentence = WRONG[what]
    change(data)
    path.write_text(json.dumps(data), "utf-8")
    with pytest.raises(UserError, match=f"^{path}.*{sentence}[^\n]*$"):
        PaperResults.read(path)


def test_directories_without_results_and_names_that_occur_twice_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"1000 .*\*\.json, has 0"):
        read_results([tmp_path], "some2027")
    (tmp_path / "b").mkdir()
    for path in (tmp_path / "a.json", tmp_path / "b" / "a.json"):
        results().write(path)
    with pytest.raises(UserError, match=r"two files .* a\.json"):
        read_results([tmp_path, tmp_path / "b"], "some2027")
    for content in ("", "[]", "{"):
        (tmp_path / "a.json").write_text(content, "utf-8")
        with pytest.raises(UserError, match=r"a\.json"):
            read_results([tmp_path], "some2027")


def printed(table: PaperTable) -> list[Any]:
    """Rows with published values: their labels but for what depends on our data, and the values."""
    named = [k for k, head in enumerate(table.heads) if head not in ("data", "capacity")]
    return [
        (
            [row.labels[k].removesuffix(" *") for k in named],
            {
                column: (v.published, v.sd, v.decimals, v.reads, bool(v.remark), v.made)
                for column, v in row.values.items()
                if v.published is not None
            },
        )
        for row in table.rows
        if any(v.published is not None for v in row.values.values())
    ]


@pytest.mark.parametrize("stored", sorted(DATA.iterdir()), ids=lambda path: path.stem)
def test_committed_results(stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed, and what needs no runs, is as it was when the results were made."""
    text, kept = stored.read_text("utf-8"), PaperResults.read(stored)
    assert not any(start in text for start in ("/home/", "/tmp/", "/root/", "/Users/"))
    assert stored.stem.startswith(kept.paper)
    of_paper = paper(kept.paper)
    monkeypatch.setattr(of_paper.runs, "of", lambda *_: [])
    runs = of_paper.runs(tmp_path, [0])
    if of_paper.name in ("abdelsalam2021", "masana2020"):  # a table for each file
        runs.data = {f.name.removesuffix(".h5"): PaperData(Path(f.name)) for f in kept.files}
    made = [[make()] for make in of_paper.exact.values()]
    made += [make(runs) for make in of_paper.tables.values()]
    today = {t.name: t for of in made for t in ([of] if isinstance(of, PaperTable) else of)}
    # of a label such as "CIFAR-100, another backbone (net)" the file
    short = {was.name: re.sub(r" · [^·]* \((.*)\)$", r" · \1", was.name) for was in kept.tables}
    pairs = [(today[short[was.name]], was) for was in kept.tables if short[was.name] in today]
    pairs = [(now, was) for now, was in pairs if printed(now)]
    assert pairs or re.match(RUNS_ALONE, stored.stem)
    for now, was in pairs:
        assert now.heads == was.heads
        assert {*now.columns} <= {*was.columns}  # without columns that only our runs fill
        assert printed(now) == printed(was)
        for a, b in zip(now.rows, was.rows, strict=True) if now.name in of_paper.exact else ():
            means = [{c: v.ours.mean for c, v in r.values.items() if v.ours} for r in (a, b)]
            assert means[0] == pytest.approx(means[1])


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """The committed pages, by the paper's name."""
    return {name: (DATA.parent / f"{name}.md").read_text("utf-8") for name in PAPERS}


def test_every_paper_has_a_page_with_all_tables_of_its_results(pages: dict[str, str]) -> None:
    for name, page in pages.items():
        assert page.startswith(f"# {facts(name)['citation']}\n")
        for source, stored in read_results([DATA], name).items():
            assert f"\n## {source}\n\n{stored.date}: `embedbench reproduce {name}" in page
            for one in (t for t in stored.tables if t.rows):
                assert escape_markdown(one.heading) in page
    row = r"^\| permutation \| MLP \| MNIST \| 0\.434 \| 0\.\d+ ±0\.\d+ \| [+−]0\."
    assert len(re.findall(row, pages["kemker2018"], re.M)) == 3  # of three files


def test_the_command_shows_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["reproduce", "michel2023", "--results"]
    made = embedbench("reproduce", "michel2023", "--table", "2", "--out", "b")
    assert made.exit_code == 0
    again = embedbench(*words, "b")
    assert again.exit_code == 0, again.output
    assert made.stdout.strip() in again.stdout
    assert "embedbench reproduce michel2023 --table 2\n" in again.stdout
    result = embedbench(*words, DATA, "--results", "b", "--csv")
    assert result.exit_code == 0, result.output
    head, *rows = result.stdout.splitlines()
    assert head.startswith("source,table,")
    sources = {path.stem for path in DATA.glob("michel2023-*.json")} | {"new-metrics"}
    assert {row.split(",")[0] for row in rows} == sources
    assert re.search(r"^michel2023-faces,Figure 3,,at K,,[\d.]+,[\d.]+,10,", result.stdout, re.M)
    assert "take no --table" in str(embedbench(*words, DATA, "--table", "1").exception)
    assert isinstance(embedbench(*words, "none").exception, UserError)
