"""The pages of reference/, written from the code at every build: nothing of them is committed."""

from __future__ import annotations

import dataclasses
import importlib
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer
from docstrings import cell, escaped, literal
from repository import DOCS, SOURCE
from typer.cli import get_docs_for_click

import embedbench
from embedbench.cli import app as commands
from embedbench.cli import list_entries
from embedbench.config.describe_settings import inherited_parameters, parts
from embedbench.reports import comparison_tables, frozen_vs_full, tables_from_runs
from embedbench.runs import learner_and_protocol_names as by_name
from embedbench.scores import label_set_scores, run_record, verified_records
from embedbench.studies import presets
from embedbench.text.markdown import table

# What the public names return and take: name → module.
BEHIND = {
    "View": "streams.view",
    "EvalSet": "streams.stream",
    "StreamSpec": "streams.stream",
    "Context": "learning.learner",
    "Checkpoint": "learning.learner",
    "Footprint": "learning.learner",
    "Predictions": "scores.predictions",
    "LabelSets": "scores.label_set_predictions",
    "Runs": "reports.load_results",
    "Run": "reports.load_results",
    "Samples": "files.sample_metadata",
    "DamagedFileError": "errors",
}
RECORDS = (run_record.RunRecord, verified_records.RescoredRun)  # record.json, score --json
REPORTS = {
    "report --json": tables_from_runs.to_json,
    "report --compare --json": comparison_tables.rank_learners,
    "report --by order --json": comparison_tables.spread_over_orders,
    "report --bridge --json": frozen_vs_full.bridge,
}


def setup(app: Any) -> dict[str, Any]:
    app.connect("builder-inited", lambda app: write())
    app.connect("config-inited", _types)
    app.connect("autodoc-process-docstring", _plain, priority=400)  # before napoleon
    return {"parallel_read_safe": True}


def _types(app: Any, config: Any) -> None:
    """In types of docstrings, our classes are written without their modules."""
    known = {**embedbench._HOMES, **BEHIND}
    config.napoleon_type_aliases |= {n: f"~embedbench.{home}.{n}" for n, home in known.items()}


def _plain(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    lines[:] = [literal(line) for line in lines]


def write(folder: Path = DOCS / "reference") -> None:
    """Write all pages."""
    for old in folder.rglob("*.md"):
        old.unlink()
    for name, text in pages():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text + "\n", encoding="utf-8")


def pages() -> Iterator[tuple[str, str]]:
    """Every page: file name, Markdown."""
    yield from room("learners", by_name.learner_class)
    yield from room("protocols", by_name.protocol_class)
    orders = list_entries.listed_text(list_entries.entries("orders"))
    yield "orders.md", f"# Class orders\n\n`run --order NAME`:\n\n```text\n{orders}\n```"
    yield "metrics.md", metrics_page()
    yield "presets.md", presets_page()
    yield "json.md", json_page()
    yield "commands.md", commands_page()
    yield "python.md", python_page()


def room(kind: str, class_of: Callable[[str], type]) -> Iterator[tuple[str, str]]:
    """The index of learners or of protocols, and one page for each that is no alias."""
    rows = []
    for row in list_entries.entries(kind):
        name, same = row["name"], by_name.ALIASES.get(row["name"], (row["name"],))[0]
        if "package" in row:
            continue  # of another package that is installed here
        cls: Any = class_of(same)  # learners alone have tags
        tags = dataclasses.asdict(cls.tags) if kind == "learners" else {}
        held = ", ".join(tag for tag, has in tags.items() if has and tag not in USUAL)
        rows.append((f"[`{name}`]({kind}/{same}.md)", cell(escaped(row["summary"])), held))
        if same == name:
            yield f"{kind}/{name}.md", class_page(kind, name, cls)
    toctree = f"```{{toctree}}\n:hidden:\n:glob:\n\n{kind}/*\n```"
    listed = table(("name", "what it is", "tags" if kind == "learners" else ""), rows)
    yield f"{kind}.md", f"# {kind.capitalize()}\n\n{listed}\n\n{toctree}"


USUAL = ("deterministic", "learns")  # tags that nearly all learners have


