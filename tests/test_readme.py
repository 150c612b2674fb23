"""What README.md and the other pages say is so: commands parse, Python runs, links lead somewhere.

`make readme-check` also runs the commands.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import typer

from embedbench.cli import app
from embedbench.files.exchange import import_file
from embedbench.runs import registry
from embedbench.scores.metrics import all_metrics

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(text: str, *languages: str) -> list[str]:
    """The contents of the fenced blocks in one of some languages."""
    fences = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [body for language, body in fences if language in languages]


def commands() -> list[str]:
    found = []
    for page in PAGES:
        for block in blocks(page.read_text(encoding="utf-8"), "sh", "bash"):
            lines = block.replace("\\\n", " ").splitlines()
            found += [line for line in lines if line.startswith("embedbench ")]
    return found


@pytest.mark.parametrize("line", sorted(set(commands())))
def test_commands_parse(line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    group = typer.main.get_command(app.app)
    command = group.commands[words[0]]  # type: ignore[attr-defined]  # a group has commands
    command.make_context(words[0], app._dashes(words[1:]))


def test_the_readme_shows_the_main_commands() -> None:
    shown = {line.split()[1] for line in commands()}
    assert {"extract", "run", "report", "inspect", "verify", "diff", "import", "export"} <= shown
    first = blocks(README, "bash")[0]
    assert "--backbone resnet50" in first
    assert "--backbone vit_base_patch16_224 --layers last4" in first


def test_the_python_example_is_short_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = blocks(README, "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(88), 6)  # as many classes as the shipped emoji
    x = (rng.normal(size=(88, 16)) * 5)[y] + rng.normal(size=(len(y), 16))
    split = np.where(np.arange(len(y)) % 3 == 2, "test", "train")
    np.savez(tmp_path / "emoji.npz", features=x.astype(np.float32), labels=y, split=split)
    import_file(tmp_path / "emoji.npz", tmp_path / "emoji.h5")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    omegas = dict(re.findall(r"^(\w+): Ω_all ([\d.]+)", printed, re.MULTILINE))
    assert set(omegas) == {"MLP", "NCM"}
    assert float(omegas["NCM"]) > 2 * float(omegas["MLP"])  # blobs: means keep what an MLP loses


def test_tables_name_all_there_is() -> None:
    named = {
        name
        for row in re.findall(r"^\| (`.*?`) \|", README, re.MULTILINE)
        for name in re.findall(r"`([\w-]+)`", row)
    }
    there = {*registry.protocol_names(), *registry.learner_names(), *all_metrics()}
    assert named == there


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    missing = [x for x in links if "://" not in x and not (page.parent / x).exists()]
    assert not missing


def test_every_page_of_docs_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {p.name for p in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages <= set(re.findall(r"\]\(([^)]+)\)", index))
