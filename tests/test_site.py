"""The site: what there is has an entry on a page, docstrings as markup, comments of pages."""

import dataclasses
import pkgutil
import re
from pathlib import Path

import fill_pages
import from_code
import pytest
import typer

import embedbench
from embedbench.cli import app
from embedbench.cli.list_entries import metric_functions
from embedbench.config.describe_settings import parameters
from embedbench.papers import paper_folders
from embedbench.runs import learner_and_protocol_names as names
from embedbench.scores import label_set_predictions as label_sets
from embedbench.scores.run_record import RunRecord
from embedbench.scores.verified_records import RescoredRun
from embedbench.studies import presets

DOCS = Path(__file__).resolve().parents[1] / "docs"


def page(name: str) -> str:
    """A page as Sphinx gets it."""
    source = [(DOCS / name).read_text(encoding="utf-8")]
    from_code.fill(None, name, source)
    return source[0]


def test_all_there_is_has_an_entry() -> None:
    learners, protocols = page("reference/learners.md"), page("reference/protocols.md")
    assert all(f"[`{name}`](learners/" in learners for name in names.our_learners())
    assert all(f"[`{name}`](protocols/" in protocols for name in names.our_protocols())
    functions = (
        *metric_functions().values(),
        *label_sets.CURVES,
        label_sets.depth_pw_js,
    )
    metrics = {*metric_functions(), *(f.__name__ for f in functions)}
    assert metrics <= {*re.findall(r"\w+", page("reference/metrics.md"))}
    shown = re.findall(r"presets/([\w-]+)\.toml", page("reference/presets.md"))
    assert sorted(shown) == sorted(presets.preset_names())
    commands = typer.main.get_command(app.app).commands  # type: ignore[attr-defined]
    assert all(f"\n## `embedbench {n}`\n" in page("reference/commands.md") for n in commands)
    assert {*embedbench._HOMES} <= {*re.findall(r":: (\w+)$", page("reference/python.md"), re.M)}


def test_every_key_of_a_record_is_explained() -> None:
    """Of a class that another names in a type and that has no entry, the build warns."""
    shown = re.findall(r"autoclass:: (\S+)", page("reference/json.md"))
    classes = [pkgutil.resolve_name(name) for name in shown]
    assert {RunRecord, *RunRecord.__mro__[1:4], RescoredRun} <= {*classes}
    for cls in classes:
        above = [parameters(base) for base in cls.__mro__ if base in classes]
        keys = {f.name for f in dataclasses.fields(cls) if not f.metadata.get("unwritten")}
        assert keys <= {key for known in above for key, said in known.items() if all(said)}


@pytest.mark.parametrize("kind", from_code.KINDS)
def test_a_page_has_every_setting_with_its_default(kind: str) -> None:
    ours = names.our_learners() if kind == "learners" else names.our_protocols()
    for name in {*ours} - {*names.ALIASES}:
        cls, text = from_code.KINDS[kind](name), from_code.make_page(kind, name)
        key = name if kind == "learners" else "protocol"
        for field in dataclasses.fields(cls):
            assert f"\n`{key}.{field.name}" in text
        assert (cls.__doc__ or "").count("\n    >>> ") >= 2
    if kind == "learners":
        text = from_code.make_page(kind, "ewc")
        assert "\n`ewc.lam=none` (float or None, at least 0)\n: λ ≥ 0" in text


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


def test_a_docstring_is_read_and_escaped() -> None:
    assert parameters(Example) == {
        "low": ("float", "The bounds, both."),
        "high": ("float", "The bounds, both."),
        "kind": ("str", '"a" or "b".'),
    }
    text = ["Sum: x * y_i, θ* and lam_ of |R|, **Source**: `a*b_`.", "", "rest, *roots : str"]
    text += [">>> 2 * a_"]
    from_code.escape_lines(None, "function", "embedbench.run", None, None, text)
    assert text == [
        *("Sum: x \\* y_i, θ\\* and lam\\_ of \\|R\\|, **Source**: `a*b_`.", ""),
        *("rest, *roots : str", ">>> 2 * a_"),
    ]
    text = [
        "A.",
        "",
        "Parameters",
        "----------",
        "a : int",
        "    B.",
        "",
        "Examples",
        "--------",
        "C",
    ]
    from_code.escape_lines(None, "class", "embedbench.models.x.X", None, None, text)
    assert text == ["A.", "", "Examples", "--------", "C"]


def test_every_comment_of_a_page_is_filled() -> None:
    named = {p.name: p for p in DOCS.rglob("*.md") if "\n<!-- " in p.read_text("utf-8")}
    assert {"floor.md", "confidence.md", "orders.md"} <= named.keys()
    assert {f"{name}.md" for name, *_ in paper_folders.names().values()} <= named.keys()
    for name, path in named.items():
        text = path.read_text("utf-8")
        kinds = {found[1] for found in from_code.COMMENT.finditer(text)}
        assert kinds <= from_code.MAKE.keys(), name
        assert "\n<!-- " not in from_code.COMMENT.sub("", text), name


def test_a_comment_becomes_tables() -> None:
    assert "\n| " in page("studies/confidence.md")
    assert "\n## kemker2018-mnist\n" in page("results/kemker2018.md")


@pytest.mark.parametrize("path", fill_pages.pages(), ids=lambda path: path.stem)
def test_pages_of_the_repository_have_what_the_site_shows(path: Path) -> None:
    """`python tools/fill_pages.py` writes it."""
    text = path.read_text(encoding="utf-8")
    assert from_code.fill_in_repository(text) == text, "run python tools/fill_pages.py"


def test_links_of_the_list_of_learners_lead_to_their_code() -> None:
    text = (DOCS / "reference" / "learners.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\((\.\./\.\./models/\w+\.py)\)", text)
    assert links
    assert all((DOCS / "reference" / link).is_file() for link in links)
