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
    for name in {*names.our_learners()} - {*names.ALIASES}:
        for field in dataclasses.fields(names.learner_class(name)):  # type: ignore[arg-type]
            assert f"\n{name}.{field.name}" in pages[f"learners/{name}.md"]
    assert "\newc.lam=none  (float or None, at least 0)\n" in pages["learners/ewc.md"]


class Example:
    """Sum: x * y_i | z.

    **Source**: A, Eq. 1. **Departs**: `a * b` is
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
    assert text.startswith("Sum: x \\* y\\_i | z.\n\n**Source**: A, Eq. 1. **Departs**: `a * b` is")
    assert docstrings.cell("a | b\nc") == "a \\| b c"
    # stars, bars and underscores mean nothing in prose
    assert docstrings.literal("shape (n, *rest), θ* and lam_ of |R|, **Source**: `a*b_`") == (
        "shape (n, \\*rest), θ\\* and lam\\_ of \\|R\\|, **Source**: `a*b_`"
    )
    assert docstrings.literal("    *roots : str") == "    *roots : str"  # napoleon's own


def test_links_that_leave_docs_go_to_the_source() -> None:
    for link, becomes in (
        *((link, link) for link in ("[a](runs.md#seeds)", "[a](https://example.org/x)")),
        *((link, link) for link in ("[a](pictures/flow.svg)", "R[i](number)")),  # of Python
        ("[../README.md](../README.md#install)", "[](start.md#install)"),  # the page's title
        ("[a](../models)", "[a](reference/learners.md)"),
        ("[a](studies/league.toml)", f"[a]({repository.SOURCE}/docs/studies/league.toml)"),
    ):
        assert repository.links(link, DOCS / "page.md", DOCS) == becomes


def test_a_page_includes_a_file() -> None:
    made = repository.page("```{include} ../README.md\n```\n", DOCS / "x.md")
    assert made.startswith("# embedbench\n")
    assert "](docs/index.md" not in made


def test_every_table_that_a_page_names_is_there() -> None:
    named = [page for page in DOCS.rglob("*.md") if "\n<!-- " in page.read_text("utf-8")]
    assert {"league.md", "bridge.md", "which-learner.md"} <= {page.name for page in named}
    for page in named:
        assert "\n<!-- " not in repository.page(page.read_text("utf-8"), page)
    league = repository.page((DOCS / "league.md").read_text("utf-8"), DOCS / "league.md")
    assert "\n| joint | 38.8 ±0.9 | 62.1 ±0.7 | 97.8 ±0.6 |  | 22.9 | 39.9 |\n" in league
    fidelity = repository.page((DOCS / "fidelity.md").read_text("utf-8"), DOCS / "fidelity.md")
    assert "\n| permutation, EWC | .437 .992 .746 | .690 " in fidelity
