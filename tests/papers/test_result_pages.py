"""The pages of results: the build of the site makes them from the committed data."""

import json
from pathlib import Path

import pytest
import repository
from command_line import embedbench

from embedbench.errors import UserError
from embedbench.papers.paper_folders import facts, names
from embedbench.papers.result_files import read_results

DOCS = Path(__file__).resolve().parents[2] / "docs"
DATA = DOCS / "results" / "data"
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
    words = ["reproduce", "michel2023", "--results", DATA]
    result = embedbench(*words, "--out", "a", "--json")
    assert result.exit_code == 0, result.output
    assert Path("a/michel2023.md").read_text("utf-8") == pages["michel2023"]
    result = embedbench(*words, "--table", "1")
    assert "--results takes no runs" in str(result.exception)
    result = embedbench("reproduce", "michel2023", "--results", "none")
    assert isinstance(result.exception, UserError)
    result = embedbench("reproduce", "michel2023", "--table", "2", "--out", "b")
    assert result.exit_code == 0
    result = embedbench("reproduce", "michel2023", "--results", "b")
    assert result.exit_code == 0, result.output
    counted = {line.split(maxsplit=1)[1]: line.split()[0] for line in result.stdout.splitlines()}
    assert counted["ours on the paper's data"] == "4"
    assert counted["without ours"] == "5"
    assert "wrote reproduce/new-metrics/michel2023.md" in result.stderr
