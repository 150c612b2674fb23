"""Study files: a study as TOML, which docs/studies.md describes.

The keys are those of `Study`, written with `-`. A study file names what is installed; code that it
names by `package.module:Name` is imported only if the user allows it, and never from the working
directory. A value is the text that would follow `=` in `--set`; numbers are taken as they are
written.
"""

import importlib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from embedbench.config import json_records, run_seeds
from embedbench.errors import UserError, short, unknown
from embedbench.storage.regular_files import read_text
from embedbench.system.cpu_threads import MOST_THREADS

from .study import Key, Lists, Settings, Study, split_names

KEYS = tuple(f.name for f in fields(Study))
ENGINES = ("local", "ray", "slurm")  # what follows their ":" is no code
MOST = 2**20  # bytes of a study file
DEEPEST = 20  # levels of nested tables
MOST_KEYS = 10_000  # of a table, after names with commas are taken apart
LONGEST = 1000  # characters of a key

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_NUMBER = re.compile(r"0|-?[1-9]\d{0,17}|-?(0|[1-9]\d*)(\.\d+([eE][+-]?\d+)?|[eE][+-]?\d+)")


def read_study(path: Path, *, allow_code: bool = False) -> Study:
    """Read a study file.

    Parameters
    ----------
    allow_code : bool
        Whether it may name code by `package.module:Name`, which is imported here, or the address
        of a Ray cluster, whose answers are pickles.
    """
    values: dict[str, Any] = {}
    for key, value in read_toml(path).items():
        if key == "report":  # what to show of the runs, which `embedbench report` reads
            continue
        name = key.replace("-", "_")
        if name not in KEYS:
            plural = [_dashed(k) for k in KEYS if k == f"{name}s"]  # `protocol` is `protocols`
            error = unknown("key", key, [_dashed(k) for k in KEYS], plural)
            raise UserError(f"{path}: {error}")
        read = _READERS.get(name, toml_to_text)
        values[name] = read(value, f"{path}: {key}")
    study = Study(**values)
    for name in _code(study):
        if not allow_code:
            raise UserError(
                f"{path} names code, {short(name)}; add --allow-code if you trust it, or install a "
                "package that offers it by a name"
            )
        _import_installed(name, path)
    if study.engine and study.engine.startswith("ray:") and not allow_code:
        raise UserError(
            f"{path} names a Ray cluster, {short(study.engine)}, whose answers can run code here; "
            "add --allow-code if you trust it, or name it with --engine"
        )
    return study


def study_text(study: Study) -> str:
    """A study as the text of a study file."""
    values = {}
    for name in KEYS:
        value = getattr(study, name)
        if name == "files":
            value = [one[0] if len(one) == 1 else one for one in value]
        elif name in ("seeds", "tune_seeds") and value:
            value = run_seeds.format_seeds(value)
        elif name == "engine_set":
            value = {Key.parse(key): one for key, one in value.items()}
        elif isinstance(value, int | float):
            value = f"{value:.17g}" if isinstance(value, float) else str(value)
        if value not in (None, (), [], {}):
            values[_dashed(name)] = dict(value) if isinstance(value, Mapping) else value
    return write_toml(values)


def _dashed(key: str) -> str:
    return key.replace("_", "-")


def _files(value: Any, where: str) -> tuple[tuple[str, ...], ...]:
    listed = value if isinstance(value, list) else [value]
    return tuple(toml_to_texts(one, where) for one in listed)


def _names(value: Any, where: str) -> tuple[str, ...]:
    """Names in a list, or in one text with commas."""
    return tuple(name for text in toml_to_texts(value, where) for name in split_names(text))


def _seeds(value: Any, where: str) -> tuple[int, ...]:
    return tuple(run_seeds.parse_seeds(",".join(toml_to_texts(value, where))))


def _lists(value: Any, where: str) -> Lists:
    """Lists of values by key."""
    lists = {k: toml_to_texts(v, f"{where}.{k}") for k, v in flat_table(value, where)}
    for key, values in lists.items():
        if not values or any("," in v or not v.strip() for v in values):
            raise UserError(f"{where}.{key} must list values without commas, got {short(values)}")
    return lists


def _whole(most: int) -> Callable[[Any, str], int]:
    return lambda value, where: run_seeds.read_whole(toml_to_text(value, where), where, 1, most)


def _number(value: Any, where: str) -> float:
    text = toml_to_text(value, where)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1e9:
        raise UserError(f"{where} must be a number from 0 to 1e9, got {short(text)}")
    return number


# --- options as TOML: to the texts of a command line, and back ---


def read_toml(path: Path) -> dict[str, Any]:
    """The table of a TOML file; floats are texts, as they are written."""
    return json_records.parse_toml(read_text(path, most=MOST), str(path))


def toml_to_text(value: Any, where: str) -> str:
    """The text of one value."""
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


_READERS: dict[str, Callable[[Any, str], object]] = {
    "files": _files,
    "protocols": _names,
    "learners": _names,
    "orders": toml_to_texts,
    "vary": _names,
    "seeds": _seeds,
    "threads": _whole(MOST_THREADS),
    "tune_sessions": _whole(10**6),
    "tune_seeds": _seeds,
    "trials": _whole(10**6),
    "budget_mb": _number,
    "budget_passes": _number,
    "set": toml_settings,
    "engine_set": lambda *given: {str(k): v for k, v in toml_settings(*given).items()},
    "tune": _lists,
    "grid": _lists,
}


def _code(study: Study) -> Iterable[str]:
    """The names in a study that are code by its path."""
    engine = study.engine or ""
    if engine.partition(":")[0] not in ENGINES:
        yield from (engine,) if ":" in engine else ()
    yield from (n for n in (*study.protocols, *study.learners) if ":" in n)


def _import_installed(name: str, path: Path) -> None:
    """Import the module of `package.module:Name`; the working directory is not added to the path.

    Whoever loads the name later gets this module.
    """
    module = name.partition(":")[0]
    try:
        importlib.import_module(module)
    except (Exception, SystemExit) as e:  # the module may fail in any way
        raise UserError(
            f"cannot import {module!r} for {short(name)} of {path} ({e}); install it, or name it "
            "on the command line"
        ) from e
