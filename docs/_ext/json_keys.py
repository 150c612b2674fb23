"""The page of the JSON that commands write, from the dataclasses that write it."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Iterator
from typing import Any

from docstrings import cell, markdown, parts, table

from embedbench.config.describe_settings import inherited_parameters
from embedbench.reports import comparison_tables, frozen_vs_full, tables_from_runs
from embedbench.scores import run_record, verified_records

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


def page() -> str:
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
