"""The tutorials, without running them: `make docs` does, and an assert that fails stops it."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from embedbench.cli import app

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "tutorials"
PAGES = sorted(set(FOLDER.glob("*.md")) - {FOLDER / "index.md"})
CELL = re.compile(r"^```\{code-cell\} python\n((?::[^\n]*\n)*)(.*?)^```$", re.MULTILINE | re.DOTALL)
pages = pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)


def commands(page: Path) -> list[list[str]]:
    """The words of each call of embedbench, without what bash does with its output."""
    cells = (code for _, code in CELL.findall(page.read_text(encoding="utf-8")))
    shell = "\n".join(code for code in cells if code.startswith("%%bash"))
    lines = [line.strip() for line in shell.replace("\\\n", " ").splitlines()]
    calls = [re.split(r"[|>]", line)[0] for line in lines if line.startswith("embedbench ")]
    return [shlex.split(call)[1:] for call in calls]


@pages
def test_commands_parse(page: Path) -> None:
    group = typer.main.get_command(app.app)
    assert commands(page)
    for name, *words in commands(page):
        command = group.commands[name]  # type: ignore[attr-defined]  # a group has commands
        command.make_context(name, words)


@pages
def test_what_the_text_says_is_asserted(page: Path) -> None:
    """Results are printed by cells: the text has no decimal fraction, and cells assert."""
    text = page.read_text(encoding="utf-8")
    assert text.count("\nassert ") >= 5
    prose = CELL.sub("", text.split("---\n", 2)[2])
    assert not re.findall(r"\d\.\d+", prose)


def test_the_index_has_every_tutorial() -> None:
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"^\d\. \[.*?\]\((.*?)\)", index, re.MULTILINE) == [
        "first_stream.md",
        "is_this_ranking_worth_anything.md",
        "a_learner_of_your_own.md",
    ]
    assert len(PAGES) == 3
