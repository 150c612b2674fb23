"""Options as TOML: tables to the words of a command line, and back.

A value is the text that would follow `=` in `--set`. Numbers are taken as they are written.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from embedbench.config.json_records import parse_toml
from embedbench.errors import UserError, short
from embedbench.storage.regular_files import read_text

from .set_and_tune_options import Key, Settings

MOST = 2**20  # bytes of a study file
DEEPEST = 20  # levels of nested tables
MOST_KEYS = 10_000  # of a table, after names with commas are taken apart
LONGEST = 1000  # characters of a key

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_NUMBER = re.compile(r"0|-?[1-9]\d{0,17}|-?(0|[1-9]\d*)(\.\d+([eE][+-]?\d+)?|[eE][+-]?\d+)")


def read_toml(path: Path) -> dict[str, Any]:
    """The table of a TOML file; floats are texts, as they are written."""
    return parse_toml(read_text(path, most=MOST), str(path))


def toml_to_text(value: Any, where: str) -> str:
    """The text of one value.

    Raises
    ------
    UserError
        It is a list, a table or a date.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        if isinstance(value, str | int):
            return str(value)
    except ValueError:  # an integer of more than 4,300 digits
        value = "a number of thousands of digits"
    raise UserError(
        f'{where} must be a text, a number, true or false, got {short(value)}; None is "none"'
    )


def toml_to_texts(value: Any, where: str) -> tuple[str, ...]:
    """The texts of a list; of a single value, that one."""
    listed = value if isinstance(value, list) else [value]
    return tuple(toml_to_text(one, where) for one in listed)


def flat_table(table: Any, where: str) -> Iterator[tuple[Key, Any]]:
    """Yield keys with dots and their values from nested tables.

    A first key with commas, `"ewc,mlp"`, means each of these names.

    Raises
    ------
    UserError
        It is no table, one nested too deep, or one of too many or too long keys.

    Examples
    --------
    >>> [(str(key), value) for key, value in flat_table({"a,b.c": {"d": "1"}}, "here")]
    [('a.d', '1'), ('b.c.d', '1')]
    """
    if not isinstance(table, dict):
        raise UserError(f"{where} must be a table, got {short(table)}")
    pairs = (
        pair
        for first, value in table.items()
        for name in first.split(",")
        for pair in _flat(name.strip(), value, where, DEEPEST)
    )
    for number, (key, value) in enumerate(pairs):
        if number == MOST_KEYS:
            raise UserError(f"{where} has more than {MOST_KEYS:,} keys; cut it into several files")
        yield Key.parse(key), value


def toml_settings(table: Any, where: str) -> Settings:
    """The settings of a table, as `--set` takes them."""
    return {key: toml_to_text(value, f"{where}.{key}") for key, value in flat_table(table, where)}


def _flat(key: str, value: Any, where: str, levels: int) -> Iterator[tuple[str, Any]]:
    if len(key) > LONGEST:
        raise UserError(f"{where} has a key of more than {LONGEST:,} characters; shorten it")
    if not isinstance(value, dict):
        yield key, value
    elif not levels:
        raise UserError(f"{where} is nested deeper than {DEEPEST} tables")
    else:
        for name, part in value.items():
            yield from _flat(f"{key}.{name}", part, where, levels - 1)


def write_toml(values: Mapping[str, Any]) -> str:
    """TOML of texts, lists of texts (or of such lists), and tables of these by `Key`.

    >>> table = {Key("ewc", "lam"): "1e2", Key("my.mod:Mine", "on"): "true"}
    >>> print(write_toml({"seeds": "0-2", "set": table}))
    seeds = "0-2"
    <BLANKLINE>
    [set]
    ewc.lam = 1e2
    "my.mod:Mine".on = true
    <BLANKLINE>
    """
    plain = [f"{k} = {_value(v)}" for k, v in values.items() if not isinstance(v, dict)]
    lines = ["\n".join(plain) + "\n"] if plain else []
    for name, table in values.items():
        if isinstance(table, dict) and table:
            rows = [f"{_key(k, table)} = {_value(v)}" for k, v in table.items()]
            lines.append("\n".join([f"[{name}]", *rows]) + "\n")
    return "\n".join(lines)


def _key(key: Key, table: Mapping[Key, Any]) -> str:
    """A key with dots; the dots of `package.module:Name` do not divide it."""
    text = str(key)
    if any(o.startswith(f"{text}.") or text.startswith(f"{o}.") for o in map(str, table)):
        return _quoted(text)  # TOML has no key that is both a value and a table
    parts = [key.head, *(key.name.split(".") if key.name else [])]
    return ".".join(part if _BARE.fullmatch(part) else _quoted(part) for part in parts)


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if value in ("true", "false") or _NUMBER.fullmatch(value):
        return str(value)
    return _quoted(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
