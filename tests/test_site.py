"""The extension of the site: pages of all there is, docstrings as Markdown, links."""

import dataclasses
import re
from pathlib import Path

import docstrings
import pytest
import reference
import repository
import typer

from embedbench.cli import app
from embedbench.config.describe_settings import parameters, parts
from embedbench.runs import learner_and_protocol_names as names
from embedbench.scores.metrics import all_metrics
from embedbench.studies import presets

TESTS = Path(__file__).resolve().parent
DOCS = TESTS.parent / "docs"


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return dict(reference.pages())


# --- pages from the code ---


def test_all_there_is_has_a_page_or_a_heading(pages: dict[str, str]) -> None:
    own = {*names.our_learners()} - {*names.ALIASES}
    assert {f"learners/{name}.md" for name in own} <= pages.keys()
    assert {f"protocols/{name}.md" for name in names.our_protocols()} <= pages.keys()
    assert all(f"[`{name}`](learners/" in pages["learners.md"] for name in names.ALIASES)
    assert all(f"\n## `{name}`\n" in pages["metrics.md"] for name in all_metrics())
    assert all(text.count("\n>>> ") >= 2 for name, text in pages.items() if "s/" in name)
    assert all(f"\n## {name}\n" in pages["presets.md"] for name in presets.preset_names())
    commands = typer.main.get_command(app.app).commands  # type: ignore[attr-defined]
    assert all(f"\n## `embedbench {name}`\n" in pages["commands.md"] for name in commands)


def test_every_key_of_a_record_has_one_row_that_says_what_it_means(pages: dict[str, str]) -> None:
    for record in pages["json.md"].split("\n## ")[1:]:
        rows = re.findall(r"^\| (`.*?`) \| (.*?) \| (.*) \|$", record, re.MULTILINE)
        assert len({key for key, _, _ in rows}) == len(rows)
        assert all(kind and meaning for _, kind, meaning in rows)
    classes = ("RunRecord", "FileInfo", "References", "RescoredRun")
    assert [c for c in classes if f"\n## {c}\n" not in pages["json.md"]] == []


def test_every_setting_is_listed_with_its_default(pages: dict[str, str]) -> None:
    for name in names.our_learners():
        for field in dataclasses.fields(names.learner_class(name)):  # type: ignore[arg-type]
            if f"learners/{name}.md" in pages:  # no alias
                assert f"\n{name}.{field.name}" in pages[f"learners/{name}.md"]
    assert "\newc.lam=none  (float or None, at least 0)\n" in pages["learners/ewc.md"]


def test_old_pages_go(
    pages: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "pages", pages.items)
    (tmp_path / "learners").mkdir()
    (tmp_path / "learners" / "gone.md").touch()
    reference.write(tmp_path)
    assert not (tmp_path / "learners" / "gone.md").exists()
    assert (tmp_path / "learners" / "ewc.md").exists()


# --- docstrings ---


class Example:
    """A sum: x * y_i | z.

    **Source**: A (2020), Eq. 1. **Departs**: `a * b` is
    ours.

    More of it.

    Parameters
    ----------
    low, high : float
        The bounds,
        both.
    kind : str
        "a" or "b".
    """


def test_a_docstring_becomes_markdown() -> None:
    assert parameters(Example) == {
        "low": ("float", "The bounds, both."),
        "high": ("float", "The bounds, both."),
        "kind": ("str", '"a" or "b".'),
    }
    text = docstrings.escaped(parts(Example)[""])
    assert text.startswith(
        "A sum: x \\* y\\_i | z.\n\n**Source**: A (2020), Eq. 1. **Departs**: `a * b` is"
    )
    assert docstrings.cell("a | b\nc") == "a \\| b c"


def test_stars_bars_and_underscores_mean_nothing_in_prose() -> None:
    assert docstrings.literal("shape (n, *rest), θ* and lam_ of |R|") == (
        "shape (n, \\*rest), θ\\* and lam\\_ of \\|R\\|"
    )
    assert docstrings.literal("    *roots : str") == "    *roots : str"  # napoleon's own
    assert docstrings.literal("**Source**: `a*b_`") == "**Source**: `a*b_`"


# --- links ---


@pytest.mark.parametrize(
    ("link", "becomes"),
    [
        ("runs.md#seeds", "runs.md#seeds"),
        ("../README.md", "start.md"),
        ("../README.md#install", "start.md#install"),
        ("../models/ewc.py", "SOURCE/models/ewc.py"),
        ("../benchmarks/README.md", "SOURCE/benchmarks/README.md"),
        ("../models", "reference/learners.md"),
        ("studies/league.toml", "SOURCE/docs/studies/league.toml"),
        ("pictures/flow.svg", "pictures/flow.svg"),
        ("https://example.org/x", "https://example.org/x"),
        ("#here", "#here"),
        ("number", "number"),  # of Python: R[i](number)
    ],
)
def test_links_that_leave_docs_go_to_the_source(link: str, becomes: str) -> None:
    made = repository.links(f"[a]({link})", DOCS / "page.md", DOCS)
    assert made == f"[a]({becomes.replace('SOURCE', repository.SOURCE)})"


def test_the_name_of_a_page_becomes_its_title() -> None:
    text = "[docs/runs.md](docs/runs.md#b) [x](docs/files.md)"
    made = repository.links(text, DOCS.parent / "R.md", DOCS)
    assert made == "[](runs.md#b) [x](files.md)"


def test_a_page_includes_a_file() -> None:
    made = repository.page("```{include} ../README.md\n```\n", DOCS / "x.md")
    assert made.startswith("# embedbench\n")
    assert "](docs/index.md" not in made


def test_a_glob_without_pages_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "a.md").touch()
    made = repository.page("some/a*\nnone/*\nsome/b*\n", tmp_path / "index.md")
    assert made == "some/a*\n"


def test_every_table_that_a_page_names_is_there() -> None:
    named = [page for page in DOCS.rglob("*.md") if "\n<!-- " in page.read_text("utf-8")]
    assert {"league.md", "bridge.md", "which-learner.md"} <= {page.name for page in named}
    for page in named:
        assert "\n<!-- " not in repository.page(page.read_text("utf-8"), page)
    league = repository.page((DOCS / "league.md").read_text("utf-8"), DOCS / "league.md")
    assert "\n| joint | 38.8 ±0.9 | 62.1 ±0.7 | 97.8 ±0.6 |  | 22.9 | 39.9 |\n" in league
    fidelity = repository.page((DOCS / "fidelity.md").read_text("utf-8"), DOCS / "fidelity.md")
    assert "\n| permutation, EWC | .437 .992 .746 | .690 " in fidelity
