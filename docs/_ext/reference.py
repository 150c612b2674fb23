"""The pages of reference/, written from the code at every build: nothing of them is committed."""

from __future__ import annotations

import dataclasses
import importlib
import re
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer
from docstrings import cell, literal, markdown
from repository import DOCS, SOURCE
from typer.cli import get_docs_for_click

import embedbench
from embedbench.cli import app as commands
from embedbench.cli.list_entries import entries
from embedbench.config.describe_settings import (
    format_setting,
    get_default,
    inherited_parameters,
    list_settings,
    parameters,
    parts,
)
from embedbench.config.fields_added_later import later_fields
from embedbench.reports import comparison_tables, frozen_vs_full, tables_from_runs
from embedbench.runs import learner_and_protocol_names as by_name
from embedbench.scores import (
    against_chance,
    few_shot_scores,
    label_set_scores,
    metrics,
    run_record,
    unrecorded_metrics,
    verified_records,
)
from embedbench.streams import class_order, make_class_order
from embedbench.studies import presets
from embedbench.text.markdown import table

# What the public names return and take: name → module.
BEHIND = {
    "View": "streams.view",
    "EvalSet": "streams.stream",
    "StreamSpec": "streams.stream",
    "Origin": "streams.stream",
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
# Words that a search finds a page by before every other, where its name is not one of them.
SOUGHT = {"fscil": ("few-shot", "few shot")}
TAGS = {
    "online": "learns batch by batch",
    "stores_samples": "stores training samples",
    "needs_session_id": "needs the session id of a test sample",
    "multilabel": "can learn label sets",
    "needs_layers": "needs intermediate embeddings",
    "images": "also learns whole networks on images",
    "offline": "gets all sessions at once: a reference",
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
    """Write all pages; a page that did not change keeps its date, so that it is not built again."""
    made = {folder / name: text for name, text in pages()}
    for old in {*folder.rglob("*.md")} - made.keys():
        old.unlink()
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def pages() -> Iterator[tuple[str, str]]:
    """Every page: file name, Markdown."""
    yield from kind("learners", by_name.learner_class)
    yield from kind("protocols", by_name.protocol_class)
    yield "settings.md", settings_page()
    yield "metrics.md", metrics_page()
    yield "presets.md", presets_page()
    yield "orders.md", orders_page()
    yield "json.md", json_page()
    yield "commands.md", commands_page()
    yield "python.md", python_page()


# ------------------------------------------------------------------------ learners and protocols


def kind(room: str, class_of: Callable[[str], type]) -> Iterator[tuple[str, str]]:
    """The index of a room, and one page for each of its names."""
    is_learner, listed = room == "learners", []
    for row in entries(room):
        name = row["name"]
        if "package" in row:
            continue  # of another package that is installed here
        same, _ = by_name.ALIASES.get(name, (name, {})) if is_learner else (name, {})
        cls = class_of(same)
        link, tagged = f"[`{name}`]({room}/{same}.md)", [", ".join(tags(cls))] if is_learner else []
        listed.append((link, cell(markdown(row["summary"])), *tagged))
        if same == name:
            yield f"{room}/{name}.md", class_page(name, cls, room)
    toctree = f"```{{toctree}}\n:hidden:\n:glob:\n\n{room}/*\n```"
    text = f"# {room.capitalize()}\n\n`embedbench list {room}` prints them. Each has a page."
    head = [room.removesuffix("s"), "what it is"]
    if is_learner:
        said = "; ".join(f"`{tag}`: {words}" for tag, words in TAGS.items())
        text += f" A learner that is not `online` has a session at a time. Tags: {said}."
        head.append("tags")
    yield f"{room}.md", f"{text}\n\n{table(head, listed)}\n\n{toctree}\n"


def tags(cls: type) -> list[str]:
    """The tags that a learner has, of those that are explained."""
    held = cls.tags  # type: ignore[attr-defined]  # learners have them
    return [tag for tag in TAGS if getattr(held, tag)]


def class_page(name: str, cls: type, room: str) -> str:
    """The page of a learner or a protocol: what it is, its settings, where its code is."""
    path = f"{cls.__module__.removeprefix('embedbench.').replace('.', '/')}.py"
    key = "protocol" if room == "protocols" else name
    words = [f"```{{index}} ! {word}\n```" for word in SOUGHT.get(name, ())]
    return "\n\n".join(
        [
            f"# {name}",
            *words,
            markdown(parts(cls)[""]),
            *([learner_notes(name, cls)] if room == "learners" else []),
            "## Settings",
            f"`--set {key}.SETTING=VALUE` changes one.",
            settings(cls, "../"),
            f"## Example\n\n{example(cls)}",
            f"The code: [{path}]({SOURCE}/{path}). Its contract is checked by "
            f"`embedbench check {name}`.\n",
        ]
    )


def example(thing: object) -> str:
    """The section **Examples** of a docstring as a block."""
    return f"```pycon\n{parts(thing)['Examples']}\n```"


def learner_notes(name: str, cls: type) -> str:
    """The tags of a learner that are not as usual, in words, and its other names."""
    held = cls.tags  # type: ignore[attr-defined]  # learners have them
    facts = [TAGS[tag] for tag in tags(cls)]
    facts += [] if held.learns else ["ignores the data: a reference"]
    facts += [] if held.deterministic else ["is not deterministic"]
    lines = [f"It {'; it '.join(facts)}."] if facts else []
    for alias, (same, given) in by_name.ALIASES.items():
        if same == name:
            listed = ", ".join(f"`{k}={v}`" for k, v in given.items())
            with_ = f" with {listed}" if given else ""
            lines.append(f"`{alias}` is `{name}`{with_}.")
    return "\n\n".join(lines)


def settings(cls: type, above: str) -> str:
    """The fields of a dataclass as a table, those that its docstring describes first.

    `above` is the path from the page to reference/.
    """
    earlier, rows = later_fields(cls), []
    for setting in list_settings(cls):
        name, default, text = setting.name, setting.default, setting.meaning
        if dataclasses.is_dataclass(default):
            kind_, value = group_of(default, above)
        else:
            kind_ = f"*{', '.join(filter(None, (setting.type, setting.range)))}.*"
            value = f"`{format_setting(default)}`" if format_setting(default) else ""
        if name in earlier and earlier[name] != default:
            before = format_setting(earlier[name])
            text += f" Runs made before this setting was added had `{before}`."
        rows.append((f"`{name}`", value, f"{kind_} {cell(markdown(text))}"))
    return table(("setting", "default", "what it means"), rows) if rows else "None."


def group_of(default: Any, above: str) -> tuple[str, str]:
    """A dataclass that is the value of a setting: a link to its page, and what it changes."""
    group = type(default)
    name, module = group.__name__, learner_module(group)
    link = f"[{name}]({above}settings.md#{name.lower()})"
    if module:
        link = f"[`{module}`]({above}learners/{module}.md)"
    changed = [f for f in dataclasses.fields(group) if get_default(f) != getattr(default, f.name)]
    values = ", ".join(f"`{f.name}={format_setting(getattr(default, f.name))}`" for f in changed)
    return f"{link}.", values


def learner_module(group: type) -> str:
    """The file of a learner that is the value of a setting, as of `offline`; else ""."""
    home, _, module = group.__module__.rpartition(".")
    return module if home == "embedbench.models" and module[0] != "_" else ""


def setting_groups() -> dict[str, type]:
    """The dataclasses that are values of settings, by name, and those inside them."""
    found: dict[str, type] = {}
    waiting = [by_name.learner_class(name) for name in by_name.our_learners()]
    waiting += [by_name.protocol_class(name) for name in by_name.our_protocols()]
    while waiting:
        for setting in list_settings(waiting.pop()):
            group = type(setting.default)
            new = dataclasses.is_dataclass(group) and group.__name__ not in found
            if new and not learner_module(group):
                found[group.__name__] = group
                waiting.append(group)
    return dict(sorted(found.items()))


def settings_page() -> str:
    """The settings that many learners and protocols share, and those inside them."""
    text = "# Settings that learners share\n\nEach is a group: `--set mlp.stop.epochs=5`."
    for name, cls in setting_groups().items():
        text += f"\n\n## {name}\n\n{markdown(parts(cls)[''])}\n\n{settings(cls, '')}"
    return text + "\n"


# ---------------------------------------------------------------------- metrics, presets, orders


def metrics_page() -> str:
    """Every metric with its formula and source."""
    functions = dict(unrecorded_metrics.FUNCTIONS)
    for home in (few_shot_scores, against_chance, metrics):
        functions |= vars(home)
    named = {row["name"]: functions[row["name"]] for row in entries("metrics")}
    named |= {f.__name__: f for f in (*label_set_scores.CURVES, label_set_scores.depth_pw_js)}
    text = "# Metrics\n\nAs the code has them. What they hide: [scores and metrics](../metrics.md)."
    for name, function in named.items():
        text += f"\n\n## `{name}`\n\n{markdown(parts(function)[''])}\n\n{example(function)}"
    return text + "\n"


def presets_page() -> str:
    """Every preset that ships, as its file is."""
    text = "# Presets\n\n`run --preset NAME` takes all settings of a file; `--set` changes them."
    for name in presets.preset_names():
        _, _, toml = (presets.FOLDER / f"{name}{presets.SUFFIX}").read_text("utf-8").partition("\n")
        text += f"\n\n## {name}\n\n{markdown(presets.about(name)[0])}\n\n"
        text += f"```toml\n{toml.strip()}\n```"
    return text + "\n"


def orders_page() -> str:
    """The class orders that streams take, and those that `embedbench order` makes."""
    known, made = parameters(class_order.class_order), parts(make_class_order)[""]
    kinds = ", ".join(f"`{kind}`" for kind in make_class_order.KINDS)
    return (
        "# Class orders\n\n`--order` of `embedbench run` takes one of "
        f"{', '.join(f'`{name}`' for name in class_order.ORDERS)}, or an order file.\n\n"
        f"{markdown(known['order'][1])}\n\n## Orders that are made\n\n"
        f"`embedbench order FILE --kind KIND --out ORDER.json` writes an order file. "
        f"The kinds: {kinds}.\n\n{markdown(made)}\n"
    )


# ------------------------------------------------------------------ the JSON that commands write

TITLES = {
    "`record.json`": run_record.RunRecord,
    "`score --json`": verified_records.RescoredRun,
    "`report --json`": tables_from_runs.to_json,
    "`report --json` with `--compare`, `--pairs` or `--by`": comparison_tables.comparison_json,
    "With `--compare`": comparison_tables.rank_learners,
    "With `--pairs`": comparison_tables.list_pairs,
    "With `--by order`": comparison_tables.spread_over_orders,
    "With `--by seeds`": comparison_tables.spread_over_seeds,
    "`report --bridge --json`": frozen_vs_full.bridge,
}
JSON = {
    "tuple": "list",
    "tuples": "lists",
    "dict": "object",
    "str": "text",
    "float": "number",
    "None": "null",
    "NaN": "null",
}


def json_page() -> str:
    """Every file and output, with a row for each key."""
    text = (
        "# JSON, key by key\n\nThese tables are made from the code; what the keys are for says "
        "[the record](../record.md). NaN is `null`, an infinity the text `inf` or `-inf`; scores "
        "are fractions, times seconds, sizes bytes. A key whose type ends with *or absent* is left "
        "out where there is nothing to say, and in records made before there was such a key."
    )
    for title, thing in TITLES.items():
        text += f"\n\n## {title}\n\n{markdown(parts(thing)[''])}"
        if isinstance(thing, type):
            text += f"\n\n{table(('key', 'type', 'meaning'), keys(thing))}"
    return text + "\n"


def keys(
    cls: type, path: str = "", seen: dict[type, str] | None = None
) -> Iterator[tuple[str, str, str]]:
    """The keys of a dataclass and of those inside it: paths, type, meaning.

    Keys that the docstring describes together have one row. `seen` is where a dataclass inside had
    its rows, so that it has them once.
    """
    seen = {} if seen is None else seen
    known = inherited_parameters(cls)
    hints = typing.get_type_hints(cls)
    rows: dict[tuple[str, str], list[str]] = {}
    inner: list[tuple[type, str]] = []
    for field in dataclasses.fields(cls):
        if field.metadata.get("unwritten"):
            continue
        name = path + field.metadata.get("key", field.name)
        kind, meaning = known[field.name]
        if field.metadata.get("absent"):
            kind = kind.replace("or None", "or absent")
        part, many = inside(hints[field.name])
        if part is not None and part not in TITLES.values():
            kind = kind.replace(part.__name__, "object")
            if part in seen:
                meaning += f" Keys as of `{seen[part]}`."
            else:
                seen[part] = name + many
                inner.append((part, f"{name}{many}."))
        rows.setdefault((kind, meaning), []).append(f"`{name}`")
    for (kind, meaning), names in rows.items():
        kind, meaning = (
            re.sub(r"\w+", lambda word: JSON.get(word[0], word[0]), text)
            for text in (kind, meaning)
        )
        yield ", ".join(names), kind, cell(markdown(meaning))
    for part, above in inner:
        yield from keys(part, above, seen)


def inside(hint: Any) -> tuple[type | None, str]:
    """The dataclass in a type, and how a path names one of several: `[i]`, `.NAME`."""
    if dataclasses.is_dataclass(hint):
        return typing.cast(type, hint), ""
    many = {tuple: "[i]", dict: ".NAME"}.get(typing.get_origin(hint) or hint, "")
    for part in typing.get_args(hint):
        found, deeper = inside(part)
        if found is not None:
            return found, many + deeper
    return None, ""


# ------------------------------------------------------------------- the command line and Python


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
    text += "".join(f"\n\n{autodoc(name, home, '###')}" for name, home in BEHIND.items())
    return text + "\n"


def autodoc(name: str, home: str, level: str = "##") -> str:
    """One name with its docstring, and a class with its public members."""
    thing = getattr(importlib.import_module(f"embedbench.{home}"), name)
    form = "class" if isinstance(thing, type) else "function"
    members = "\n   :members:" if form == "class" else ""
    said = f".. auto{form}:: embedbench.{home}.{name}{members}"
    return f"{level} {name}\n\n```{{eval-rst}}\n{said}\n```"
