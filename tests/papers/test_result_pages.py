"""The pages of `docs/results` are those that the committed data give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from embedbench.cli.app import app
from embedbench.errors import UserError
from embedbench.papers.catalogue import names, paper
from embedbench.papers.evidence import page_text
from embedbench.papers.published import load_published
from embedbench.papers.results import read_results
from embedbench.papers.verdicts import ORDER

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES, DATA = DOCS / "results", DOCS / "results" / "data"
PAPERS = [of_folder[0] for of_folder in names().values()]


@pytest.mark.parametrize("name", PAPERS)
def test_a_page_is_what_its_data_give(name: str) -> None:
    again, _ = page_text(paper(name), read_results([DATA], name))
    remedy = f"embedbench reproduce {name} --results docs/results/data --out docs/results"
    assert again == (PAGES / f"{name}.md").read_text("utf-8"), remedy


@pytest.mark.parametrize("name", PAPERS)
def test_every_published_table_is_on_its_page(name: str) -> None:
    chosen = paper(name)
    page = (PAGES / f"{name}.md").read_text("utf-8")
    tables = load_published(chosen.stem)["tables"]
    assert tables
    missing = [number for number in tables if f"\n## Table {number}: " not in page]
    assert not missing


def test_every_file_of_data_is_of_a_paper_and_without_paths_of_a_machine() -> None:
    for path in DATA.iterdir():
        text = path.read_text("utf-8")
        assert json.loads(text)["paper"] in PAPERS
        assert path.stem.startswith(json.loads(text)["paper"])
        assert not any(start in text for start in ("/home/", "/tmp/", "/root/", "/Users/"))


def test_the_pages_are_linked() -> None:
    contents = (DOCS / "index.md").read_text("utf-8")
    for name in PAPERS:
        assert f"results/{name}.md" in contents
        assert f"results/{name}.md" in (DOCS / "fidelity.md").read_text("utf-8")


def test_the_command_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["reproduce", "michel2023", "--results", str(DATA)]
    result = CliRunner().invoke(app, [*words, "--out", "a", "--json"])
    assert result.exit_code == 0, result.output
    assert list(json.loads(result.stdout)) == list(ORDER)
    assert Path("a/michel2023.md").read_bytes() == (PAGES / "michel2023.md").read_bytes()
    result = CliRunner().invoke(app, [*words, "--table", "1"])
    assert "--results takes no runs" in str(result.exception)
    result = CliRunner().invoke(app, ["reproduce", "michel2023", "--results", "none"])
    assert isinstance(result.exception, UserError)
    result = CliRunner().invoke(app, ["reproduce", "michel2023", "--table", "2", "--out", "b"])
    assert result.exit_code == 0
    result = CliRunner().invoke(app, ["reproduce", "michel2023", "--results", "b"])
    assert result.exit_code == 0, result.output
    counted = {line.split(maxsplit=1)[1]: line.split()[0] for line in result.stdout.splitlines()}
    assert counted == {
        "reproduced": "4", "in kind": "0", "not": "0", "cannot be checked here": "5",
    }  # fmt: skip
    assert "wrote reproduce/new-metrics/michel2023.md" in result.stderr