def class_page(kind: str, name: str, cls: type) -> str:
    """The page of a learner or a protocol: what it is, its settings, where its code is."""
    path = f"{cls.__module__.removeprefix('embedbench.').replace('.', '/')}.py"
    listed = list_entries.settings_text(kind, name).split("\n")[1:]
    return (
        f"# {name}\n\n{escaped(parts(cls)[''])}\n\n## Settings\n\n```text\n"
        + "\n".join(line for line in listed if not line.startswith("Source: "))
        + f"\n```\n\n## Example\n\n{example(cls)}\n\nThe code: [{path}]({SOURCE}/{path}). "
        f"`embedbench check {name}` checks its contract."
    )


def example(thing: object) -> str:
    """The section **Examples** of a docstring as a block."""
    return f"```pycon\n{parts(thing)['Examples']}\n```"


def metrics_page() -> str:
    """Every metric with its formula and source."""
    named = list_entries.metric_functions()
    named |= {f.__name__: f for f in (*label_set_scores.CURVES, label_set_scores.depth_pw_js)}
    text = "# Metrics\n\nAs the code has them. What they hide: [scores and metrics](../metrics.md)."
    for name, function in named.items():
        text += f"\n\n## `{name}`\n\n{escaped(parts(function)[''])}\n\n{example(function)}"
    return text


def presets_page() -> str:
    """Every preset that ships, as its file is."""
    text = "# Presets\n\n`run --preset NAME` takes all settings of a file; `--set` changes them."
    for name in presets.preset_names():
        toml = (presets.FOLDER / f"{name}{presets.SUFFIX}").read_text("utf-8").strip()
        text += f"\n\n## {name}\n\n```toml\n{toml}\n```"
    return text


def json_page() -> str:
    """The keys of what is written as JSON, a table for each class."""
    text = (
        "# JSON, key by key\n\nWhat the keys are for says [the record](../record.md). A tuple is a "
        "list, a dict an object, another class an object with the keys of its table. NaN is "
        "`null`, an infinity the text `inf` or `-inf`; scores are fractions, times seconds, sizes "
        "bytes. A key that may be None is also left out."
    )
    classes: dict[type, None] = {}
    for record in RECORDS:
        _collect(record, classes)
    for cls in classes:
        known = inherited_parameters(cls)
        rows = [
            (f"`{f.metadata.get('key', f.name)}`", *map(cell, map(escaped, known[f.name])))
            for f in dataclasses.fields(cls)  # type: ignore[arg-type]  # each is one
            if not f.metadata.get("unwritten")
        ]
        text += f"\n\n## {cls.__name__}\n\n{escaped(parts(cls)[''])}\n\n"
        text += table(("key", "type", "meaning"), rows)
    for title, thing in REPORTS.items():
        text += f"\n\n## `{title}`\n\n{escaped(parts(thing)[''])}"
    return text


def _collect(hint: Any, classes: dict[type, None]) -> None:
    """Add the dataclasses in a type, and those inside them."""
    if dataclasses.is_dataclass(hint) and hint not in classes:
        classes[typing.cast(type, hint)] = None
        for inner in typing.get_type_hints(hint).values():
            _collect(inner, classes)
    for part in typing.get_args(hint):
        _collect(part, classes)


def commands_page() -> str:
    """Every command and its options, as typer has them."""
    group = typer.main.get_command(commands.app)
    context = group.make_context("embedbench", [], resilient_parsing=True)
    return get_docs_for_click(obj=group, ctx=context, name="embedbench", title="The command line")


def python_page() -> str:
    """The public names of the package, documented by autodoc."""
    text = "# Python\n\n`import embedbench` gives these names; each is imported when first used."
    text += "".join(f"\n\n{autodoc(name, home)}" for name, home in embedbench._HOMES.items())
    text += "\n\n## Behind these names\n\nWhat they take and return, and what a learner gets."
    return text + "".join(f"\n\n{autodoc(name, home, '###')}" for name, home in BEHIND.items())


def autodoc(name: str, home: str, level: str = "##") -> str:
    """One name with its docstring, and a class with its public members."""
    thing = getattr(importlib.import_module(f"embedbench.{home}"), name)
    form, members = ("class", "\n   :members:") if isinstance(thing, type) else ("function", "")
    said = f".. auto{form}:: embedbench.{home}.{name}{members}"
    return f"{level} {name}\n\n```{{eval-rst}}\n{said}\n```"
