"""What README.md and the other pages say is so: commands parse, Python runs, links lead somewhere.

`make readme-check` also runs the commands of the pages that it names.
"""

import dataclasses
import pkgutil
import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from embedbench import plugins
from embedbench.cli import app
from embedbench.config.make_from_settings import make
from embedbench.files.import_features import import_file
from embedbench.runs import learner_and_protocol_names as names
from embedbench.studies.resolve import sort_settings
from embedbench.studies.study import parse_settings

ROOT = Path(__file__).resolve().parents[1]
CHECK = runpy.run_path(str(ROOT / ".ci" / "readme_check.py"))  # what `make readme-check` runs
FIRST = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")
PAGES = [ROOT / page for page in (*FIRST, *CHECK["pages"]()[1:])]
TUTORIALS = [p for p in (ROOT / "docs" / "tutorials").glob("*.md") if p.stem != "index"]
CELL = re.compile(r"^```\{code-cell.*?^```", re.MULTILINE | re.DOTALL)
README = (ROOT / "README.md").read_text(encoding="utf-8")
# Files of the project, and what is imported from it. With NAME in it the reader names the file.
ROOMS = r"embedbench|extract|models|protocols|tests|tools|docs|benchmarks|\.ci"
PATH = re.compile(rf"(?<![\w/.-])((?:{ROOMS})/[\w./-]*\w)")
IMPORTED = re.compile(r"\b(embedbench(?:\.\w+)+)")
GROUP: Any = typer.main.get_command(app.app)
ENTRY_POINTS = {f"embedbench.{kind}" for kind in plugins.KINDS}


def blocks(text: str, *languages: str) -> list[str]:
    """The contents of the fenced blocks in one of some languages."""
    fences = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [body for language, body in fences if language in languages]


def typed(page: Path) -> list[str]:
    """All commands of a page, in fences and within a line."""
    text = page.read_text(encoding="utf-8")
    lines = "\n".join(blocks(text, "sh", "bash", "")).replace("\\\n", " ").splitlines()
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    lines += [" ".join(code.split()) for code in re.findall(r"`(embedbench [^`]*)`", prose)]
    told = [line for line in lines if line.startswith("embedbench ")]
    return [line for line in told if not re.search(r"…|COMMAND|--version|embedbench --help", line)]


def settings() -> set[str]:
    """What the pages pass to `--set`, but for placeholders."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    found = re.findall(r"--set ([\w.-]+=[\w.,+-]+)", text)
    return {item for item in found if not item.endswith(("=VALUE", "=FILE"))}


@pytest.mark.parametrize("line", sorted({line for page in PAGES for line in typed(page)}))
def test_commands_parse(line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    if words[0] in {option for param in GROUP.params for option in param.opts}:
        return  # an option of embedbench itself
    command = GROUP.commands[words[0]]
    while words[1:] and words[1] in getattr(command, "commands", {}):
        words = words[1:]
        command = command.commands[words[0]]  # type: ignore[attr-defined]
    if words[1:]:  # not the mere name of a command
        command.make_context(words[0], words[1:])


@pytest.mark.parametrize("item", sorted(settings()))
def test_settings_are_accepted(item: str) -> None:
    """By the learner that they name, or by one of the protocols."""
    name = item.partition(".")[0]
    if name in names.learner_names():
        trunk = [f"{name}.trunk=resnet8"] if ".images." in item else []
        values = sort_settings(parse_settings([item, *trunk]), [name]).learners[name]
        make(names.learner_class(name), values, name=name)
    elif name == "protocol":
        values = sort_settings(parse_settings([item]), []).protocol
        known = map(dataclasses.fields, map(names.protocol_class, names.protocol_names()))
        assert {*values} <= {field.name for fields in known for field in fields}


def test_the_readme_is_short_and_begins_with_three_commands() -> None:
    assert len(README.encode()) <= 6000
    first = blocks(README, "bash")[0].splitlines()
    assert [line.split()[1] for line in first] == ["extract", "run", "report"]


def examples() -> list[Any]:
    """Every fenced block with commands or Python, of all pages."""
    return [block for page in CHECK["pages"]() for block in CHECK["blocks"](page)]


def test_every_example_is_run_or_says_what_it_needs() -> None:
    free = [b for b in examples() if not b.needs and b.page not in CHECK["TESTED"]]
    assert not [(b.page, b.text) for b in free if b.language not in CHECK["LANGUAGES"]]
    run = {line.split()[1] for b in free if b.language == "bash" for line in b.commands()}
    main = {"extract", "run", "report", "inspect", "verify", "diff", "import", "export"}
    assert main | {"order", "reproduce", "show", "score", "runs"} <= run


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_script_begins_with_its_shebang(page: Path) -> None:
    scripts = [text for text in blocks(page.read_text("utf-8"), "sh", "bash", "") if "#!/" in text]
    assert [text for text in scripts if not text.startswith("#!/")] == []  # sbatch asks for it


def test_the_python_example_is_short_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = blocks(README, "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(88), 6)  # many classes, few samples
    x = (rng.normal(size=(88, 16)) * 5)[y] + rng.normal(size=(len(y), 16))
    split = np.where(np.arange(len(y)) % 3 == 2, "test", "train")
    np.savez(tmp_path / "photos.npz", features=x.astype(np.float32), labels=y, split=split)
    import_file(tmp_path / "photos.npz", tmp_path / "photos.h5")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})
    assert 0.9 < float(capsys.readouterr().out) <= 1  # blobs far apart


@pytest.mark.parametrize(
    "page",
    [*PAGES, *(ROOT / "docs" / "tutorials").glob("*.md")],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_links_lead_somewhere(page: Path) -> None:
    text = CELL.sub("", page.read_text(encoding="utf-8"))
    for link, _, heading in re.findall(r"\]\(([^)#]*)(#([^)]+))?\)", text):
        if "://" in link:
            continue
        other = page.parent / link if link else page
        assert other.exists()
        titles = re.findall(r"^#+ (.*)", other.read_text(), re.MULTILINE) if heading else []
        named = {re.sub(r"[^\w -]", "", t.lower()).replace(" ", "-") for t in titles}
        assert not heading or heading in named


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_and_imports_that_are_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    paths = {path for path in PATH.findall(text) if "NAME" not in path}
    assert not [path for path in paths if not (ROOT / path).exists()]
    for name in {name for name in IMPORTED.findall(text) if "NAME" not in name} - ENTRY_POINTS:
        pkgutil.resolve_name(name)  # or an error that names it


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda p: p.stem)
def test_a_tutorial_asserts_what_it_says(page: Path) -> None:
    """Results are printed by cells: the text has no decimal fraction."""
    text = page.read_text(encoding="utf-8")
    assert text.count("\nassert ") >= 5
    assert not re.findall(r"\d\.\d+", CELL.sub("", text.split("---\n", 2)[2]))
